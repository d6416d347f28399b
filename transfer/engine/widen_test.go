package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// gated is a rail that registers nothing while its gate is locked.
type gated struct {
	Rail
	gate chan struct{}
}

func (g *gated) Register(mem []byte) (*transfer.Region, error) {
	g.gate <- struct{}{}
	defer func() { <-g.gate }()
	return g.Rail.Register(mem)
}

// TestWidenedTooLate: a region that is withdrawn while it is being registered with
// more rails, as the peer has asked, and whose name is granted anew, ends nothing.
func TestWidenedTooLate(t *testing.T) {
	gate := make(chan struct{}, 1)
	engines := 0
	p := newPairWith(t, 2, 2, patience, Options{CoolDown: time.Hour, Near: nearFirst}, func(specs []RailSpec) {
		if engines++; engines == 2 {
			open := specs[1].Open
			specs[1].Open = func() (Rail, error) {
				r, err := open()
				return &gated{r, gate}, err
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	everywhere := p.region
	p.at("near", "near")
	gate <- struct{}{}
	near := p.e[0].rails[0]
	near.w.call(func() { p.peer[0].at[near.w.index].links[near.local].fail(errors.New("by the test")) })
	w, err := p.peer[0].Write(ctx, Move{Local: everywhere[0], Remote: p.target, Segments: []Segment{{Length: 4096}}})
	if err != nil {
		t.Fatal(err)
	}
	for widening := false; !widening; time.Sleep(time.Millisecond) {
		p.peer[1].mu.Lock()
		widening = p.peer[1].grants["nearnear"].widening
		p.peer[1].mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("the peer was not asked for keys")
		}
	}
	if err := p.peer[1].Withdraw(ctx, "nearnear"); err != nil {
		t.Error(err)
	}
	if err := w.Wait(ctx); !errors.Is(err, ErrRights) {
		t.Errorf("a transfer to what was withdrawn: %v", err)
	}
	if err := p.peer[1].Grant("nearnear", everywhere[1], Write); err != nil {
		t.Fatal(err)
	}
	<-gate
	if err := p.region[1].Close(); err != nil { // it waits until it is registered
		t.Error(err)
	}
	p.region = everywhere
	if p.target, err = p.peer[0].Target(ctx, "nearnear"); err != nil {
		t.Fatal(err)
	}
	p.transfer(ctx)
}

// nearFirst says that whatever has a place is near to the first NIC.
func nearFirst(at Place) []int {
	if at.Device == "" {
		return nil
	}
	return []int{0}
}

// newRefusing is a pair of 2 rails of a worker each, whose engine 0 registers with
// the first one only; that has failed.
func newRefusing(t *testing.T, railTime time.Duration) *pair {
	var refuse atomic.Bool
	engines := 0
	p := newPairWith(t, 2, 2, patience, Options{CoolDown: time.Hour, RailTime: railTime, Near: nearFirst}, func(specs []RailSpec) {
		if engines++; engines == 1 {
			open := specs[1].Open
			specs[1].Open = func() (Rail, error) {
				r, err := open()
				return &refusing{r, &refuse}, err
			}
		}
	})
	p.at("near", "near")
	refuse.Store(true)
	near := p.e[0].rails[0]
	near.w.call(func() { p.peer[0].at[near.w.index].links[near.local].fail(errors.New("by the test")) })
	return p
}

// TestNoRailThoughOthersCome: a transfer without a way ends in time, however often
// something changes that is of no use to it.
func TestNoRailThoughOthersCome(t *testing.T) {
	p := newRefusing(t, 200*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, notify := range []Notify{{}, Counts(2)} {
		w, err := p.peer[0].Write(ctx, Move{Local: p.region[0], Remote: p.target, Segments: []Segment{{Length: 4096}}, Notify: notify})
		if err != nil {
			t.Fatal(err)
		}
		for !w.Ended() && ctx.Err() == nil {
			p.peer[0].unpark()
			time.Sleep(time.Millisecond)
		}
		if err := w.Err(); !errors.Is(err, ErrNoRail) {
			t.Errorf("it ended with %v (%v)", err, ctx.Err())
		}
	}
}

// TestWaitsNoMore: a job that has found a way begins to wait anew when it has none
// again.
func TestWaitsNoMore(t *testing.T) {
	p := newPair(t, Options{MaxPiece: 4096})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, m := range []Move{{Segments: []Segment{{Length: 4096}}}, {Segments: []Segment{{Length: 4096}}, Notify: Counts(2)}, {Segments: []Segment{{Length: 16384}}, Notify: Counts(2)}} {
		m.Local, m.Remote = p.region[0], p.target
		w, err := p.peer[0].prepare(transfer.OpWrite, Write, &m)
		if err != nil {
			t.Fatal(err)
		}
		w.jobs[0].waits = true
		if _, err := p.peer[0].submit(ctx, w); err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if w.jobs[0].waits {
			t.Errorf("%+v: it has ended, and waits", m.Segments)
		}
	}
}

// TestAllWithoutAWay: of many jobs that have no way each is put aside, or none of
// them but the first would ask for one, and end in time.
func TestAllWithoutAWay(t *testing.T) {
	p := newRefusing(t, patience)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []*Transfer
	for range 100 {
		w, err := p.peer[0].prepare(transfer.OpWrite, Write, &Move{Local: p.region[0], Remote: p.target, Segments: []Segment{{Length: 4096}}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	a := all[0].jobs[0].at
	a.w.call(func() {
		for _, w := range all {
			a.enqueue(&w.jobs[0])
		}
		a.stage(a.w.e.o.Batch)
		if n := len(a.parked); n != len(all) {
			t.Errorf("%d of %d are put aside", n, len(all))
		}
	})
	for _, w := range all {
		w.Cancel()
		if err := w.Wait(ctx); !errors.Is(err, ErrCancelled) {
			t.Error(err)
		}
	}
}
