package mrcache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// TestWhatHits: a request after another, in pages from the arena's beginning, and
// whether it registers.
func TestWhatHits(t *testing.T) {
	type ask struct {
		id       uint64
		from, to int // bytes
		access   mrcache.Access
	}
	for _, c := range []struct {
		name          string
		policy        mrcache.Policy
		first, second ask
		registers     int    // by the second
		from, to      uint64 // what it registers
		reason        string
	}{
		{name: "the same", first: ask{1, 0, page, local}, second: ask{1, 0, page, local}},
		{name: "inside", first: ask{1, 0, 8 * page, local}, second: ask{1, 3 * page, 5 * page, local}},
		{name: "inside, with fewer rights", first: ask{1, 0, page, remote}, second: ask{1, 0, page, local}},
		{name: "four bytes beside four bytes", first: ask{1, 0, 4, local}, second: ask{1, 4, 8, local}},
		{name: "more rights", first: ask{1, 0, page, local}, second: ask{1, 0, page, remote},
			registers: 1, to: page, reason: "access"},
		{name: "other rights", first: ask{1, 0, page, read}, second: ask{1, 0, page, remote},
			registers: 1, to: page, reason: "access"},
		{name: "a part", first: ask{1, 0, 2 * page, local}, second: ask{1, page, 3 * page, local},
			registers: 1, to: 3 * page, reason: "merged"},
		{name: "a part, not merged", policy: mrcache.Policy{NoMerge: true}, first: ask{1, 0, 2 * page, local}, second: ask{1, page, 3 * page, local},
			registers: 1, from: page, to: 3 * page, reason: "partial"},
		{name: "the neighbour", first: ask{1, 0, page, local}, second: ask{1, page, 2 * page, local},
			registers: 1, to: 2 * page, reason: "merged"},
		{name: "a neighbour with other rights", first: ask{1, 0, page, remote}, second: ask{1, page, 2 * page, local},
			registers: 1, from: page, to: 2 * page, reason: "new"},
		{name: "a longer neighbour", first: ask{1, 0, 4 * page, local}, second: ask{1, 4 * page, 5 * page, local},
			registers: 1, from: 4 * page, to: 5 * page, reason: "new"},
		{name: "more than may be merged", policy: mrcache.Policy{MaxMerged: 3 * page}, first: ask{1, 0, 2 * page, local}, second: ask{1, 2 * page, 4 * page, local},
			registers: 1, from: 2 * page, to: 4 * page, reason: "new"},
		{name: "elsewhere", first: ask{1, 0, page, local}, second: ask{1, 2 * page, 3 * page, local},
			registers: 1, from: 2 * page, to: 3 * page, reason: "new"},
		{name: "another allocation at the address", first: ask{1, 0, page, local}, second: ask{2, 0, page, local},
			registers: 1, to: page, reason: "reallocated"},
		{name: "another allocation on a part", first: ask{1, 0, 4 * page, local}, second: ask{2, 3 * page, 5 * page, local},
			registers: 1, from: 3 * page, to: 5 * page, reason: "reallocated"},
		{name: "the neighbour of another allocation", first: ask{1, 0, page, local}, second: ask{2, page, 2 * page, local},
			registers: 1, from: page, to: 2 * page, reason: "new"},
		{name: "larger alignment", policy: mrcache.Policy{Align: 16 * page}, first: ask{1, 0, 1, local}, second: ask{1, 16*page - 1, 16 * page, local}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, mrcache.Options{Policy: c.policy}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
			base := g.a.alloc(0, 32*page)
			r := func(a ask) mrcache.Range { return pool(a.id, base+uint64(a.from), uint64(a.to-a.from)) }
			g.get(t, r(c.first), c.first.access)
			g.ranges()
			before := g.stats()
			ref := g.hold(t, r(c.second), c.second.access)
			defer ref.Release()
			got := g.ranges()
			if len(got) != c.registers {
				t.Fatalf("registered %v", got)
			}
			after := g.stats()
			if c.registers == 0 {
				if after.Hits != before.Hits+1 {
					t.Errorf("%d hits", after.Hits-before.Hits)
				}
				return
			}
			if got[0].Addr != base+c.from || got[0].End() != base+c.to {
				t.Errorf("registered %v, want %#x to %#x", got[0], base+c.from, base+c.to)
			}
			if after.Misses[c.reason] != before.Misses[c.reason]+1 {
				t.Errorf("the misses are %v, want one more as %q", after.Misses, c.reason)
			}
			if got := ref.Range().Addr + ref.Offset(); got != base+uint64(c.second.from) {
				t.Errorf("the reference is to %#x", got)
			}
		})
	}
}

