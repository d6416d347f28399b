package efa

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/internal/mmio"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// cqRing is a completion queue read in its own memory. One goroutine polls it.
type cqRing struct {
	ring  unsafe.Pointer
	size  uint32 // a power of two
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
		ring: m.ring, size: uint32(m.count),
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
	return word(r.entry(i)).Phase() == (i&r.size == 0)
}

// ready tells whether a completion is there.
func (r *cqRing) ready() bool { return r.isNew(r.at) }

// take is Poll. What was sent is taken here, in a loop that calls nothing and so
// keeps all it needs in registers; from the first other completion on, rest takes
// over. Where the processor reorders loads, one fence behind all phases serves all
// bodies.
func (q *CQ) take(out []Completion) (int, error) {
	r := q.ring
	if r == nil || q.shut.Load() {
		return q.pollElse(out)
	}
	if !mmio.LoadsInOrder {
		out = out[:r.arrived(len(out))]
	}
	at, start := r.at, r.at
	table := r.table.Load()
	var last *workQueue
	got := 0
	for got < len(out) {
		e := r.entry(at)
		w := word(e)
		if w.Phase() != (at&r.size == 0) {
			break
		}
		qp, id := e.Base().QPAndReqID64(w)
		slot := &table.slots[uint32(qp)&table.mask]
		q := slot.send
		if slot.qpn != uint32(qp) || w.Flags().Queue() != wire.SendQueue || q == nil {
			got, at = r.rest(out, got, table, at)
			break
		}
		if q.wide {
			q.done++
		} else {
			var ok bool
			if id, ok = q.give(w.ReqID()); !ok {
				got, at = r.rest(out, got, table, at)
				break
			}
		}
		out[got] = Completion{ID: id, QPN: qp, Status: Status(w.Status()), Op: opOf(w.Flags())}
		got++
		at++
		if q != last {
			if last != nil {
				last.publish()
			}
			last = q
		}
	}
	if at == start {
		return 0, nil
	}
	if last != nil {
		last.publish()
	}
	r.at = at
	if r.rings {
		r.consumed(0)
	}
	return got, nil
}

// arrived tells how many completions are there, up to n, so that their bodies may
// be read.
func (r *cqRing) arrived(n int) int {
	at := r.at
	for end := at + min(uint32(n), r.size); at != end && r.isNew(at); at++ {
	}
	mmio.LoadFence()
	return int(at - r.at)
}

// rest takes completions of any kind, from entry at on, behind the got that are
// taken. It gives how many there are then and the entry behind the last.
func (r *cqRing) rest(out []Completion, got int, table *qpTable, at uint32) (int, uint32) {
	for end := at + r.size; got < len(out) && at != end && r.isNew(at); at++ {
		e, c := r.entry(at), &out[got]
		w := word(e)
		qp, id := e.Base().QPAndReqID64(w)
		f, slot := w.Flags(), &table.slots[uint32(qp)&table.mask]
		q, ok := (*workQueue)(nil), false
		switch {
		case slot.qpn != uint32(qp):
		case f.Queue() != wire.SendQueue:
			if slot.recv != nil {
				q, ok = r.received(c, e, slot.recv)
			}
		case slot.send != nil:
			if q, ok = slot.send, true; q.wide {
				q.done++
			} else {
				id, ok = q.give(w.ReqID())
			}
			*c = Completion{ID: id}
		}
		if !ok {
			r.stray.Add(1)
			continue
		}
		c.QPN, c.Status, c.Op = qp, Status(w.Status()), opOf(f)
		got++
		if q != nil {
			q.publish()
		}
	}
	return got, at
}

func opOf(f wire.CQEFlags) Op { return Op(f.Queue())<<4 | Op(f.Op()) }

// received fills in what only a receive's completion tells, and gives its queue,
// nil for a write that took no receive. It is not ok if its id is not the
// queue's.
func (r *cqRing) received(c *Completion, e *wire.WideCQE, q *workQueue) (taken *workQueue, ok bool) {
	base, w := e.Base(), word(e)
	f := w.Flags()
	*c = Completion{
		Bytes: e.Length(), Imm: base.Imm(), SrcQPN: base.SrcQP(), AH: base.AH(),
		Flags: Flags(f) & (WithImm | Unsolicited),
	}
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
