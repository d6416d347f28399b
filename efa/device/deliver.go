package device

import (
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

const (
	// grhSize is what lies before the payload of a UD receive: a global route
	// header, as in InfiniBand (libfabric's efa provider reserves 40 bytes).
	grhSize = 40
	// paceSlack is how far a device may be ahead of its line rate: timers are no
	// finer than some tens of microseconds. Where a packet takes long it may be
	// pacePackets of them, for to be woken for each costs more than the packet.
	paceSlack   = int64(100 * time.Microsecond)
	pacePackets = 4
	// paceLate is how late the worker may be without loss to the rate.
	paceLate = int64(100 * time.Millisecond)
	// paceUnit is in how many parts of a nanosecond lines are charged, so that
	// what is cut off a small packet's time at a high rate does not matter.
	paceUnit = 64
)

// lockPair holds two devices and their memories, shared; the second may be nil or
// the first again. The order is the same for all: devices by id, then memories by
// rank, one memory once only.
func lockPair(a, b *Device) {
	if b == nil || b == a {
		a.mu.RLock()
		a.opts.Memory.Lock()
		return
	}
	if b.id < a.id {
		a, b = b, a
	}
	a.mu.RLock()
	b.mu.RLock()
	if b.rank < a.rank {
		a, b = b, a
	}
	a.opts.Memory.Lock()
	if b.rank != a.rank {
		b.opts.Memory.Lock()
	}
}

func unlockPair(a, b *Device) {
	a.opts.Memory.Unlock()
	if b != nil && b != a {
		if b.rank != a.rank {
			b.opts.Memory.Unlock()
		}
		b.mu.RUnlock()
	}
	a.mu.RUnlock()
}

// turn delivers some of a flow's packets: of messages picked at random, unless the
// fabric keeps order.
func (w *worker) turn(f *flow) {
	d, t := w.d, f.peer
	lockPair(d, t)
	b := budget{packets: turnPackets, bytes: turnBytes, now: since()}
	b.faulty = d.faults.any() || d.fabric.faults.any() || t != nil && t.faults.any()
	for len(f.active) > 0 && b.packets > 0 && b.bytes > 0 && !d.fatal {
		w.advance(w.pick(f), t, &b)
	}
	w.mine.add(&d.stats)
	if t != nil {
		w.theirs.add(&t.stats)
	}
	unlockPair(d, t)
	d.raise()
	if t != nil {
		t.raise()
	}
	w.tellDrained()
}

// tellDrained tells of queue pairs that drained. No lock is held.
func (w *worker) tellDrained() {
	for _, qp := range w.drained {
		w.d.tell(Event{Kind: EventDrained, QP: qp})
	}
	w.drained = w.drained[:0]
}

func (w *worker) pick(f *flow) *message {
	if !w.d.fabric.opts.InOrder {
		if len(f.active) == 1 {
			return f.active[0]
		}
		return f.active[w.random()%uint64(len(f.active))]
	}
	m := f.active[0]
	for _, x := range f.active[1:] {
		if x.turnOf < m.turnOf {
			m = x
		}
	}
	return m
}

// advance takes a message some way: it delivers packets, waits, or ends it. Both
// devices and their memories are held.
func (w *worker) advance(m *message, t *Device, b *budget) {
	d := w.d
	b.packets--
	switch {
	case m.stage == stageAnswered:
		w.complete(m, m.result)
		return
	case m.ah.dead:
		w.complete(m, wire.CompLocalInvalidAH)
		return
	case m.stage == stageSend && !m.localOK(d):
		w.complete(m, wire.CompLocalInvalidLKey)
		return
	}
	if x := m.flow.far; x != nil {
		w.forward(m, x, b)
		return
	}
	if t == nil || t.closed || t.fatal || b.faulty && w.silent(t) {
		w.unanswered(m, b)
		return
	}
	if m.qp.typ == wire.QPTypeUD {
		w.datagram(m, t, b)
		return
	}
	if m.stage == stageDone {
		// Its answer was lost; the target knows that it has carried it out.
		w.theirs.some = true
		w.theirs.duplicates++
		d.stats.retransPkts.Add(1)
		w.answer(m, t, wire.CompOK, b)
		return
	}
	tq := t.qp(uint32(m.destQP))
	if s := w.accepted(m, t, tq, b); s != wire.CompOK {
		w.answer(m, t, s, b)
		return
	}
	if m.op == wire.IOSend {
		w.send(m, t, tq, b)
	} else {
		w.rdma(m, t, tq, b)
	}
}

// accepted is what the target has to say to a message as such: whether its queue
// pair takes it, and its region if it is RDMA.
func (w *worker) accepted(m *message, t *Device, tq *queuePair, b *budget) wire.CompStatus {
	if tq == nil || tq.typ != wire.QPTypeSRD || !tq.receives() {
		return wire.CompRemoteBadDestQPN
	}
	if tq.qkey != m.qkey {
		t.stats.qkeyViol.Add(1)
		return wire.CompRemoteBadDestQPN
	}
	if b.faulty && !m.drawn {
		m.drawn = true
		w.draw(m, t)
	}
	if m.fate == fateAbort {
		m.meet()
		return wire.CompRemoteAbort
	}
	switch {
	case m.op == wire.IOSend:
		return wire.CompOK
	case m.stage != stageSend && w.known(m.flow, t, tq.pd) != wire.UnknownAH:
		return wire.CompOK // all of a write's bytes are there, its notice is not
	}
	access, feature := wire.AccessRemoteWrite, wire.CapRDMAWrite
	if m.op == wire.IORDMARead {
		access, feature = wire.AccessRemoteRead, wire.CapRDMARead
	}
	switch {
	case t.opts.Caps&feature == 0:
		return wire.CompRemoteFeatureMismatch
	case w.known(m.flow, t, tq.pd) == wire.UnknownAH:
		return wire.CompRemoteUnknownPeer
	case m.fate == fateCorruptKey:
		m.meet()
		return wire.CompRemoteBadAddress
	case !t.regionR(m.remote.RKey).allows(tq.pd, access, m.remote.Addr, m.length):
		return wire.CompRemoteBadAddress
	}
	return wire.CompOK
}

// receives reports whether the queue pair's state lets messages in.
func (qp *queuePair) receives() bool {
	return qp.in(wire.QPStateRTS, wire.QPStateRTR, wire.QPStateSQD, wire.QPStateSQE)
}

// known gives the target's handle of this device in a protection domain,
// wire.UnknownAH if it has none.
func (w *worker) known(f *flow, t *Device, pd uint16) uint16 {
	// ahGen starts at 0 and flows know nothing at generation 0.
	if f.knownGen == t.ahGen && f.knownPD == pd && f.knownGen != 0 {
		return f.knownAH
	}
	f.knownGen, f.knownPD, f.knownAH = t.ahGen, pd, wire.UnknownAH
	if ah := t.ahByPeer[peerKey{w.d.opts.GID, pd}]; ah != nil {
		f.knownAH = ah.number
	}
	return f.knownAH
}

// draw draws what befalls a message at its target.
func (w *worker) draw(m *message, t *Device) {
	for _, f := range [...]*Faults{&w.d.fabric.faults, &w.d.faults, &t.faults} {
		if m.fate = f.messageFate(m.key); m.fate != fateNone {
			m.fateOf = f
			return
		}
	}
}

// meet ends a fate that came to pass.
func (m *message) meet() {
	m.fateOf.count(m.fate)
	m.fate = fateNone
}
