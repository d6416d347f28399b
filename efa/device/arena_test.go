package device

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// arena is a host's memory: DMA addresses that mean nothing in this process, and an
// unmap that waits for who holds it.
type arena struct {
	sync.RWMutex
	base uint64
	buf  []byte
	next uint64
	off  atomic.Bool // unmapped
	// From here on the bytes count as an accelerator's, if not 0.
	accelerator uint64
}

func newArena(base uint64, size int) *arena {
	return &arena{base: base, buf: make([]byte, size)}
}

func (a *arena) Lock() { a.RLock() }

func (a *arena) Unlock() { a.RUnlock() }

func (a *arena) Bytes(addr uint64, n int) []byte {
	if a.off.Load() || n <= 0 || addr < a.base || addr-a.base >= uint64(len(a.buf)) {
		return nil
	}
	off := addr - a.base
	return a.buf[off:min(uint64(len(a.buf)), off+uint64(n))]
}

func (a *arena) Place(addr uint64) Place {
	if a.accelerator != 0 && addr >= a.accelerator {
		return PlaceAccelerator
	}
	return PlaceHost
}

// unmap makes nothing mapped, or everything again, when nobody holds the memory.
func (a *arena) unmap(off bool) {
	a.RWMutex.Lock()
	a.off.Store(off)
	a.RWMutex.Unlock()
}

// alloc gives page-aligned memory.
func (a *arena) alloc(n int) (uint64, []byte) {
	off := (a.next + 4095) &^ 4095
	a.next = off + uint64(n)
	if a.next > uint64(len(a.buf)) {
		panic("arena too small")
	}
	return a.base + off, a.buf[off:a.next:a.next]
}

// host is a device with a protection domain, a page of doorbells and memory.
type host struct {
	t    testing.TB
	d    *Device
	mem  *arena
	pd   uint16
	uar  uint16
	irqs atomic.Int32
	evs  chan Event
}

func newHost(t testing.TB, f *Fabric, o Options) *host {
	t.Helper()
	h := &host{t: t, evs: make(chan Event, 1000)}
	h.mem = newArena(uint64(len(f.Devices())+1)<<36, 16<<20)
	if o.Memory == nil {
		o.Memory = h.mem
	}
	if o.LLQBytes == 0 {
		o.LLQBytes = 1 << 20
	}
	o.Interrupt = func(int) { h.irqs.Add(1) }
	o.Event = func(e Event) { h.evs <- e }
	var err error
	if h.d, err = f.NewDevice(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.d.Close() })
	h.pd = must(h.d.AllocPD())(t)
	h.uar = must(h.d.AllocUAR())(t)
	return h
}

// region is registered memory.
type region struct {
	MRInfo
	addr uint64 // IOVA
	b    []byte
}

const allAccess = wire.AccessLocalWrite | wire.AccessRemoteWrite | wire.AccessRemoteRead

func (h *host) region(n int, access wire.Access) region {
	h.t.Helper()
	dma, b := h.mem.alloc(n)
	iova := dma + 0x10_0000_0000_0000
	var pages []uint64
	for p := uint64(0); p < uint64(n); p += 4096 {
		pages = append(pages, dma+p)
	}
	mr := must(h.d.RegisterMR(MROptions{PD: h.pd, IOVA: iova, Length: uint64(n), PageShift: 12, Pages: pages, Access: access}))(h.t)
	return region{mr, iova, b}
}

// cqueue is a completion queue and its consumer.
type cqueue struct {
	h     *host
	info  wire.CreateCQResp
	ring  []byte
	size  int
	subs  int
	cc    [2]uint32
	total uint32
}

func (h *host) cqueue(depth int, c wire.CreateCQ) *cqueue {
	h.t.Helper()
	if c.EntryWords == 0 {
		c.EntryWords = 8
	}
	subs := int(h.d.Attr().Queue1.SubCQsPerCQ)
	addr, ring := h.mem.alloc(depth * subs * int(c.EntryWords) * 4)
	c.SubCQDepth, c.BaseAddr, c.NumSubCQs, c.UAR = uint16(depth), addr, uint16(subs), h.uar
	q := &cqueue{h: h, ring: ring, size: int(c.EntryWords) * 4, subs: subs}
	q.info = must(h.d.CreateCQ(CQOptions{CreateCQ: c}))(h.t)
	return q
}

// poll gives a copy of the next completion, nil if there is none.
func (q *cqueue) poll() *wire.WideCQE {
	depth := uint32(q.info.SubCQDepth)
	for sub := range q.subs {
		cc := q.cc[sub]
		off := (sub*int(depth) + int(cc&(depth-1))) * q.size
		word := atomic.LoadUint32((*uint32)(unsafe.Pointer(&q.ring[off])))
		if wire.CQEWord(word).Phase() != (cc&depth == 0) {
			continue
		}
		var e wire.WideCQE
		copy(e[:], q.ring[off:off+q.size])
		q.cc[sub]++
		q.total++
		return &e
	}
	return nil
}

// next waits for a completion.
func (q *cqueue) next() *wire.WideCQE {
	q.h.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for i := 0; ; i++ {
		if e := q.poll(); e != nil {
			return e
		}
		if time.Now().After(deadline) {
			q.h.t.Fatal("no completion within 10 s")
		}
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond) // or a busy machine may not look at its sockets
		}
	}
}

// quiet fails if a completion comes within a while.
func (q *cqueue) quiet(d time.Duration) {
	q.h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if e := q.poll(); e != nil {
			q.h.t.Fatalf("unexpected completion: %v of request %d", e.Base().Status(), e.Base().ReqID())
		}
	}
}

func (r region) at(off, n int) wire.TxBuf {
	return wire.TxBuf{Length: uint32(n), LKey: r.LKey, Addr: r.addr + uint64(off)}
}

// expect takes the next completion and checks the request's id and status.
func (q *cqueue) expect(id uint16, s wire.CompStatus) *wire.WideCQE {
	q.h.t.Helper()
	e := q.next()
	if e.Base().ReqID() != id || e.Base().Status() != s {
		q.h.t.Fatalf("completion of request %d with %q, want request %d with %q", e.Base().ReqID(), e.Base().Status(), id, s)
	}
	return e
}
