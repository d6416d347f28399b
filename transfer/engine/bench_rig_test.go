package engine

import (
	"context"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
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
		c := &out[i]
		c.Kind, c.ID = transfer.Done, r.pending[i]
	}
	r.pending = r.pending[:copy(r.pending, r.pending[n:])]
	return n, nil
}
func (r *nullRail) Wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (r *nullRail) Depth() int                     { return r.depth }
func (r *nullRail) Receives() int                  { return 1 << 16 }
func (r *nullRail) Close() error                   { return nil }

// stamped tells when its rail was posted to.
type stamped struct {
	Rail
	first, last time.Time
}

func (r *stamped) Post(ops []transfer.Op) (int, error) {
	if r.first.IsZero() {
		r.first = time.Now()
	}
	n, err := r.Rail.Post(ops)
	r.last = time.Now()
	return n, err
}

// benchRig is an engine whose steps the benchmark takes, so that what is measured
// is one core's work, and peers that have granted it memory.
type benchRig struct {
	e       *Engine
	nulls   []*efa.Null // of its rails
	stamps  []*stamped
	peers   []*Peer
	targets []*Target
	region  *Region
	all     []*Engine
	ends    []*benchControl
	moves   []Move // of scatter
}

// benchControl is a control connection that the rig pumps.
type benchControl struct {
	other *benchControl
	peer  *Peer
	in    []pipeMessage
}

func (c *benchControl) Send(kind uint16, payload []byte) error {
	c.other.in = append(c.other.in, pipeMessage{kind, append([]byte(nil), payload...)})
	return nil
}
func (c *benchControl) Receive(context.Context) (uint16, []byte, error) {
	return 0, nil, context.Canceled
}
func (c *benchControl) Identity() string { return "bench" }
func (c *benchControl) Left() bool       { return true }
func (c *benchControl) Close() error     { return nil }

type benchShape struct {
	efa   bool // the EFA rail on rings, instead of rails that do nothing
	rails int
	peers int
	stamp bool
}

const benchDepth = 512

func newBenchRig(t testing.TB, s benchShape) *benchRig {
	t.Helper()
	r := new(benchRig)
	manual := &Manual{Wake: func(int) {}, After: func(time.Duration, func()) func() { return func() {} }}
	engine := func(peers int) *Engine {
		own := len(r.all) == 0
		var specs []RailSpec
		for range s.rails {
			specs = append(specs, RailSpec{Open: func() (Rail, error) {
				if !s.efa {
					return &nullRail{depth: benchDepth}, nil
				}
				d, null, err := efa.NewNull("null")
				if err != nil {
					return nil, err
				}
				rail, err := transfer.OpenEFA(transfer.EFAOptions{On: d, SendDepth: benchDepth, Peers: peers})
				if err != nil || !own {
					return rail, err
				}
				r.nulls = append(r.nulls, null)
				if !s.stamp {
					return rail, nil
				}
				r.stamps = append(r.stamps, &stamped{Rail: rail})
				return r.stamps[len(r.stamps)-1], nil
			}})
		}
		e, err := New(Options{Rails: specs, Manual: manual})
		if err != nil {
			t.Fatal(err)
		}
		r.all = append(r.all, e)
		return e
	}
	r.e = engine(s.peers)
	t.Cleanup(func() {
		for _, e := range r.all {
			e.Close()
		}
	})
	buf, err := verbs.NewBuffer(1<<20, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buf.Close() })
	if r.region, err = r.e.Register(buf.Bytes()); err != nil {
		t.Fatal(err)
	}
	for range s.peers {
		other := engine(1)
		region, err := other.Register(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		a, b := new(benchControl), new(benchControl)
		a.other, b.other = b, a
		for _, e := range []struct {
			*Engine
			c *benchControl
		}{{r.e, a}, {other, b}} {
			if err := e.Begin(e.c); err != nil {
				t.Fatal(err)
			}
		}
		for i, e := range []*Engine{r.e, other} {
			c := []*benchControl{a, b}[i]
			hello := c.in[0]
			c.in = c.in[1:]
			if c.peer, err = e.Meet(c, i == 0, hello.kind, hello.payload); err != nil {
				t.Fatal(err)
			}
			r.ends = append(r.ends, c)
		}
		if err := b.peer.Grant("m", region, Write); err != nil {
			t.Fatal(err)
		}
		r.pump()
		target, err := a.peer.Target(context.Background(), "m")
		if err != nil {
			t.Fatal(err)
		}
		if a.peer.Up() != s.rails {
			t.Fatalf("%d of %d rails are connected", a.peer.Up(), s.rails)
		}
		r.peers, r.targets = append(r.peers, a.peer), append(r.targets, target)
	}
	return r
}

// pump delivers messages and takes steps until nothing is left to do.
func (r *benchRig) pump() {
	for busy := true; busy; {
		busy = false
		for _, c := range r.ends {
			for len(c.in) > 0 {
				m := c.in[0]
				c.in, busy = c.in[1:], true
				c.peer.Deliver(m.kind, m.payload)
			}
		}
		for _, e := range r.all {
			for e.Step(0) {
				busy = true
			}
		}
	}
}

func (r *benchRig) complete() {
	for _, n := range r.nulls {
		n.Complete()
	}
}

// pages is a move of the first n pages to a peer.
func (r *benchRig) pages(peer, n int) Move {
	index := make([]uint32, n)
	for i := range index {
		index[i] = uint32(i)
	}
	return Move{Local: r.region, Remote: r.targets[peer], PageSize: 4096, LocalPages: Pages{Index: index}, RemotePages: Pages{Index: index}}
}
