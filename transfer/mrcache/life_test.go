package mrcache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

func brief(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestInvalidateWaitsForTransfers(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 4*page)
	r := pool(1, base, 4*page)
	one, two := g.hold(t, r, local), g.hold(t, r, local)
	err := g.Invalidate(brief(t), pool(0, base+page, page))
	refused(t, err, mrcache.ErrBusy, "in use", "(2 references)")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if g.open.Load() != 1 {
		t.Error("it was deregistered under a transfer")
	}
	other := g.hold(t, r, local) // does not get the old one
	if g.calls.Load() != 2 {
		t.Errorf("%d registrations", g.calls.Load())
	}
	one.Release()
	done := make(chan error)
	go func() { done <- g.Invalidate(patient(t), r) }()
	select {
	case err := <-done:
		t.Fatalf("it returned (%v) while a transfer refers to the range", err)
	case <-time.After(20 * time.Millisecond):
	}
	two.Release()
	other.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if g.open.Load() != 0 {
		t.Error("it is registered")
	}
	if s := g.stats(); s.Invalidations["invalidated"] != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatInvalidateTakes(t *testing.T) {
	g := newRig(t, mrcache.Options{Policy: mrcache.Policy{NoMerge: true}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 16*page)
	file := func(id, page0 uint64) mrcache.Range {
		r := pool(id, base+page0*page, page)
		r.Alloc.Space = mrcache.MemFD
		return r
	}
	all := []mrcache.Range{pool(1, base, page), pool(1, base+2*page, page), pool(2, base+4*page, page), file(1, 0), file(2, 0)}
	none := func(r mrcache.Range) mrcache.Range { r.Addr, r.Length = 0, 0; return r }
	for _, c := range []struct {
		name string
		what mrcache.Range
		took []int
	}{
		{"addresses of any allocation", pool(0, base+2*page, 3*page), []int{1, 2}},
		{"addresses of one", pool(1, base, 16*page), []int{0, 1}},
		{"one byte", pool(0, base+page-1, 1), []int{0}},
		{"between", pool(0, base+page, page), nil},
		{"an allocation", none(pool(1, 0, 0)), []int{0, 1}},
		{"a file", none(file(2, 0)), []int{4}},
		{"a part of a file", file(1, 0), []int{3}},
		{"another part", file(1, 1), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range all {
				g.get(t, r, local)
			}
			g.ranges()
			if err := g.Invalidate(patient(t), c.what); err != nil {
				t.Fatal(err)
			}
			if n := int(g.open.Load()); n != len(all)-len(c.took) {
				t.Errorf("%d are registered", n)
			}
			for _, r := range all {
				g.get(t, r, local)
			}
			got := g.ranges()
			if len(got) != len(c.took) {
				t.Fatalf("registered again: %v", got)
			}
			for i, k := range c.took {
				if got[i] != all[k] {
					t.Errorf("registered again: %v, want %v", got[i], all[k])
				}
			}
		})
	}
	for _, r := range []mrcache.Range{{}, none(pool(0, 0, 0)), {Alloc: mrcache.Allocation{Space: 50, ID: 1}}, pool(0, 1<<64-1, 2)} {
		if err := g.Invalidate(context.Background(), r); !errors.Is(err, mrcache.ErrInvalid) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func TestMemoryThatGoesWhileItIsRegistered(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, page)
	r := pool(1, base, page)
	var times atomic.Int64
	g.during = func(mrcache.Range) {
		if times.Add(1) <= 3 {
			g.Invalidate(brief(t), r)
		}
	}
	g.get(t, r, local)
	if n := g.open.Load(); n != 1 || times.Load() != 4 {
		t.Errorf("%d are registered, after %d times", n, times.Load())
	}
	times.Store(-1 << 40) // from now on each time
	if err := g.Invalidate(patient(t), r); err != nil {
		t.Fatal(err)
	}
	_, err := g.Get(0, r, local)
	refused(t, err, mrcache.ErrStale, "taken away")
	if n := g.open.Load(); n != 0 {
		t.Errorf("%d are registered", n)
	}
	g.mu.Lock()
	g.during = nil
	g.mu.Unlock()
}

func TestCloseSaysWhoHolds(t *testing.T) {
	g := newRig(t, mrcache.Options{Policy: mrcache.Policy{NoMerge: true}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 32*page)
	var held []*mrcache.Ref
	for i := range uint64(7) {
		held = append(held, g.hold(t, pool(1, base+i*page, page), local))
	}
	g.get(t, pool(1, base+9*page, page), local)
	err := g.Close(brief(t))
	refused(t, err, mrcache.ErrBusy, "efa_0 host:1", "(1 references)", "2 more", "7 registrations are left")
	if g.open.Load() != 7 {
		t.Errorf("%d are registered", g.open.Load())
	}
	_, err = g.Get(0, pool(1, base, page), local)
	refused(t, err, mrcache.ErrClosed)
	for _, ref := range held {
		ref.Release()
	}
	for range 2 {
		if err := g.Close(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADeregistrationThatIsRefusedIsTriedAgain(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, page)
	r := pool(1, base, page)
	g.get(t, r, local)
	set := func(f func(mrcache.Range, mrcache.Registration) error) {
		g.mu.Lock()
		g.refuse = f
		g.mu.Unlock()
	}
	set(func(mrcache.Range, mrcache.Registration) error { return syscall.EBUSY }) // a memory window is bound
	refused(t, g.Invalidate(patient(t), r), syscall.EBUSY)
	g.get(t, r, local)
	if s := g.stats(); s.Regions != 2 || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
	refused(t, g.Close(patient(t)), syscall.EBUSY, "deregister on efa_0", "host:1")
	set(nil)
	if err := g.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func TestAReferenceReleasedTwicePanics(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	ref := g.hold(t, pool(1, g.a.alloc(0, page), page), local)
	again := *ref
	ref.Release()
	if ref.Registration() != nil || ref.Range() != (mrcache.Range{}) {
		t.Error("a released reference still gives the registration")
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	again.Release()
}
