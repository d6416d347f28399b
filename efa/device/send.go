package device

import (
	"encoding/binary"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// send delivers a SEND of a reliable queue pair. It has one packet.
func (w *worker) send(m *message, t *Device, tq *queuePair, b *budget) {
	d := w.d
	if due := w.pace(d, m.length, b.now); due > 0 {
		w.wait(m, due)
		return
	}
	b.spend(m.length)
	w.mine.some, w.theirs.some = true, true
	w.mine.txPkts++
	w.mine.txBytes += uint64(m.length)
	if m.attempt > 0 && m.lost {
		d.stats.retransPkts.Add(1)
		d.stats.retransBytes.Add(uint64(m.length))
	}
	x, delay := w.packetFate(m, t, 0, m.length, b)
	m.attempt++
	switch x {
	case fateLoss:
		m.lost = true
		d.stats.timeouts.Add(1)
		w.wait(m, b.now+int64(d.opts.RetransmitTimeout))
		return
	case fateDelay:
		w.wait(m, b.now+int64(delay))
		return
	}
	w.theirs.rxPkts++
	w.theirs.rxBytes += uint64(m.length)
	if m.fate == fateRNR {
		m.meet()
		w.notReady(m, t, b)
		return
	}
	var r receive
	if !tq.takeGood(t, &r) {
		w.notReady(m, t, b)
		return
	}
	s := w.fill(m, t, tq, &r, 0)
	if x == fateDuplicate {
		w.theirs.rxPkts++
		w.theirs.duplicates++
	}
	if s == wire.CompLocalInvalidLKey {
		w.complete(m, s)
		return
	}
	w.answer(m, t, s, b)
}

// datagram delivers a UD message, or does not: nobody is told.
func (w *worker) datagram(m *message, t *Device, b *budget) {
	w.mine.some = true
	w.mine.txPkts++
	w.mine.txBytes += uint64(m.length)
	x, _ := w.packetFate(m, t, 0, m.length, b)
	tq := t.qp(uint32(m.destQP))
	var r receive
	switch {
	case x == fateLoss:
	case tq == nil || tq.typ != wire.QPTypeUD || !tq.receives():
		t.stats.rxDrops.Add(1)
	case tq.qkey != m.qkey:
		t.stats.qkeyViol.Add(1)
		t.stats.rxDrops.Add(1)
	case !tq.takeGood(t, &r):
		t.stats.rxDrops.Add(1)
	default:
		w.theirs.some = true
		w.theirs.rxPkts++
		w.theirs.rxBytes += uint64(m.length)
		if w.fill(m, t, tq, &r, grhSize) == wire.CompLocalInvalidLKey {
			w.complete(m, wire.CompLocalInvalidLKey)
			return
		}
	}
	w.complete(m, wire.CompOK)
}

// fill puts a message into a receive, after a header of head bytes, and completes
// the receive. It gives the status for the sender. Nothing is written unless all of
// it fits and all buffers it takes may be written.
func (w *worker) fill(m *message, t *Device, tq *queuePair, r *receive, head uint32) wire.CompStatus {
	done := received{
		reqID: r.reqID, op: wire.IOSend, length: m.length + head, ah: w.known(m.flow, t, tq.pd),
		srcQP: m.qp.number, src: &w.d.opts.GID, hasImm: m.ctrl&wire.TxHasImm != 0, imm: m.imm,
	}
	sender := w.scatter(m, t, tq, r, head, &done)
	if done.status == wire.CompOK {
		w.theirs.recvWRs++
		w.theirs.recvBytes += uint64(m.length)
	} else {
		done.length = 0
	}
	tq.recvCQ.completeRecv(t, tq, &done)
	tq.count(t, recvEvent(done.status))
	return sender
}

// scatter copies a message into a receive's buffers.
func (w *worker) scatter(m *message, t *Device, tq *queuePair, r *receive, head uint32, done *received) wire.CompStatus {
	need := m.length + head
	if r.total < need {
		done.status = wire.CompLocalBadLength
		return wire.CompRemoteBadLength
	}
	var to [maxRecvSGEs]span
	n, left := 0, need
	for i := range r.n {
		c := min(left, r.bufs[i].Length)
		if c == 0 {
			continue
		}
		mr := t.regionL(r.bufs[i].LKey)
		if !mr.allows(tq.pd, wire.AccessLocalWrite, r.bufs[i].Addr, c) {
			done.status = wire.CompLocalInvalidLKey
			return wire.CompRemoteBadStatus
		}
		to[n] = span{mr: mr, dev: t, count: &w.theirs.messagePayload, addr: r.bufs[i].Addr, n: c}
		n++
		left -= c
	}
	var from [1 + wire.MaxSendBufs]span
	k := 0
	if head > 0 {
		w.header(t, m.length)
		from[0] = span{raw: w.grh[:], n: head}
		k++
	}
	if m.inline != nil {
		from[k] = span{raw: m.inline, n: m.length}
	} else {
		for i := range m.nbufs {
			b := &m.bufs[i]
			from[k] = span{mr: w.d.regionL(b.LKey), dev: w.d, count: &w.mine.messagePayload, addr: b.Addr, n: b.Length}
			k++
		}
	}
	switch copySpans(to[:n], from[:], need) {
	case sideSource:
		done.status = wire.CompRemoteAbort
		return wire.CompLocalInvalidLKey
	case sideTarget:
		done.status = wire.CompLocalInvalidLKey
		return wire.CompRemoteBadStatus
	}
	return wire.CompOK
}

// header makes the global route header of a datagram: version 6, the payload's
// length, next header 0x1b, one hop, and the two addresses.
func (w *worker) header(t *Device, length uint32) {
	h := &w.grh
	binary.BigEndian.PutUint32(h[0:], 6<<28)
	binary.BigEndian.PutUint16(h[4:], uint16(length))
	h[6], h[7] = 0x1b, 1
	copy(h[8:24], w.d.opts.GID[:])
	copy(h[24:40], t.opts.GID[:])
}
