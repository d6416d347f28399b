package device

import (
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

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
