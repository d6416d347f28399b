package mrcache_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

func TestTheLeastRecentlyUsedIsEvicted(t *testing.T) {
	g := newRig(t, mrcache.Options{Policy: mrcache.Policy{NoMerge: true}}, mrcache.Budget{Bytes: 1 << 30, Count: 3}, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 8*page)
	p := func(i uint64) mrcache.Range { return pool(1, base+i*page, page) }
	for i := range uint64(3) {
		g.get(t, p(i), local)
	}
	g.get(t, p(0), local) // used again
	g.get(t, p(3), local) // takes the place of 1
	g.ranges()
	for _, i := range []uint64{0, 2, 3} {
		g.get(t, p(i), local)
	}
	if got := g.ranges(); len(got) != 0 {
		t.Errorf("registered again: %v", got)
	}
	if s := g.stats(); s.Evictions != 1 || s.Regions != 3 {
		t.Errorf("%+v", s)
	}
}

func TestBudgets(t *testing.T) {
	const many = 1 << 20
	for _, c := range []struct {
		name   string
		budget mrcache.Budget
		limits mrcache.Limits
		words  string
	}{
		{"bytes", mrcache.Budget{Bytes: 4 * page, Count: many}, mrcache.Limits{}, "the cache's byte budget is 16384 bytes"},
		{"regions", mrcache.Budget{Bytes: 1 << 40, Count: 2}, mrcache.Limits{}, "the cache's region budget is 2"},
		{"the device's bytes", mrcache.Unlimited, mrcache.Limits{Bytes: 4 * page}, "the device's limit of registered bytes is 16384"},
		{"the device's regions", mrcache.Unlimited, mrcache.Limits{Count: 2}, "the device's limit of regions (max_mr) is 2"},
		{"the device's bytes, nothing kept", mrcache.Budget{}, mrcache.Limits{Bytes: 4 * page}, "the device's limit of registered bytes is 16384"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, mrcache.Options{Policy: mrcache.Policy{NoMerge: true}}, c.budget, c.limits, device.Options{})
			base := g.a.alloc(0, 16*page)
			p := func(i uint64) mrcache.Range { return pool(1, base+2*i*page, 2*page) }
			for i := range uint64(5) {
				g.get(t, p(i), local) // what is idle goes
			}
			one, two := g.hold(t, p(0), local), g.hold(t, p(1), local)
			_, err := g.Get(0, p(2), local)
			refused(t, err, mrcache.ErrBudget, c.words, "efa_0", "in use", fmt.Sprintf("%#x+%d (1 references)", base, 2*page))
			one.Release()
			g.get(t, p(2), local)
			two.Release()
		})
	}
	t.Run("a range over the budget leaves the others", func(t *testing.T) {
		g := newRig(t, mrcache.Options{}, mrcache.Budget{Bytes: 4 * page, Count: many}, mrcache.Limits{RegionBytes: 8 * page}, device.Options{})
		base := g.a.alloc(0, 16*page)
		g.get(t, pool(1, base, page), local)
		_, err := g.Get(0, pool(1, base+page, 5*page), local)
		refused(t, err, mrcache.ErrBudget, "16384 bytes", "in pieces")
		_, err = g.Get(0, pool(1, base+page, 9*page), local)
		refused(t, err, mrcache.ErrBudget, "max_mr_size", "in pieces")
		if s := g.stats(); s.Entries != 1 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

func TestABudgetOfZeroKeepsNothing(t *testing.T) {
	for _, b := range []mrcache.Budget{{}, {Bytes: 1 << 30}, {Count: 9}} {
		g := newRig(t, mrcache.Options{}, b, mrcache.Limits{}, device.Options{})
		base := g.a.alloc(0, 4*page)
		for range 3 {
			ref := g.hold(t, pool(1, base, page), local)
			if g.open.Load() != 1 {
				t.Errorf("%d registrations", g.open.Load())
			}
			ref.Release()
			ref.Release() // does nothing
			if g.open.Load() != 0 {
				t.Error("still registered")
			}
		}
		if s := g.stats(); s.Misses["no_budget"] != 3 || s.Hits != 0 || s.Entries != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestADeviceThatRefusesDMABufs(t *testing.T) {
	g := newRig(t, mrcache.Options{}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	p, q, err := os.Pipe() // as memory that only an accelerator reaches: it cannot be mapped
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	defer q.Close()
	g.nic.dmabuf = int(p.Fd())
	buf, err := mrcache.Identity("dmabuf", 77)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Get(0, mrcache.Range{Alloc: buf, Addr: 0, Length: page}, local)
	refused(t, err, efa.ErrUnsupported, "dma-buf", "an embedded device reaches what this process can map")
	if n := g.calls.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	if s := g.stats(); s.Failures != 1 || s.Regions != 0 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
}

func TestADeviceWithoutRoom(t *testing.T) {
	g := newRig(t, mrcache.Options{Policy: mrcache.Policy{NoMerge: true}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{MaxMRs: 3})
	base := g.a.alloc(0, 16*page)
	p := func(i uint64) mrcache.Range { return pool(1, base+i*page, page) }
	for i := range uint64(9) {
		g.get(t, p(i), local) // the cache learns the limit by ENOMEM
	}
	if s := g.stats(); s.Regions > 3 || s.Evictions < 6 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	var held []*mrcache.Ref
	for i := range uint64(3) {
		held = append(held, g.hold(t, p(i), local))
	}
	_, err := g.Get(0, p(9), local)
	refused(t, err, syscall.ENOMEM, "in use", "3 regions stay registered", "all 3 memory regions are in use")
	for _, ref := range held {
		ref.Release()
	}
	g.get(t, p(9), local)
}

// Registrations of some drivers keep a descriptor each.
func TestOutOfDescriptors(t *testing.T) {
	g := newRig(t, mrcache.Options{Policy: mrcache.Policy{NoMerge: true}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 64*page)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	g.extra = func(mrcache.Range) (func(), error) {
		fd, err := unix.FcntlInt(uintptr(g.a.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		return func() { unix.Close(fd) }, nil
	}
	tight := was
	tight.Cur = uint64(descriptors(t) + 8)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &tight); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	var held []*mrcache.Ref
	for i := range uint64(32) {
		g.get(t, pool(1, base+i*page, page), local) // idle ones give theirs back
	}
	var err error
	for i := uint64(0); err == nil && i < 32; i++ {
		var ref mrcache.Ref
		if ref, err = g.Get(0, pool(1, base+i*page, page), local); err == nil {
			held = append(held, &ref)
		}
	}
	refused(t, err, syscall.EMFILE, "export", "in use")
	for _, ref := range held {
		ref.Release()
	}
	g.get(t, pool(1, base+40*page, page), local)
}
