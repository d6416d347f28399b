package path

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
)

// fakeDriver is a driver without hardware. What is in streams is done only when
// somebody asks whether it is, a step of a stream drawn by lot at a time: in any
// order that streams and events allow.
type fakeDriver struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	gpus    int
	access  [2]bool
	mem     map[uint64][]byte
	next    uint64
	streams []*fakeStream
	live    int // objects that are not closed
	enabled [2]bool
	lawless bool                   // streams do not wait for events
	stuck   bool                   // no stream ever ends
	nowhere bool                   // no memory of a node
	peer    [2]int                 // peer copies while access was off, and on
	spoil   func(to []byte, n int) // after a peer copy: what is there, from its place on
	calls   int
	at      func(call int) error // what the call gives instead
}

func newFake() *fakeDriver {
	return &fakeDriver{rnd: rand.New(rand.NewPCG(1, 2)), gpus: 2, access: [2]bool{true, true}, mem: map[uint64][]byte{}, next: 1 << 32}
}

// step counts a call of any kind but the closing ones.
func (d *fakeDriver) step() error {
	d.calls++
	if d.at != nil {
		return d.at(d.calls)
	}
	return nil
}

func (d *fakeDriver) bytes(p, n uint64) []byte {
	for base, b := range d.mem {
		if p >= base && p+n <= base+uint64(len(b)) {
			return b[p-base:]
		}
	}
	panic(fmt.Sprintf("%d bytes at %#x are nobody's", n, p))
}

func (d *fakeDriver) start() (int, string, error) { return d.gpus, "13.0", d.step() }

func (d *fakeDriver) open(ordinal int) (gpu, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	d.live++
	return &fakeGPU{d, ordinal}, nil
}

func (d *fakeDriver) bound(g gpu, node, size int) ([]byte, error) {
	if d.nowhere {
		return nil, syscall.EPERM
	}
	return g.pinned(size)
}

func (d *fakeDriver) unbound(g gpu, b []byte) error { return g.unpinned(b) }

type fakeGPU struct {
	d       *fakeDriver
	ordinal int
}

func (g *fakeGPU) facts() (GPU, error) {
	return GPU{Model: "Fake", Address: fmt.Sprintf("0000:0%d:00.0", g.ordinal+1), Engines: 3}, g.d.step()
}

func (g *fakeGPU) canAccess(gpu) (bool, error) { return g.d.access[g.ordinal], g.d.step() }
func (g *fakeGPU) link(gpu) (int, bool, error) { return 0, true, nil }
func (g *fakeGPU) enable(gpu) error            { return g.set(true) }
func (g *fakeGPU) disable(gpu) error           { return g.set(false) }
func (g *fakeGPU) toDevice(to uint64, b []byte) error {
	return g.now(func() { copy(g.d.bytes(to, uint64(len(b))), b) })
}

func (g *fakeGPU) toHost(b []byte, from uint64) error {
	return g.now(func() { copy(b, g.d.bytes(from, uint64(len(b)))) })
}

func (g *fakeGPU) set(on bool) error {
	if !g.d.access[g.ordinal] {
		return errors.New("peer access that there is not")
	}
	if g.d.enabled[g.ordinal] == on {
		return errors.New("peer access is so already")
	}
	return g.now(func() { g.d.enabled[g.ordinal] = on })
}

func (g *fakeGPU) now(f func()) error {
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	err := g.d.step()
	if err == nil {
		f()
	}
	return err
}

func (g *fakeGPU) alloc(size uint64) (p uint64, err error) {
	err = g.now(func() {
		p = g.d.next
		g.d.next += size + 1<<20
		g.d.mem[p] = make([]byte, size)
		g.d.live++
	})
	return p, err
}

func (g *fakeGPU) free(p uint64) error {
	if g.d.mem[p] == nil {
		return errors.New("freed twice")
	}
	delete(g.d.mem, p)
	g.d.live--
	return nil
}

func (g *fakeGPU) pinned(size int) (b []byte, err error) {
	err = g.now(func() { b = make([]byte, size); g.d.live++ })
	return b, err
}

func (g *fakeGPU) unpinned([]byte) error { return g.close() }
func (g *fakeGPU) close() error          { g.d.live--; return nil }

func (g *fakeGPU) stream() (stream, error) {
	s := &fakeStream{g: g}
	return s, g.now(func() { g.d.streams = append(g.d.streams, s); g.d.live++ })
}

func (g *fakeGPU) event() (event, error) { return &fakeEvent{g: g}, g.now(func() { g.d.live++ }) }