func TestABufferRegisteredPieceByPieceIsRegisteredFewTimes(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	const n = 256
	base := g.a.alloc(0, n*page)
	for i := range uint64(n) {
		g.get(t, pool(1, base+i*page, page), local)
	}
	var bytes uint64
	for _, r := range g.ranges() {
		bytes += r.Length
	}
	if s := g.stats(); s.Entries != 1 || s.Bytes != n*page || bytes > 10*n*page {
		t.Errorf("%d entries with %d bytes after %d bytes were registered", s.Entries, s.Bytes, bytes)
	}
}

func TestNeighboursInUseAreNotMerged(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 4*page)
	ref := g.hold(t, pool(1, base, page), local)
	defer ref.Release()
	g.get(t, pool(1, base+page, page), local)
	if s := g.stats(); s.Entries != 2 || s.Bytes != 2*page {
		t.Errorf("%+v", s)
	}
}

func TestAnAllocationOfKnownBoundsIsRegisteredAsAWhole(t *testing.T) {
	in := func(base uint64) mrcache.Range {
		r := pool(1, base+5*page, page)
		r.Base, r.Size = base, 16*page
		return r
	}
	for _, c := range []struct {
		name   string
		policy mrcache.Policy
		budget mrcache.Budget
		limits mrcache.Limits
		bytes  uint64
	}{
		{name: "whole", budget: mrcache.Unlimited, bytes: 16 * page},
		{name: "unless the policy says no", policy: mrcache.Policy{NoWhole: true}, budget: mrcache.Unlimited, bytes: page},
		{name: "unless it is over the budget", budget: mrcache.Budget{Bytes: 8 * page, Count: 9}, bytes: page},
		{name: "unless the device takes no such region", budget: mrcache.Unlimited, limits: mrcache.Limits{RegionBytes: 8 * page}, bytes: page},
		{name: "unless nothing is kept", bytes: page},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, mrcache.Options{Policy: c.policy}, c.budget, c.limits, device.Options{})
			r := in(g.a.alloc(0, 16*page))
			ref := g.hold(t, r, local)
			defer ref.Release()
			if s := g.stats(); s.Bytes != c.bytes {
				t.Errorf("%d bytes are registered", s.Bytes)
			}
		})
	}
	t.Run("unless it is no longer all there", func(t *testing.T) {
		g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
		base := g.a.alloc(0, 16*page)
		g.a.unmap(base+9*page, page)
		g.get(t, in(base), local)
		if s := g.stats(); s.Bytes != page {
			t.Errorf("%d bytes are registered", s.Bytes)
		}
	})
}

func TestOneRegistrationForAllWhoWantItAtOnce(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 4*page)
	const n = 8
	g.during = func(mrcache.Range) {
		for end := time.Now().Add(5 * time.Second); g.stats().Joined < n-1 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	var all sync.WaitGroup
	for i := range uint64(n) {
		all.Go(func() {
			r := pool(1, base, 4*page)
			if i > 0 && g.calls.Load() == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			ref, err := g.Get(0, r, local)
			if err != nil {
				t.Error(err)
				return
			}
			ref.Release()
		})
	}
	all.Wait()
	if g.calls.Load() != 1 {
		t.Errorf("%d registrations", g.calls.Load())
	}
}

