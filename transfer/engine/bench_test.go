package engine

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/transfer"
)

// nullRail completes what is posted at the next poll, in order, and moves
// nothing: what is left is the engine's own work.
type nullRail struct {
	depth   int
	pending []uint64
}

func (r *nullRail) Info() transfer.Info { return transfer.Info{Device: "null", NICs: 1} }
func (r *nullRail) Register(mem []byte) (*transfer.Region, error) {
	return transfer.NewRegion(0x1000, uint64(len(mem)), 1, 1, func() error { return nil }), nil
}
func (r *nullRail) RegisterExport(*transfer.Export) (*transfer.Region, error) { return nil, nil }
func (r *nullRail) Offer() (transfer.Peer, []byte, error)                     { return 0, []byte("null"), nil }
func (r *nullRail) Accept(transfer.Peer, []byte) error                        { return nil }
func (r *nullRail) Disconnect(transfer.Peer) error                            { return nil }
func (r *nullRail) Post(ops []transfer.Op) (int, error) {
	n := min(len(ops), r.depth-len(r.pending))
	for i := range ops[:n] {
		r.pending = append(r.pending, ops[i].ID)
	}
	return n, nil
}
func (r *nullRail) Poll(out []transfer.Completion) (int, error) {
	n := min(len(out), len(r.pending))
	for i := range n {
		out[i] = transfer.Completion{Kind: transfer.Done, ID: r.pending[i]}
	}
	r.pending = r.pending[:copy(r.pending, r.pending[n:])]
	return n, nil
}
func (r *nullRail) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (r *nullRail) Depth() int                     { return r.depth }
func (r *nullRail) Receives() int                  { return 1 << 16 }
func (r *nullRail) Close() error                   { return nil }

// BenchmarkEngine is the engine's own work for a request, by batches of pages and
// by single writes, on rails that do nothing.
func BenchmarkEngine(b *testing.B) {
	for _, rails := range []int{1, 4} {
		for _, pages := range []int{1, 16, 256} {
			b.Run(name(rails, pages), func(b *testing.B) { benchEngine(b, rails, pages) })
		}
	}
}

func name(rails, pages int) string {
	return time.Duration(rails).String()[:1] + "rails/" + map[int]string{1: "1page", 16: "16pages", 256: "256pages"}[pages]
}

func benchEngine(b *testing.B, rails, pages int) {
	var specs []RailSpec
	for range rails {
		specs = append(specs, RailSpec{Open: func() (Rail, error) { return &nullRail{depth: 256}, nil }})
	}
	var ends [2]*Engine
	var peers [2]*Peer
	for i := range ends {
		e, err := New(Options{Rails: specs})
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		ends[i] = e
	}
	ctx := context.Background()
	d, l := Pipe()
	accepted := make(chan error, 1)
	go func() {
		var err error
		peers[1], err = ends[1].Connect(ctx, l, false)
		accepted <- err
	}()
	var err error
	if peers[0], err = ends[0].Connect(ctx, d, true); err != nil {
		b.Fatal(err)
	}
	if err := <-accepted; err != nil {
		b.Fatal(err)
	}
	mem := make([]byte, 1<<20)
	var regions [2]*Region
	for i, e := range ends {
		if regions[i], err = e.Register(mem); err != nil {
			b.Fatal(err)
		}
	}
	peers[1].Grant("m", regions[1], Write)
	target, err := peers[0].Target(ctx, "m")
	if err != nil {
		b.Fatal(err)
	}
	index := make([]uint32, pages)
	for i := range index {
		index[i] = uint32(i)
	}
	move := Move{Local: regions[0], Remote: target, PageSize: 4096, LocalPages: Pages{Index: index}, RemotePages: Pages{Index: index}}
	// From here on the worker's steps are taken by this goroutine, so that what
	// is measured is one core's work.
	w := ends[0].workers[0]
	w.stop.Store(true)
	w.poke()
	<-w.ended
	const window = 16
	var flight [window]*Transfer
	var before, after unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += pages {
		at := &flight[i/pages%window]
		for *at != nil && !(*at).Ended() {
			w.step()
		}
		if *at != nil {
			(*at).Release()
		}
		if *at, err = peers[0].Write(ctx, move); err != nil {
			b.Fatal(err)
		}
		if i/pages%window == window-1 {
			w.step()
		}
	}
	for _, t := range flight {
		for t != nil && !t.Ended() {
			w.step()
		}
	}
	b.StopTimer()
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/float64(b.N), "cpu-ns/op")
	w.stop.Store(false)
	w.ended = make(chan struct{})
	go w.run()
}
