package device

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// TestClose: closing ends goroutines, with requests in flight, twice, in any order.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
		src, dst := pr.a.region(1<<20, 0), pr.b.region(1<<20, allAccess)
		for i := range 32 {
			pr.a.put(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, 1<<20), dst.addr, dst.RKey))
		}
		pr.a.ring()
		pr.b.d.Close()
		pr.a.d.Close()
		pr.a.d.Close()
		pr.f.Close()
		pr.f.Close()
		pr.a.ring()
		if _, err := pr.a.d.AllocPD(); err == nil {
			t.Error("a closed device gave a PD")
		}
		if _, err := pr.f.NewDevice(Options{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed fabric: %v", err)
		}
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestIdle: a device without work uses no CPU.
func TestIdle(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	eventually(t, "both devices sleep", func() bool { return pr.a.d.w.parked.Load() && pr.b.d.w.parked.Load() })
	time.Sleep(20 * time.Millisecond)
	if !pr.a.d.w.parked.Load() || !pr.b.d.w.parked.Load() {
		t.Error("a device woke without reason")
	}
}

// TestNoAllocation: posting, carrying out and polling allocate nothing once warm.
func TestNoAllocation(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(1<<16, allAccess), pr.b.region(1<<16, allAccess)
	entries := []*wire.WideTxEntry{
		pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 1<<16), dst.addr, dst.RKey),
		pr.ab.rdma(wire.IORDMARead, 1, src.at(0, 1<<16), dst.addr, dst.RKey),
		pr.ab.send(1, src.at(0, 64)),
		imm(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 64), dst.addr, dst.RKey), 1),
	}
	parts := []int{0, 64}
	work := func() {
		for range 8 {
			pr.b.recv(1, dst, parts...)
			pr.b.recv(1, dst, parts...)
			for _, w := range entries {
				pr.a.put(w)
			}
		}
		pr.a.ring()
		pr.a.scq.drain(32)
		pr.b.scq.drain(16)
	}
	if n := testing.AllocsPerRun(200, work); n != 0 {
		t.Errorf("%v allocations in 32 requests", n)
	}
}
