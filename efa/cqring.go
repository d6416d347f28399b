package efa

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/internal/mmio"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// cqRing is a completion queue read in its own memory. One goroutine polls it.
type cqRing struct {
	ring  unsafe.Pointer
	size  uint32
	shift uint8
	sgid  bool
	bell  bell
	rings bool   // there is a doorbell
	at    uint32 // completions taken since the start
	sn    uint32 // events taken: the sequence number of the next request for one

	stray atomic.Uint64 // completions of queue pairs that are gone

	// table finds a completion's queue pair. It is replaced as a whole, so that
	// polling takes no lock.
	table atomic.Pointer[qpTable]
	mu    sync.Mutex // of replacing
	keep  any
}

const cqeBytes = 32

type qpTable struct {
	mask  uint32
	slots []qpSlot // by the low bits of the number, which are unique here
}

type qpSlot struct {
	qpn        uint32
	send, recv *workQueue
}

func newCQRing(m *cqMemory, sgid bool) *cqRing {
	r := &cqRing{
		ring: m.ring, size: uint32(m.count), shift: uint8(bits.Len(uint(m.count)) - 1),
		sgid: sgid, bell: m.bell, rings: m.armed, keep: m.keep,
	}
	r.table.Store(newQPTable(nil))
	return r
}

// newQPTable makes the smallest table in which no two queue pairs meet.
func newQPTable(qps []qpSlot) *qpTable {
	for size := uint32(1); ; size *= 2 {
		t := &qpTable{mask: size - 1, slots: make([]qpSlot, size)}
		for i := range t.slots {
			t.slots[i].qpn = noQPN
		}
		ok := true
		for _, s := range qps {
			at := &t.slots[s.qpn&t.mask]
			ok = ok && at.qpn == noQPN
			*at = s
		}
		if ok {
			return t
		}
	}
}

const noQPN = 1 << 31 // no number of EFA's, which have 16 bits

// attach makes a queue pair's completions known, detach forgets them.
func (r *cqRing) attach(s qpSlot)   { r.replace(s.qpn, &s) }
func (r *cqRing) detach(qpn uint16) { r.replace(uint32(qpn), nil) }

func (r *cqRing) replace(qpn uint32, with *qpSlot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var qps []qpSlot
	for _, s := range r.table.Load().slots {
		if s.qpn != noQPN && s.qpn != qpn {
			qps = append(qps, s)
		}
	}
	if with != nil {
		qps = append(qps, *with)
	}
	r.table.Store(newQPTable(qps))
}

func (r *cqRing) entry(i uint32) *wire.WideCQE {
	return (*wire.WideCQE)(unsafe.Add(r.ring, uintptr(i&(r.size-1))*cqeBytes))
}

// word loads the first word of an entry, which the device writes last.
func word(e *wire.WideCQE) wire.CQEWord {
	return wire.CQEWord(atomic.LoadUint32((*uint32)(unsafe.Pointer(e))))
}

// isNew tells whether entry i was written in this round: phases start at 1 and
// flip with every round.
func (r *cqRing) isNew(i uint32) bool {
	return word(r.entry(i)).Phase() == (i>>r.shift&1 == 0)
}

// ready tells whether a completion is there.
func (r *cqRing) ready() bool { return r.isNew(r.at) }

// poll takes up to len(out) completions. All phases are read before the fence
// and all bodies after it, so that one fence serves the whole call.
func (r *cqRing) poll(out []Completion) int {
	n, most := uint32(0), min(uint32(len(out)), r.size)
	for n < most && r.isNew(r.at+n) {
		n++
	}
	if n == 0 {
		return 0
	}
	table, at := r.table.Load(), r.at
	slots, mask := table.slots, table.mask
	mmio.LoadFence()
	var last *workQueue
	got := 0
	for k := range n {
		e := r.entry(at + k)
		qpn := uint32(e.Base().QP())
		slot := &slots[qpn&mask]
		q, ok := (*workQueue)(nil), false
		if slot.qpn == qpn {
			q, ok = r.read(&out[got], e, slot)
		}
		if !ok {
			r.stray.Add(1)
			continue
		}
		got++
		if q != last && q != nil {
			if last != nil {
				last.publish()
			}
			last = q
		}
	}
	if last != nil {
		last.publish()
	}
	r.at = at + n
	if r.rings {
		r.consumed(0)
	}
	return got
}

// read fills in a completion and gives the queue whose request it ends, nil for
// a write that took no receive. It is not ok if it belongs to no queue here.
func (r *cqRing) read(c *Completion, e *wire.WideCQE, slot *qpSlot) (q *workQueue, ok bool) {
	base := e.Base()
	w := base.Word()
	f := w.Flags()
	*c = Completion{
		QPN:    uint16(slot.qpn),
		Status: Status(w.Status()),
		Op:     Op(f.Queue())<<4 | Op(f.Op()),
	}
	if f.Queue() == wire.SendQueue {
		if q = slot.send; q == nil {
			return nil, false
		}
		if q.wide {
			c.ID = base.ReqID64()
			q.done++
			return q, true
		}
		c.ID, ok = q.give(w.ReqID())
		return q, ok
	}
	if q = slot.recv; q == nil {
		return nil, false
	}
	c.Flags = Flags(f) & (WithImm | Unsolicited)
	c.Bytes = e.Length()
	c.Imm, c.SrcQPN, c.AH = base.Imm(), base.SrcQP(), base.AH()
	if r.sgid && c.AH == UnknownAH {
		c.SGID = GID(*e.SrcAddr())
	}
	if f.Unsolicited() {
		return nil, true
	}
	c.ID, ok = q.give(w.ReqID())
	return q, ok
}

// consumed writes the doorbell: how far the queue was read, and with arm the
// wish for an event.
func (r *cqRing) consumed(arm uint32) {
	value := r.at&0xffff | (r.sn&3)<<29 | arm<<31
	if r.bell.dev != nil {
		r.bell.dev.Ring(r.bell.offset, value)
		return
	}
	mmio.Ring(r.bell.register, value)
}
