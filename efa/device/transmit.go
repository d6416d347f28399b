package device

import "github.com/peerdirect/peerdirect/efa/wire"

// parse reads a fetched entry and checks what can be checked without the peer and
// without touching memory. Every field may be anything.
func (m *message) parse(d *Device) wire.CompStatus {
	e := (*wire.TxEntry)(m.entry[:])
	m.ctrl = e.Control()
	m.op = m.ctrl.Op()
	m.id = e.ReqID64()
	m.destQP, m.imm, m.qkey = e.DestQP(), e.Imm(), e.QKey()
	m.nbufs, m.length, m.inline = 0, 0, nil
	const must = wire.TxMetaDesc | wire.TxFirst | wire.TxLast
	if m.op > wire.IORDMAWrite {
		m.op &= wire.IOOp(wire.CQEOpMask >> 4) // what a completion has room for
		return wire.CompLocalUnsupportedOp
	}
	if m.ctrl&(must|wire.TxMetaExtension) != must {
		return wire.CompLocalQPInternalError
	}
	if s := m.supported(d); s != wire.CompOK {
		return s
	}
	m.ah = d.ahs.get(uint32(e.AH()))
	if m.ah == nil || m.ah.key.pd != m.qp.pd {
		return wire.CompLocalInvalidAH
	}
	if m.op == wire.IOSend {
		return m.parseSend(d, e)
	}
	return m.parseRDMA(d, e)
}

// supported checks the operation against the device and the queue pair.
func (m *message) supported(d *Device) wire.CompStatus {
	ok := true
	switch m.op {
	case wire.IORDMARead:
		ok = d.opts.Caps&wire.CapRDMARead != 0 && m.ctrl&(wire.TxInline|wire.TxHasImm) == 0
	case wire.IORDMAWrite:
		ok = d.opts.Caps&wire.CapRDMAWrite != 0 && (m.ctrl&wire.TxInline == 0 || m.qp.entry == wideEntry)
	}
	if !ok || m.op != wire.IOSend && m.qp.typ != wire.QPTypeSRD {
		return wire.CompLocalUnsupportedOp
	}
	return wire.CompOK
}

func (m *message) parseSend(d *Device, e *wire.TxEntry) wire.CompStatus {
	n := uint32(e.Length())
	if m.ctrl&wire.TxInline != 0 {
		room := uint32(wire.MaxInline)
		if m.qp.entry == wideEntry {
			room = wire.MaxInlineWide
		}
		if n > min(room, uint32(d.opts.MaxInline)) || int(n) > d.mtu {
			return wire.CompLocalBadLength
		}
		m.inline, m.length = m.entry[32:][:n], n
		return wire.CompOK
	}
	if n > wire.MaxSendBufs {
		return wire.CompLocalBadLength
	}
	var total uint64
	for i := range int(n) {
		b := e.Buf(i)
		total += uint64(b.Length)
		if b.Length > 0 {
			m.bufs[m.nbufs] = b
			m.nbufs++
		}
	}
	if total > uint64(d.mtu) {
		return wire.CompLocalBadLength
	}
	m.length = uint32(total)
	return wire.CompOK
}

func (m *message) parseRDMA(d *Device, e *wire.TxEntry) wire.CompStatus {
	n := uint32(e.Length())
	m.remote = e.Remote()
	m.length = m.remote.Length
	if m.length > d.opts.MaxRDMASize {
		return wire.CompLocalBadLength
	}
	if m.ctrl&wire.TxInline != 0 {
		if n > min(wire.MaxInlineWide, uint32(d.opts.MaxInline)) || n != m.length {
			return wire.CompLocalBadLength
		}
		m.inline = m.entry[48:][:n]
		return wire.CompOK
	}
	var local wire.TxBuf
	if n > wire.MaxRDMABufs {
		return wire.CompLocalBadLength
	}
	if n == 1 {
		local = e.Local()
	}
	if local.Length != m.length {
		return wire.CompLocalBadLength
	}
	if local.Length > 0 {
		m.bufs[0], m.nbufs = local, 1
	}
	return wire.CompOK
}

// localAccess is what the request does to its own buffers.
func (m *message) localAccess() wire.Access {
	if m.op == wire.IORDMARead {
		return wire.AccessLocalWrite
	}
	return 0
}

// localOK checks the request's own buffers as they are registered now.
func (m *message) localOK(d *Device) bool {
	for i := range m.nbufs {
		b := &m.bufs[i]
		if !d.regionL(b.LKey).allows(m.qp.pd, m.localAccess(), b.Addr, b.Length) {
			return false
		}
	}
	return true
}

// count counts a request that was fetched.
func (w *worker) count(m *message) {
	t := &w.mine
	t.some = true
	switch m.op {
	case wire.IOSend:
		t.sendWRs++
		t.sendBytes += uint64(m.length)
	case wire.IORDMARead:
		t.readWRs++
		t.readBytes += uint64(m.length)
	case wire.IORDMAWrite:
		t.writeWRs++
		t.writeBytes += uint64(m.length)
	}
}
