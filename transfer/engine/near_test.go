package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
)

// twoHalves says that of 4 NICs the first two are near to "a", the others to "b".
func twoHalves(at Place) []int {
	switch at.Device {
	case "a":
		return []int{0, 1}
	case "b":
		return []int{2, 3}
	}
	return nil
}

const patience = 2 * time.Minute

// at has the pair transfer between other regions: of engine 0 at one place, of
// engine 1 at another, granted under the places' names.
func (p *pair) at(local, remote string) {
	p.t.Helper()
	for i, place := range []string{local, remote} {
		r, err := p.e[i].RegisterAt(p.mem[i], Place{Device: place})
		if err != nil {
			p.t.Fatal(err)
		}
		p.region[i] = r
	}
	name := local + remote
	if err := p.peer[1].Grant(name, p.region[1], Read|Write); err != nil {
		p.t.Fatal(err)
	}
	var err error
	if p.target, err = p.peer[0].Target(p.t.Context(), name); err != nil {
		p.t.Fatal(err)
	}
	p.allUp()
}

// allUp waits until every rail is up, on both sides.
func (p *pair) allUp() {
	p.t.Helper()
	for range patience.Milliseconds() {
		if p.ups() == 2*len(p.e[0].rails) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	p.t.Fatalf("%d of %d rails are up", p.ups(), 2*len(p.e[0].rails))
}

// ups is how many rails are up, on both sides.
func (p *pair) ups() (n int) {
	for _, e := range p.e {
		for _, s := range e.Stats() {
			n += s.Up
		}
	}
	return n
}

// carried tells what each rail of engine 0 has placed since the last call.
func (p *pair) carried(before *[]uint64) []bool {
	for _, w := range p.e[0].workers {
		w.call(func() {}) // numbers are shown at the end of a step
	}
	var now []uint64
	var moved []bool
	for i, s := range p.e[0].Stats() {
		now = append(now, s.Bytes)
		moved = append(moved, *before != nil && s.Bytes > (*before)[i])
	}
	*before = now
	return moved
}

func onlyRails(t *testing.T, what string, got []bool, want ...int) {
	t.Helper()
	for i, moved := range got {
		if moved && !slices.Contains(want, i) {
			t.Errorf("%s: rail %d carried bytes; only %v were to", what, i, want)
		}
	}
	for _, i := range want {
		if !got[i] {
			t.Errorf("%s: rail %d carried nothing", what, i)
		}
	}
}

func railsOf(t *testing.T, what string, r *Region, want ...int) {
	t.Helper()
	if got := r.Rails(); !slices.Equal(got, want) {
		t.Errorf("%s is registered with rails %v, want %v", what, got, want)
	}
}

// TestNearRails: memory is registered with its near rails, and transfers go by
// these alone, whatever worker has them.
func TestNearRails(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPairWith(t, 4, workers, patience, Options{MaxPiece: 4096, Near: twoHalves}, func([]RailSpec) {})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var bytes []uint64
		p.carried(&bytes)
		for _, place := range []struct {
			name string
			near []int
		}{{"a", []int{0, 1}}, {"b", []int{2, 3}}, {"anywhere", []int{0, 1, 2, 3}}} {
			p.at(place.name, place.name)
			for range 4 {
				p.transfer(ctx)
			}
			railsOf(t, "the local memory", p.region[0], place.near...)
			railsOf(t, "the peer's memory", p.region[1], place.near...)
			onlyRails(t, place.name, p.carried(&bytes), place.near...)
		}
	}
}

// TestNearToOthers: memory that has no rail in common with the peer's is registered
// where that is, once.
func TestNearToOthers(t *testing.T) {
	p := newPairWith(t, 4, 2, patience, Options{MaxPiece: 4096, Near: twoHalves}, func([]RailSpec) {})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var bytes []uint64
	p.at("a", "b")
	p.carried(&bytes)
	for range 4 {
		p.transfer(ctx)
	}
	onlyRails(t, "from a to b", p.carried(&bytes), 2, 3)
	railsOf(t, "the local memory", p.region[0], 0, 1, 2, 3)
	railsOf(t, "the peer's memory", p.region[1], 2, 3)
}

// TestNearRailsAreLost: while no near rail is up, both sides register with others,
// on demand, and what was under way goes by these; near ones that come again have
// what comes then.
func TestNearRailsAreLost(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPairOf(t, 4, workers, Options{MaxPiece: 4096, Near: twoHalves, CoolDown: 50 * time.Millisecond, FenceTime: patience})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		p.at("a", "a")
		p.transfer(ctx)
		for _, nic := range []string{"efa_0", "efa_1"} {
			p.nics[nic].Faults().Set(device.FaultPlan{LinkDown: true})
		}
		for range 4 {
			p.transfer(ctx)
		}
		if s := p.e[0].Stats(); s[0].Losses == 0 || s[1].Losses == 0 {
			t.Fatalf("no rail was lost: %+v", s)
		}
		for i, r := range p.region {
			if have := r.Rails(); len(have) < 3 {
				t.Errorf("engine %d: registered with rails %v only", i, have)
			}
		}
		for _, nic := range []string{"efa_0", "efa_1"} {
			p.nics[nic].Faults().Clear()
		}
		var bytes []uint64
		p.carried(&bytes)
		for far := true; far && !t.Failed(); {
			p.transfer(ctx)
			got := p.carried(&bytes)
			far = got[2] || got[3]
		}
	}
}

// refusing is a rail that registers nothing while refuse is set.
type refusing struct {
	Rail
	refuse *atomic.Bool
}

func (r *refusing) Register(mem []byte) (*transfer.Region, error) {
	if r.refuse.Load() {
		return nil, errors.New("no room for keys")
	}
	return r.Rail.Register(mem)
}

// TestNoRailBetween: memory that can be registered with no rail that is up fails
// its transfers in Options.RailTime, and says why; others go on.
func TestNoRailBetween(t *testing.T) {
	for _, side := range []int{0, 1} {
		var refuse [2]atomic.Bool
		made := 0
		p := newPairWith(t, 2, 2, patience, Options{MaxPiece: 4096, CoolDown: time.Hour, RailTime: 200 * time.Millisecond, Near: func(at Place) []int {
			if at.Device == "" {
				return nil
			}
			return []int{0}
		}}, func(specs []RailSpec) {
			mine := &refuse[made]
			made++
			for i := range specs {
				open := specs[i].Open
				specs[i].Open = func() (Rail, error) {
					r, err := open()
					return &refusing{r, mine}, err
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		all, everywhere := p.region, p.target
		p.at("near", "near")
		p.transfer(ctx)
		refuse[side].Store(true)
		near := p.e[0].rails[0]
		near.w.call(func() { p.peer[0].at[near.w.index].links[near.local].fail(errors.New("by the test")) })
		for _, notify := range []Notify{{}, Counts(2)} {
			w, err := p.peer[0].Write(ctx, Move{Local: p.region[0], Remote: p.target, Segments: []Segment{{Length: 4096}}, Notify: notify})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Wait(ctx); !errors.Is(err, ErrNoRail) || side == 0 && !strings.Contains(err.Error(), "no room for keys") {
				t.Errorf("side %d refuses: %v", side, err)
			}
		}
		p.region, p.target = all, everywhere
		p.transfer(ctx)
	}
}
