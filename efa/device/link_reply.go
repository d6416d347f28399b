package device

import (
	"github.com/peerdirect/peerdirect/efa/wire"
)

// lookTime is how often a message that waits for a far device is looked after, ns.
func (d *Device) lookTime() int64 { return max(1, int64(d.opts.PeerTimeout)/8) }

// overdue looks after a message that waits for its answer, or for a slot, and ends it
// when the peer was silent for PeerTimeout. While bytes move on the link, the peer is
// slow and not silent; but it is not waited for without end. Time in which this side
// did not come to look is not held against the peer.
func (w *worker) overdue(m *message, b *budget) {
	limit := int64(w.d.opts.PeerTimeout)
	p := m.stalled
	var last int64 // sign of the peer's good will
	if m.slot != nil {
		p, last = m.slot.port, m.slot.since
	} else {
		last = p.used
	}
	l := p.link
	moved := l.conn.moved.Load()
	m.silence += max(0, b.now-m.due)
	if !l.down.Load() && b.now-last < 30*limit {
		m.silence = max(m.silence, moved)
	}
	if left := m.silence + limit - b.now; left > 0 {
		w.wait(m, b.now+min(left, w.d.lookTime()))
		return
	}
	m.release()
	w.gone(m)
}

// mailed takes back slots that were answered. The device is held shared, and its
// memory; so only some at a time.
func (w *worker) mailed() {
	d := w.d
	if d.mail.Load() != nil {
		var fresh *linkSlot // the stack, turned round
		for s := d.mail.Swap(nil); s != nil; {
			s.next, fresh, s = fresh, s, s.next
		}
		tail := &w.mail
		for *tail != nil {
			tail = &(*tail).next
		}
		*tail = fresh
	}
	b := budget{now: since()}
	for n := 0; n < turnBytes/linkPiece*4 && w.mail != nil; n++ {
		s := w.mail
		w.mail, s.next = s.next, nil
		m, p := s.m, s.port
		if m != nil {
			m.slot = nil
			if !d.fatal {
				w.detach(m)
				w.replied(m, s, &b)
			}
		}
		s.m = nil
		s.state.Store(0)
		p.free = append(p.free, s)
		p.used = b.now
		if m := p.first; m != nil {
			m.release()
			w.detach(m)
			w.activate(m)
		}
	}
}

// detach takes a message out of the heap, or out of its flow if its time was just
// over.
func (w *worker) detach(m *message) {
	if m.flow != nil {
		w.deactivate(m)
		return
	}
	w.heap.remove(m.pos)
	m.pos = -1
}

// replied is what a far device's answer means to a message, which is in neither the
// heap nor a flow.
func (w *worker) replied(m *message, s *linkSlot, b *budget) {
	x := s.far
	switch s.outcome {
	case outcomeSilence:
		w.unanswered(m, b)
		return
	case outcomeNotReady:
		if m.op == wire.IORDMAWrite {
			m.stage, m.carried = stagePlaced, m.length
		}
		w.notReady(m, x.stub, b)
		return
	}
	if s.status != wire.CompOK {
		w.answer(m, x.stub, s.status, b)
		return
	}
	if m.ah.dead {
		w.complete(m, wire.CompLocalInvalidAH)
		return
	}
	if m.op == wire.IORDMARead && s.want > 0 {
		if !m.localOK(w.d) {
			w.complete(m, wire.CompLocalInvalidLKey)
			return
		}
		to := [1]span{{mr: w.d.regionL(m.bufs[0].LKey), dev: w.d, count: &w.mine.rdmaPayload, addr: m.bufs[0].Addr + uint64(m.carried), n: s.want}}
		from := [1]span{{raw: s.data, n: s.want}}
		if copySpans(to[:], from[:], s.want) != sideNone {
			w.complete(m, wire.CompLocalInvalidLKey)
			return
		}
		w.mine.some = true
		w.mine.rxPkts += uint64(max(1, (s.want+uint32(w.d.mtu)-1)/uint32(w.d.mtu)))
		w.mine.rxBytes += uint64(s.want)
	}
	m.ah.answered, m.silence = true, 0
	m.carried += min(m.length-m.carried, linkPiece)
	if m.carried < m.length {
		w.activate(m)
		return
	}
	w.answer(m, x.stub, wire.CompOK, b)
}
