package device

import "github.com/peerdirect/peerdirect/efa/wire"

// rdma delivers packets of a read or write that the target accepted, and once all
// have arrived, the notice that a write with immediate wants.
func (w *worker) rdma(m *message, t *Device, tq *queuePair, b *budget) {
	if m.stage == stageSend && !w.packetsOf(m, t, b) {
		return
	}
	if m.stage == stageSend {
		if m.op == wire.IORDMARead {
			tq.count(t, wire.CountRemoteRead)
		} else {
			tq.count(t, wire.CountRemoteWrite)
		}
		m.stage = stagePlaced
	}
	if m.op == wire.IORDMAWrite && m.ctrl&wire.TxHasImm != 0 && !w.notice(m, t, tq, b) {
		return
	}
	w.answer(m, t, wire.CompOK, b)
}

// packetsOf delivers some packets. It reports whether all have arrived; if not, the
// message stays active, waits or has ended.
func (w *worker) packetsOf(m *message, t *Device, b *budget) bool {
	d := w.d
	remote := t.regionR(m.remote.RKey)
	var local *memoryRegion
	if m.nbufs > 0 {
		local = d.regionL(m.bufs[0].LKey)
	}
	sender, sends, receives := d, &w.mine, &w.theirs
	if m.op == wire.IORDMARead {
		sender, sends, receives = t, &w.theirs, &w.mine
	}
	sends.some, receives.some = true, true
	run := 1 + int(w.random()&3)
	if d.fabric.opts.InOrder || len(m.flow.active) == 1 {
		run = turnPackets // nobody to mix with
	}
	mtu := uint32(d.mtu)
	var late int64
	for ; run > 0 && m.todo > 0 && b.packets > 0 && b.bytes > 0; run-- {
		if due := w.lineDue(sender, b.now); due > 0 {
			w.wait(m, due)
			return false
		}
		if m.attempt > 0 && m.lost {
			d.stats.retransPkts.Add(1)
			d.stats.retransBytes.Add(uint64(min(m.length, mtu)))
		}
		p := m.packet()
		off := p * mtu
		n := min(mtu, m.length-off)
		w.charge(sender, n, b.now)
		b.spend(n)
		sends.txPkts++
		sends.txBytes += uint64(n)
		x, delay := w.packetFate(m, t, p, n, b)
		switch x {
		case fateLoss:
			m.miss(p)
			late = max(late, int64(d.opts.RetransmitTimeout))
			d.stats.timeouts.Add(1)
			m.missedLost = true
			continue
		case fateDelay:
			m.miss(p)
			late = max(late, int64(delay))
			continue
		}
		receives.rxPkts++
		receives.rxBytes += uint64(n)
		if s := w.place(m, t, local, remote, off, n); s != wire.CompOK {
			if s == wire.CompLocalInvalidLKey {
				w.complete(m, s)
			} else {
				w.answer(m, t, s, b)
			}
			return false
		}
		if x == fateDuplicate {
			// It was placed, and its number is known: the second is dropped.
			receives.rxPkts++
			receives.duplicates++
		}
		if m.op == wire.IORDMAWrite {
			w.theirs.writeRecvBytes += uint64(n)
		} else {
			w.theirs.readRespBytes += uint64(n)
		}
	}
	m.lateBy = max(m.lateBy, late)
	if m.todo > 0 {
		return false
	}
	if m.late == 0 {
		return true
	}
	m.again()
	w.wait(m, b.now+m.lateBy)
	m.lateBy = 0
	return false
}

// place copies one packet's bytes. Both regions were checked for the whole request.
func (w *worker) place(m *message, t *Device, local, remote *memoryRegion, off, n uint32) wire.CompStatus {
	if n == 0 {
		return wire.CompOK
	}
	there := [1]span{{mr: remote, dev: t, count: &w.theirs.rdmaPayload, addr: m.remote.Addr + uint64(off), n: n}}
	var here [1]span
	if m.inline != nil {
		here[0] = span{raw: m.inline[off:], n: n}
	} else {
		here[0] = span{mr: local, dev: w.d, count: &w.mine.rdmaPayload, addr: m.bufs[0].Addr + uint64(off), n: n}
	}
	to, from := there[:], here[:]
	if m.op == wire.IORDMARead {
		to, from = from, to
	}
	switch copySpans(to, from, n) {
	case sideSource:
		if m.op == wire.IORDMARead {
			return wire.CompRemoteBadAddress
		}
		return wire.CompLocalInvalidLKey
	case sideTarget:
		if m.op == wire.IORDMARead {
			return wire.CompLocalInvalidLKey
		}
		return wire.CompRemoteBadAddress
	}
	return wire.CompOK
}

// notice completes a receive of the target for a write with immediate, or tells it
// unsolicited. It reports whether it did; if not, the message waits or has ended.
func (w *worker) notice(m *message, t *Device, tq *queuePair, b *budget) bool {
	done := received{
		op: wire.IORDMAWrite, length: m.length, ah: w.known(m.flow, t, tq.pd), srcQP: m.qp.number,
		src: &w.d.opts.GID, hasImm: true, imm: m.imm,
	}
	if tq.flags&wire.QPUnsolicitedWriteRecv != 0 {
		done.unsolicited = true
	} else {
		if m.fate == fateRNR {
			m.meet()
			w.notReady(m, t, b)
			return false
		}
		var r receive
		if !tq.takeGood(t, &r) {
			w.notReady(m, t, b)
			return false
		}
		done.reqID = r.reqID
	}
	w.theirs.some = true
	w.theirs.recvWRs++
	tq.recvCQ.completeRecv(t, tq, &done)
	tq.count(t, wire.CountRecv)
	return true
}
