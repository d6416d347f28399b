package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
)

// newFar is a pair of 4 rails, of which the first ones are near to "a" and down. Of
// the others, those of the set register nothing while refuse is set, on one side.
func newFar(t *testing.T, near, side int, refuse *atomic.Bool, refusers ...int) *pair {
	made := 0
	first := func(at Place) []int { return []int{0, 1, 2, 3}[:near] }
	o := Options{MaxPiece: 4096, Near: first, CoolDown: 20 * time.Millisecond, RailTime: patience, FenceTime: patience}
	p := newPairWith(t, 4, 2, 100*time.Millisecond, o, func(specs []RailSpec) {
		if made++; made-1 != side {
			return
		}
		for _, i := range refusers {
			open := specs[i].Open
			specs[i].Open = func() (Rail, error) {
				r, err := open()
				return &refusing{r, refuse}, err
			}
		}
	})
	p.at("a", "a")
	for i := range near {
		p.nics[fmt.Sprint("efa_", i)].Faults().Set(device.FaultPlan{LinkDown: true})
	}
	refuse.Store(true)
	return p
}

// TestOneRefuses: when one of the rails that memory is to be registered with does
// not take it, another does.
func TestOneRefuses(t *testing.T) {
	for side := range 2 {
		var refuse atomic.Bool
		p := newFar(t, 2, side, &refuse, 2)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 3 {
			p.transfer(ctx)
		}
		railsOf(t, "the side that refuses", p.region[side], 0, 1, 3)
	}
}

// TestTheOnlyOneRefuses: memory that is near to one rail is registered with one other
// in its place; when that does not take it on one side, a third serves both.
func TestTheOnlyOneRefuses(t *testing.T) {
	for side := range 2 {
		var refuse atomic.Bool
		p := newFar(t, 1, side, &refuse, 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 3 {
			p.transfer(ctx)
		}
		if have := p.region[side].have.load(); have.has(1) || have.count() < 2 {
			t.Errorf("side %d is registered with rails %v", side, p.region[side].Rails())
		}
	}
}

// TestAskedAgain: rails that did not take memory are asked again after a time, with
// what waits for them.
func TestAskedAgain(t *testing.T) {
	for side := range 2 {
		var refuse atomic.Bool
		p := newFar(t, 2, side, &refuse, 2, 3)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		w, err := p.peer[0].Write(ctx, Move{Local: p.region[0], Remote: p.target, Segments: []Segment{{Length: 4096}}})
		if err != nil {
			t.Fatal(err)
		}
		refused := func() int {
			if have := p.region[1].refused.load(); side == 1 {
				return have.count()
			}
			have := p.region[0].refused.load()
			return have.count()
		}
		for refused() < 2 {
			if ctx.Err() != nil || w.Ended() {
				t.Fatalf("side %d: %d rails have refused (%v)", side, refused(), w.Err())
			}
			time.Sleep(100 * time.Microsecond)
		}
		refuse.Store(false)
		if err := w.Wait(ctx); err != nil {
			t.Fatalf("side %d: %v", side, err)
		}
		p.transfer(ctx)
	}
}
