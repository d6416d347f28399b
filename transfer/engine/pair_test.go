package engine

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// pair is two engines that have joined, and nodes that are free.
type pair struct {
	t      *testing.T
	fabric *transfer.Embedded
	e      [2]*Engine
	peer   [2]*Peer // the other
	region [2]*Region
	mem    [2][]byte
	target *Target // of engine 1
	count  uint64
	nics   map[string]*device.Device // of engine 0
}

func newPair(t *testing.T, o Options) *pair {
	t.Helper()
	return newPairOf(t, 1, 1, o)
}

// newPairOf is two engines of so many NICs and workers.
func newPairOf(t *testing.T, nics, workers int, o Options) *pair {
	t.Helper()
	return newPairWith(t, nics, workers, 100*time.Millisecond, o, func([]RailSpec) {})
}

// newPairWith has NICs wait so long for a peer's answer, and edit change the rails of
// each engine.
func newPairWith(t *testing.T, nics, workers int, timeout time.Duration, o Options, edit func([]RailSpec)) *pair {
	t.Helper()
	fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 3, NICs: nics, PeerTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fabric.Close() })
	p := &pair{t: t, fabric: fabric, nics: make(map[string]*device.Device)}
	for i := range p.e {
		o.Rails = Specs(fabric.Node(i), transfer.Want{Peers: 8}, workers)
		edit(o.Rails)
		if p.e[i], err = New(o); err != nil {
			t.Fatal(err)
		}
		for _, d := range fabric.Fabric().Devices() {
			if i == 0 {
				p.nics[d.Name()] = d
			}
		}
		buf, err := verbs.NewBuffer(64<<10, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.e[i].Close(); err != nil {
				t.Error(err)
			}
			buf.Close()
		})
		p.mem[i] = buf.Bytes()
		if p.region[i], err = p.e[i].Register(p.mem[i]); err != nil {
			t.Fatal(err)
		}
	}
	d, l := Pipe()
	accepted := make(chan error, 1)
	go func() {
		var err error
		p.peer[1], err = p.e[1].Connect(t.Context(), l, false)
		accepted <- err
	}()
	if p.peer[0], err = p.e[0].Connect(t.Context(), d, true); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	p.allUp() // the first rail is enough to be joined
	if err := p.peer[1].Grant("memory", p.region[1], Write); err != nil {
		t.Fatal(err)
	}
	if p.target, err = p.peer[0].Target(t.Context(), "memory"); err != nil {
		t.Fatal(err)
	}
	return p
}

// transfer moves bytes from engine 0 to engine 1 and looks at them.
func (p *pair) transfer(ctx context.Context) {
	p.t.Helper()
	p.count++
	for i := range p.mem[0] {
		p.mem[0][i] = byte(uint64(i)*7 + p.count)
	}
	w, err := p.peer[0].Write(ctx, Move{Local: p.region[0], Remote: p.target, Segments: []Segment{{Length: uint64(len(p.mem[0]))}}, Notify: Counts(1)})
	if err == nil {
		if err = p.peer[1].Counter(1).Wait(ctx, p.count); err != nil && w.Ended() {
			err = errors.Join(err, w.Err())
		}
	}
	if err == nil && !bytes.Equal(p.mem[0], p.mem[1]) {
		p.t.Error("what came differs")
	}
	if err == nil {
		err = w.Wait(ctx)
	}
	if err != nil {
		p.t.Errorf("transfer %d of the honest pair: %v", p.count, err)
	}
}