func TestABatchGoesInAscendingOrderOnTheRailsThatAreNamed(t *testing.T) {
	nothingLeft(t)
	f := device.NewFabric(device.FabricOptions{Seed: 1})
	t.Cleanup(func() { f.Close() })
	a := newArena(t, 4<<20)
	var rails []mrcache.Rail
	var nics []*nic
	for i := range 4 {
		n := newNIC(t, f, a, device.Options{})
		n.during = func(mrcache.Range) { time.Sleep(time.Millisecond) }
		nics = append(nics, n)
		rails = append(rails, mrcache.Rail{Name: fmt.Sprintf("efa_%d", i), Registrar: n, Budget: mrcache.Unlimited})
	}
	c := newCache(t, mrcache.Options{Rails: rails, Concurrency: 2})
	base := a.alloc(0, 64*page)
	var ranges []mrcache.Range
	for _, i := range []uint64{30, 2, 17, 3, 9} { // 2 and 3 touch
		ranges = append(ranges, pool(1, base+i*page, page))
	}
	refs, err := c.GetAll(context.Background(), []int{3, 0, 1}, ranges, local)
	if err != nil {
		t.Fatal(err)
	}
	for i := range refs {
		for k := range refs[i] {
			if got := refs[i][k].Range().Addr + refs[i][k].Offset(); got != ranges[k].Addr {
				t.Errorf("rail %d, range %d: %#x", i, k, got)
			}
			refs[i][k].Release()
		}
	}
	running := int64(0)
	for i, n := range nics {
		got := n.ranges()
		running += n.most.Load()
		if i == 2 {
			if len(got) != 0 {
				t.Errorf("a rail that is not near was used: %v", got)
			}
			continue
		}
		if len(got) != 4 || got[0].Length != 2*page {
			t.Fatalf("registered %v", got)
		}
		for k := 1; k < len(got); k++ {
			if got[k].Addr < got[k-1].Addr {
				t.Errorf("not ascending: %v", got)
			}
		}
	}
	if _, err := c.GetAll(context.Background(), []int{0, 0}, ranges, local); !errors.Is(err, mrcache.ErrInvalid) {
		t.Errorf("a rail twice: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.GetAll(ctx, []int{2}, ranges, local); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	g := newRig(t, mrcache.Options{Concurrency: 2, Policy: mrcache.Policy{NoMerge: true}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 32*page)
	g.during = func(mrcache.Range) {
		for end := time.Now().Add(10 * time.Second); g.most.Load() < 2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // until there is another
		}
		time.Sleep(2 * time.Millisecond)
	}
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			ref, err := g.Get(0, pool(1, base+2*i*page, page), local)
			if err != nil {
				t.Error(err)
				return
			}
			ref.Release()
		})
	}
	all.Wait()
	if got := g.most.Load(); got != 2 {
		t.Errorf("%d registrations ran at once", got)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, page)
	beyond := pool(1, base, page)
	beyond.Base, beyond.Size = base, page/2
	for name, r := range map[string]mrcache.Range{
		"no bytes":                  pool(1, base, 0),
		"beyond the last address":   pool(1, 1<<64-page, 2*page),
		"to the last address":       pool(1, 1<<64-page, page),
		"no space":                  {Addr: base, Length: page},
		"a space that is not":       {Alloc: mrcache.Allocation{Space: 99, ID: 1}, Addr: base, Length: page},
		"a dma-buf without number":  {Alloc: mrcache.Allocation{Space: mrcache.DMABuf}, Length: page},
		"not inside its allocation": beyond,
	} {
		if _, err := g.Get(0, r, local); !errors.Is(err, mrcache.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, rail := range []int{-1, 1} {
		if _, err := g.Get(rail, pool(1, base, page), local); !errors.Is(err, mrcache.ErrInvalid) {
			t.Errorf("rail %d: %v", rail, err)
		}
	}
	if _, err := g.Get(0, pool(1, base+page, page), local); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("memory that is not mapped: %v", err)
	}
	if _, err := mrcache.Identity("tape", 1); !errors.Is(err, mrcache.ErrInvalid) {
		t.Errorf("a kind that is not: %v", err)
	}
}
