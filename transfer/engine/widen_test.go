package engine

import (
	"context"
	"errors"
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
