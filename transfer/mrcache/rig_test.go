package mrcache_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

const page = 4096

const (
	local  = mrcache.Access(efa.LocalWrite)
	remote = mrcache.Access(efa.LocalWrite | efa.RemoteWrite)
	read   = mrcache.Access(efa.LocalWrite | efa.RemoteRead)
)

// nothingLeft checks at the end of a test that it left no objects of package efa,
// no descriptors and no goroutines.
func nothingLeft(t testing.TB) {
	t.Helper()
	started.Do(func() { // the runtime's poller has descriptors of its own from the first file on
		p, q, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		q.Close()
	})
	objects, files, goroutines := efa.Live(), descriptors(t), runtime.NumGoroutine()
	t.Cleanup(func() {
		for kind, n := range efa.Live() {
			if n != objects[kind] {
				t.Errorf("%d objects of kind %s are left, there were %d", n, kind, objects[kind])
			}
		}
		if n := descriptors(t); n != files {
			t.Errorf("%d descriptors are open, there were %d", n, files)
		}
		for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines are left, there were %d:\n%s", runtime.NumGoroutine(), goroutines, buf[:runtime.Stack(buf, true)])
			}
		}
	})
}

var started sync.Once

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// nic registers with an EFA device in this process.
type nic struct {
	dev    *efa.Device
	pd     *efa.PD
	arena  *arena
	dmabuf int // the descriptor of ranges in a dma-buf

	calls  atomic.Int64
	open   atomic.Int64
	now    atomic.Int64 // running
	most   atomic.Int64
	order  []mrcache.Range
	mu     sync.Mutex
	during func(mrcache.Range)                             // called in each registration
	extra  func(mrcache.Range) (func(), error)             // what else it takes, and gives back
	refuse func(mrcache.Range, mrcache.Registration) error // of deregistration
}

type pinnedMR struct {
	*efa.MR
	nic  *nic
	r    mrcache.Range
	mem  []byte
	back func()
}

func newNIC(t testing.TB, f *device.Fabric, a *arena, o device.Options) *nic {
	t.Helper()
	n := &nic{arena: a}
	var err error
	if n.dev, err = efa.Embedded(f, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.dev.Close(); err != nil {
			t.Error(err)
		}
	})
	if n.pd, err = n.dev.PD(); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *nic) Register(r mrcache.Range, access mrcache.Access) (mrcache.Registration, error) {
	n.calls.Add(1)
	now := n.now.Add(1)
	defer n.now.Add(-1)
	for most := n.most.Load(); now > most && !n.most.CompareAndSwap(most, now); most = n.most.Load() {
	}
	n.mu.Lock()
	n.order = append(n.order, r)
	during, extra := n.during, n.extra
	n.mu.Unlock()
	if r.Alloc.Space == mrcache.DMABuf {
		mr, err := n.pd.RegisterDMABuf(n.dmabuf, r.Addr, r.Length, r.Addr, efa.Access(access))
		if err != nil {
			return nil, err
		}
		return mr, nil
	}
	m := &pinnedMR{nic: n, r: r}
	var err error
	if m.mem, err = n.arena.pinned(r); err != nil {
		return nil, err
	}
	if during != nil {
		during(r)
	}
	if extra != nil {
		if m.back, err = extra(r); err != nil {
			unix.MunmapPtr(unsafe.Pointer(&m.mem[0]), uintptr(len(m.mem)))
			return nil, err
		}
	}
	if m.MR, err = n.pd.RegisterAt(m.mem, r.Addr, efa.Access(access)); err != nil {
		unix.MunmapPtr(unsafe.Pointer(&m.mem[0]), uintptr(len(m.mem)))
		if m.back != nil {
			m.back()
		}
		return nil, err
	}
	n.open.Add(1)
	return m, nil
}

func (m *pinnedMR) Close() error {
	m.nic.mu.Lock()
	refuse := m.nic.refuse
	m.nic.mu.Unlock()
	if refuse != nil {
		if err := refuse(m.r, m); err != nil {
			return err
		}
	}
	if err := m.MR.Close(); err != nil {
		return err
	}
	m.nic.open.Add(-1)
	if m.back != nil {
		m.back()
	}
	return unix.MunmapPtr(unsafe.Pointer(&m.mem[0]), uintptr(len(m.mem)))
}

// ranges gives what was registered since the last call.
func (n *nic) ranges() []mrcache.Range {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.order
	n.order = nil
	return list
}

// rig is a cache over one NIC, and the memory.
type rig struct {
	*mrcache.Cache
	*nic
	a *arena
}

func newRig(t testing.TB, o mrcache.Options, budget mrcache.Budget, limits mrcache.Limits, dev device.Options) *rig {
	t.Helper()
	nothingLeft(t)
	f := device.NewFabric(device.FabricOptions{Seed: 1})
	t.Cleanup(func() { f.Close() })
	g := &rig{a: newArena(t, 4<<20)}
	g.nic = newNIC(t, f, g.a, dev)
	o.Rails = []mrcache.Rail{{Name: "efa_0", Registrar: g.nic, Budget: budget, Limits: limits}}
	g.Cache = newCache(t, o)
	return g
}

func newCache(t testing.TB, o mrcache.Options) *mrcache.Cache {
	t.Helper()
	c, err := mrcache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, s := range c.Stats() {
			if s.Regions != 0 || s.Bytes != 0 {
				t.Errorf("%s: %d regions with %d bytes are left", s.Rail, s.Regions, s.Bytes)
			}
		}
	})
	return c
}

// pool is host memory at an address, as of a numbered allocation.
func pool(id, addr, length uint64) mrcache.Range {
	return mrcache.Range{Alloc: mrcache.Allocation{Space: mrcache.Host, ID: id}, Addr: addr, Length: length}
}

// get takes a reference and gives it back.
func (g *rig) get(t testing.TB, r mrcache.Range, access mrcache.Access) {
	t.Helper()
	g.hold(t, r, access).Release()
}

func (g *rig) hold(t testing.TB, r mrcache.Range, access mrcache.Access) *mrcache.Ref {
	t.Helper()
	ref, err := g.Get(0, r, access)
	if err != nil {
		t.Fatal(err)
	}
	return &ref
}

func (g *rig) stats() mrcache.Stats { return g.Stats()[0] }

func refused(t testing.TB, err error, class error, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got %v, want %v", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}
