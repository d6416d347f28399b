package engine_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestWriteSegments: whatever the lengths and however many rails and workers, the
// bytes are in place when the notice is.
func TestWriteSegments(t *testing.T) {
	for _, shape := range []struct {
		name          string
		nics, workers int
		most          int
	}{
		{"one rail", 1, 1, 0},
		{"four rails, one worker", 4, 1, 0},
		{"four rails, two workers", 4, 2, 0},
		{"four rails, four workers, small pieces", 4, 4, 4096},
	} {
		t.Run(shape.name, func(t *testing.T) {
			c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: shape.nics, Seed: 1},
				Workers: shape.workers, Engine: engine.Options{MaxPiece: shape.most}})
			a, b := c.nodes[0], c.nodes[1]
			fill(a.mem, 1)
			fill(b.mem, 2)
			want := append([]byte(nil), b.mem...)
			var segments []engine.Segment
			at := uint64(3)
			for i, length := range []uint64{1, 7, 64, 4095, 4096, 4097, 65536, 200_001, 0, 300_000} {
				s := engine.Segment{Local: at, Remote: uint64(len(b.mem)) - at - length - uint64(i), Length: length}
				copy(want[s.Remote:], a.mem[s.Local:s.Local+length])
				segments = append(segments, s)
				at += length + 5
			}
			w := a.write(b, engine.Counts(7), segments...)
			b.counted(a, 7, 1)
			same(t, "after the notice", b.mem, want)
			a.done(w)
			if moved, of := w.Progress(); moved != of || of == 0 {
				t.Errorf("moved %d of %d bytes", moved, of)
			}
		})
	}
}

// TestPages: pages by number, with strides on both sides.
func TestPages(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 4}, Workers: 2})
	a, b := c.nodes[0], c.nodes[1]
	const size, count = 1000, 200
	fill(a.mem, 3)
	want := append([]byte(nil), b.mem...)
	r := rand.New(rand.NewPCG(1, 2))
	local, remote := engine.Pages{Offset: 8, Stride: 1200}, engine.Pages{Offset: 16, Stride: 1100}
	to := r.Perm(count)
	for i, from := range r.Perm(count) {
		local.Index, remote.Index = append(local.Index, uint32(from)), append(remote.Index, uint32(to[i]))
		copy(want[16+1100*to[i]:][:size], a.mem[8+1200*from:])
	}
	w, err := a.peers[b].Write(within(t), engine.Move{Local: a.region, Remote: a.target[b],
		PageSize: size, LocalPages: local, RemotePages: remote, Notify: engine.Counts(0)})
	if err != nil {
		t.Fatal(err)
	}
	b.counted(a, 0, 1)
	same(t, "pages", b.mem, want)
	a.done(w)
}

// TestRead brings the peer's bytes here.
func TestRead(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2}})
	a, b := c.nodes[0], c.nodes[1]
	fill(b.mem, 4)
	r, err := a.peers[b].Read(within(t), engine.Move{Local: a.region, Remote: a.target[b],
		Segments: []engine.Segment{{Local: 100, Remote: 5000, Length: 300_000}}})
	if err != nil {
		t.Fatal(err)
	}
	a.done(r)
	same(t, "read", a.mem[100:300_100], b.mem[5000:305_000])
}

// TestEveryNoticeCountsOnce: many small transfers in both directions at once, by
// several goroutines, each counted.
func TestEveryNoticeCountsOnce(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3, NICs: 2}, Workers: 2})
	const each = 3000 // more than a window of sequences
	ended := make(chan error)
	running := 0
	for _, from := range c.nodes {
		for _, to := range c.nodes {
			if from == to {
				continue
			}
			running++
			go func() {
				var last *engine.Transfer
				for i := range each {
					var err error
					last, err = from.peers[to].Write(within(t), engine.Move{Local: from.region, Remote: from.target[to],
						Segments: []engine.Segment{{Local: uint64(i), Remote: uint64(i), Length: 16}}, Notify: engine.Counts(engine.Number(i % 2))})
					if err != nil {
						ended <- err
						return
					}
				}
				err := last.Wait(within(t))
				for n := range engine.Number(2) {
					err = errors.Join(err, to.peers[from].Counter(n).Wait(within(t), each/2))
				}
				ended <- err
			}()
		}
	}
	for range running {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, to := range c.nodes {
		for _, from := range c.nodes {
			if from != to {
				for n := range engine.Number(2) {
					if got := to.peers[from].Counter(n).Count(); got != each/2 {
						t.Errorf("%d notices of number %d, want %d", got, n, each/2)
					}
				}
			}
		}
	}
}

// TestRefused: what is wrong with a transfer is told before anything is posted.
func TestRefused(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3}})
	a, b, other := c.nodes[0], c.nodes[1], c.nodes[2]
	size := uint64(len(a.mem))
	for _, test := range []struct {
		name string
		move engine.Move
		is   error
	}{
		{"no regions", engine.Move{}, nil},
		{"beyond this side's region", engine.Move{Local: a.region, Remote: a.target[b], Segments: []engine.Segment{{Local: size - 10, Length: 11}}}, engine.ErrRange},
		{"beyond the peer's", engine.Move{Local: a.region, Remote: a.target[b], Segments: []engine.Segment{{Remote: size, Length: 1}}}, engine.ErrRange},
		{"a sum that wraps", engine.Move{Local: a.region, Remote: a.target[b], Segments: []engine.Segment{{Local: ^uint64(0), Length: 2}}}, engine.ErrRange},
		{"another peer's region", engine.Move{Local: a.region, Remote: a.target[other]}, nil},
		{"another engine's region", engine.Move{Local: b.region, Remote: a.target[b]}, nil},
		{"lists of two lengths", engine.Move{Local: a.region, Remote: a.target[b], PageSize: 64, LocalPages: engine.Pages{Index: []uint32{1}}}, nil},
		{"pages that overlap", engine.Move{Local: a.region, Remote: a.target[b], PageSize: 64, LocalPages: engine.Pages{Stride: 8, Index: []uint32{1}}, RemotePages: engine.Pages{Index: []uint32{1}}}, nil},
	} {
		_, err := a.peers[b].Write(within(t), test.move)
		if err == nil || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, err := a.peers[b].Read(within(t), engine.Move{Local: a.region, Remote: a.target[b], Notify: engine.Counts(1)}); err == nil {
		t.Error("a read with a notice was taken")
	}
}

// TestRights: a region is reached as it was granted.
func TestRights(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2}})
	a, b := c.nodes[0], c.nodes[1]
	if err := b.peers[a].Grant("to look at", b.region, engine.Read); err != nil {
		t.Fatal(err)
	}
	target, err := a.peers[b].Target(within(t), "to look at")
	if err != nil {
		t.Fatal(err)
	}
	move := engine.Move{Local: a.region, Remote: target, Segments: []engine.Segment{{Length: 8}}}
	if _, err := a.peers[b].Write(within(t), move); !errors.Is(err, engine.ErrRights) {
		t.Errorf("writing: %v", err)
	}
	if r, err := a.peers[b].Read(within(t), move); err != nil {
		t.Errorf("reading: %v", err)
	} else {
		a.done(r)
	}
}

// TestNothingToMove: a transfer of no bytes ends, and notifies.
func TestNothingToMove(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2}, Workers: 2})
	a, b := c.nodes[0], c.nodes[1]
	a.done(a.write(b, engine.Notify{}))
	w := a.write(b, engine.Counts(3))
	b.counted(a, 3, 1)
	a.done(w)
}
