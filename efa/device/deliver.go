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

// budget bounds a turn.
type budget struct {
	packets int
	bytes   int
	now     int64 // when it began
	faulty  bool  // there is a plan of faults
}

func (b *budget) spend(n uint32) {
	b.packets--
	b.bytes -= int(n)
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

// silent reports whether faults keep everything from getting through.
func (w *worker) silent(t *Device) bool {
	return w.d.faults.silent(false) || w.d.fabric.faults.silent(true) || t.faults.silent(true)
}

// packetFate draws what befalls a packet, of so many bytes.
func (w *worker) packetFate(m *message, t *Device, p, bytes uint32, b *budget) (fate, time.Duration) {
	if !b.faulty {
		return fateNone, 0
	}
	key := mix(m.key, uint64(m.attempt)<<32|uint64(p))
	for _, f := range [...]*Faults{&w.d.fabric.faults, &w.d.faults, &t.faults} {
		if x, late := f.packetFate(key, bytes); x != fateNone {
			return x, late
		}
	}
	return fateNone, 0
}

// unanswered is what happens where nobody answers: the message is sent again, with
// growing pauses, until the peer counts as gone.
func (w *worker) unanswered(m *message, b *budget) {
	d := w.d
	if m.qp.typ == wire.QPTypeUD {
		w.mine.some = true
		w.mine.txPkts++
		w.mine.txBytes += uint64(m.length)
		w.complete(m, wire.CompOK)
		return
	}
	if m.slot != nil {
		// It was given to a link that ended. Nobody knows whether it was carried
		// out, so it is not sent again.
		w.gone(m)
		return
	}
	m.release()
	if m.silence == 0 {
		m.silence = b.now
		m.backoff = int64(d.opts.RetransmitTimeout)
	} else {
		d.stats.retransPkts.Add(1)
		d.stats.retransBytes.Add(uint64(min(m.length, uint32(d.mtu))))
	}
	if left := m.silence + int64(d.opts.PeerTimeout) - b.now; left <= 0 {
		w.gone(m)
	} else {
		d.stats.timeouts.Add(1)
		w.wait(m, b.now+min(left, m.backoff))
		m.backoff *= 2
	}
}

// gone ends a message to a peer that does not answer.
func (w *worker) gone(m *message) {
	w.d.stats.gone.Add(1)
	s := wire.CompLocalUnreachable
	if m.ah.answered {
		s = wire.CompLocalUnresponsive
	}
	w.complete(m, s)
}

// answer carries the target's answer home.
func (w *worker) answer(m *message, t *Device, s wire.CompStatus, b *budget) {
	if m.reply != nil {
		m.reply.end(outcomeAnswered, s)
		return
	}
	m.ah.answered, m.silence = true, 0
	if m.fate == fateAckLoss && s == wire.CompOK {
		m.meet()
		m.stage = stageDone
		w.d.stats.timeouts.Add(1)
		w.wait(m, b.now+int64(w.d.opts.RetransmitTimeout))
		return
	}
	if t.opts.Latency > 0 {
		m.stage, m.result = stageAnswered, s
		w.wait(m, b.now+int64(t.opts.Latency))
		return
	}
	w.complete(m, s)
}

// notReady is the answer of a target without a receive. The pauses grow, so that a
// full send queue of such messages does not keep the device busy.
func (w *worker) notReady(m *message, t *Device, b *budget) {
	t.stats.rnrs.Add(1)
	if m.reply != nil {
		m.reply.end(outcomeNotReady, 0)
		return
	}
	m.ah.answered, m.silence = true, 0
	if m.rnrs++; m.qp.rnrRetry != rnrForever && m.rnrs > uint32(m.qp.rnrRetry) {
		w.answer(m, t, wire.CompRemoteRNR, b)
		return
	}
	w.wait(m, b.now+int64(w.d.opts.RNRDelay)<<min(m.rnrs-1, 4))
}

// pace charges n bytes to a device's line; if it is too far ahead of its rate, it
// gives the time to come again instead.
func (w *worker) pace(sender *Device, n uint32, now int64) int64 {
	due := w.lineDue(sender, now)
	if due == 0 {
		w.charge(sender, n, now)
	}
	return due
}

// lineDue is when a device's line takes a packet, 0 if it does now.
func (w *worker) lineDue(sender *Device, now int64) int64 {
	if sender.byteTime == 0 {
		return 0
	}
	free := sender.txFree.Load() / paceUnit
	if free <= now+sender.slack {
		return 0
	}
	if sender == w.d {
		w.lineBusy = true
	}
	return free - sender.slack/2
}

// charge has n bytes take their time on a device's line.
//
// What waits for the worker's own line keeps it busy: if the worker comes late, as
// timers and schedulers have it, the line is charged from where it was, and the
// rate holds on average. A line that was idle begins anew.
func (w *worker) charge(sender *Device, n uint32, now int64) {
	if sender.byteTime == 0 {
		return
	}
	if sender == w.d && w.lineBusy {
		now -= paceLate
	}
	took := int64(float64(n) * sender.byteTime)
	for {
		free := sender.txFree.Load()
		if sender.txFree.CompareAndSwap(free, max(free, now*paceUnit)+took) {
			return
		}
	}
}
