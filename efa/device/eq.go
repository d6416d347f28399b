package device

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// EQOptions are CREATE_EQ's, see wire.CreateEQ.
type EQOptions struct {
	wire.CreateEQ
	Keep any // holds on to the ring; see ProcessMemory
}

// eventQueue is a ring of events in host memory. Its doorbell carries no consumer
// count: it says that the driver has handled all it saw, which need not be all
// that was written. So entries written since the last interrupt make arming
// raise the next at once, and the ring counts as possibly full until armed again;
// events that would not fit wait with their completion queues.
type eventQueue struct {
	number uint16
	vector uint8
	base   uint64
	depth  uint32
	uses   int
	keep   any

	mu       sync.Mutex
	producer uint32
	armed    bool
	unseen   uint32 // written since the last interrupt
	unread   uint32 // the most that may not have been read
	waiting  []*completionQueue
}

// CreateEQ makes an event queue, unarmed.
func (d *Device) CreateEQ(o EQOptions) (wire.CreateEQResp, error) {
	const op = "create EQ"
	var none wire.CreateEQResp
	switch {
	case !powerOfTwo(uint32(o.Depth)) || int(o.Depth) > d.opts.MaxEQDepth:
		return none, illegal(op, "depth %d is not a power of two up to %d", o.Depth, d.opts.MaxEQDepth)
	case o.EntryWords != wire.SizeEQE/4:
		return none, illegal(op, "entries of %d words; they have %d", o.EntryWords, wire.SizeEQE/4)
	case o.Events&^wire.EQCompletionEvents != 0:
		return none, illegal(op, "events %#x, only completion events are supported", o.Events)
	case o.BaseAddr == 0 || o.BaseAddr%8 != 0:
		return none, illegal(op, "the ring at %#x is not aligned to 8 bytes", o.BaseAddr)
	}
	if err := d.control(op); err != nil {
		return none, err
	}
	defer d.done()
	n, ok := d.eqFree.take()
	if !ok {
		return none, exhausted(op, "all %d event queues are in use", d.opts.MaxEQs)
	}
	d.eqs[n].Store(&eventQueue{
		number: uint16(n), vector: o.MSIXVector, base: o.BaseAddr, depth: uint32(o.Depth), keep: o.Keep,
	})
	return wire.CreateEQResp{EQN: uint16(n)}, nil
}

// DestroyEQ removes an event queue that no completion queue reports to.
func (d *Device) DestroyEQ(eqn uint16) error {
	const op = "destroy EQ"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	var eq *eventQueue
	if int(eqn) < len(d.eqs) {
		eq = d.eqs[eqn].Load()
	}
	if eq == nil {
		return illegal(op, "no EQ %d", eqn)
	}
	if eq.uses > 0 {
		return busy(op, "%d completion queues report to EQ %d; destroy them first", eq.uses, eqn)
	}
	d.eqs[eqn].Store(nil)
	d.eqFree.give(uint32(eqn))
	return nil
}

// event reports a completion queue. The device's lock and memory are held.
func (eq *eventQueue) event(d *Device, cq *completionQueue) {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	if cq.waiting {
		return // one event says all
	}
	if eq.unread >= eq.depth {
		cq.waiting = true
		eq.waiting = append(eq.waiting, cq)
		return
	}
	eq.write(d, cq)
}

// write writes an entry. eq.mu is held.
func (eq *eventQueue) write(d *Device, cq *completionQueue) {
	at := eq.base + uint64(eq.producer&(eq.depth-1))*wire.SizeEQE
	b := d.opts.Memory.Bytes(at, wire.SizeEQE)
	if len(b) < wire.SizeEQE {
		d.stats.ringFaults.Add(1)
		return
	}
	binary.LittleEndian.PutUint64(b[8:], uint64(cq.index))
	binary.LittleEndian.PutUint32(b[4:], 0)
	storeFirst(b, wire.EQEWord(eq.producer&eq.depth == 0, wire.EQECompletion))
	eq.producer++
	eq.unread++
	d.stats.events.Add(1)
	if eq.armed {
		eq.armed, eq.unseen = false, 0
		d.interrupt(eq.vector)
	} else {
		eq.unseen++
	}
}

// arm serves the doorbell.
func (eq *eventQueue) arm(d *Device) {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	// Whatever was there at the last interrupt has been read.
	eq.unread = eq.unseen
	eq.armed = true
	if eq.unseen > 0 {
		eq.armed, eq.unseen = false, 0
		d.interrupt(eq.vector)
	}
	n := 0
	for n < len(eq.waiting) && eq.unread < eq.depth {
		eq.waiting[n].waiting = false
		eq.write(d, eq.waiting[n])
		n++
	}
	eq.waiting = append(eq.waiting[:0], eq.waiting[n:]...)
}

// forget drops a destroyed completion queue.
func (eq *eventQueue) forget(cq *completionQueue) {
	eq.mu.Lock()
	defer eq.mu.Unlock()
	for i, w := range eq.waiting {
		if w == cq {
			eq.waiting = append(eq.waiting[:i], eq.waiting[i+1:]...)
			return
		}
	}
}

// storeFirst publishes an entry: its first word, which has the phase, is stored
// after everything before it, whoever looks and whatever the CPU.
func storeFirst(b []byte, word uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), word)
}
