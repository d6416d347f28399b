package device

import (
	"sync/atomic"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// port is a device's place on a link, where its requests go out. Only the device's
// worker touches it, and control operations that hold the device alone.
type port struct {
	link  *Link
	dev   *Device
	slots [linkSlots]linkSlot
	free  []*linkSlot
	used  int64 // when one was last taken or came back
	// Messages that wait for a slot, first come first served.
	first, last *message
}

// linkSlot is a request's piece on its way: from the worker to the link's writer,
// and with the answer from its reader back to the worker. A slot is free again only
// once it was answered, so an answer belongs to what is in the slot.
type linkSlot struct {
	port  *port
	far   *far // the target
	state atomic.Uint32
	m     *message // nil if the answer is not waited for any more
	frame []byte   // header and payload
	twice bool     // a fault doubles it
	want  uint32   // bytes that the answer has to bring
	since int64    // when it was queued
	next  *linkSlot

	// The answer.
	outcome outcome
	status  wire.CompStatus
	data    []byte
}

// A slot goes back to the worker when all of these are done, in whatever order the
// writer and the reader come to tell: the answer may overtake the end of the write.
const (
	slotQueued = 1 << iota
	slotWritten
	slotAnswered
	slotDone = slotQueued | slotWritten | slotAnswered
)

func newPort(l *Link, d *Device, index int) *port {
	p := &port{link: l, dev: d, free: make([]*linkSlot, 0, linkSlots)}
	for i := range p.slots {
		s := &p.slots[i]
		s.port = p
		s.frame = make([]byte, linkHeader)
		(&linkFrame{slot: uint16(index*linkSlots + i)}).encode(s.frame)
		p.free = append(p.free, s)
	}
	return p
}

// step notes what was done to a slot, and hands it back to the worker when it is the
// last.
func (s *linkSlot) step(bit uint32) {
	if s.state.Or(bit)|bit != slotDone {
		return
	}
	d := s.port.dev
	for {
		s.next = d.mail.Load()
		if d.mail.CompareAndSwap(s.next, s) {
			break
		}
	}
	d.wake()
}

// stall makes a message wait for a slot.
func (p *port) stall(m *message) {
	m.stalled, m.ahead, m.behind = p, p.last, nil
	if p.last != nil {
		p.last.behind = m
	} else {
		p.first = m
	}
	p.last = m
}

// release takes a message off its link: it waits neither for a slot nor for what
// comes of the one it has.
func (m *message) release() {
	if m.slot != nil {
		m.slot.m, m.slot = nil, nil
	}
	p := m.stalled
	if p == nil {
		return
	}
	if m.ahead != nil {
		m.ahead.behind = m.behind
	} else {
		p.first = m.behind
	}
	if m.behind != nil {
		m.behind.ahead = m.ahead
	} else {
		p.last = m.ahead
	}
	m.stalled, m.ahead, m.behind = nil, nil, nil
}

// forward sends the next piece of a message to a far device, or finds that an answer
// did not come. The device and its memory are held.
func (w *worker) forward(m *message, x *far, b *budget) {
	d, l, p := w.d, x.link, m.flow.port
	if m.slot != nil || m.stalled != nil { // time to look after it
		w.overdue(m, b)
		return
	}
	if l.down.Load() || b.faulty && (d.faults.silent(false) || d.fabric.faults.silent(true)) {
		w.unanswered(m, b)
		return
	}
	if m.stage == stageDone { // its answer was lost: the target has carried it out
		d.stats.retransPkts.Add(1)
		w.answer(m, x.stub, wire.CompOK, b)
		return
	}
	n := min(m.length-m.carried, linkPiece)
	last := m.carried+n == m.length
	ud := m.qp.typ == wire.QPTypeUD
	if b.faulty && !ud && !w.fated(m, x, last, b) {
		return
	}
	if due := w.pace(d, n, b.now); due > 0 {
		w.wait(m, due)
		return
	}
	var fault fate
	if b.faulty {
		var late time.Duration
		fault, late = w.packetFate(m, x.stub, m.carried/linkPiece, n, b)
		m.attempt++
		switch {
		case ud && fault == fateLoss:
			w.complete(m, wire.CompOK)
			return
		case fault == fateLoss:
			d.stats.timeouts.Add(1)
			w.wait(m, b.now+int64(d.opts.RetransmitTimeout))
			return
		case fault == fateDelay:
			w.wait(m, b.now+int64(late))
			return
		}
	}
	if len(p.free) == 0 {
		if ud { // as any congested network
			w.complete(m, wire.CompOK)
			return
		}
		p.stall(m)
		w.await(m, b)
		return
	}
	s := p.free[len(p.free)-1]
	if !w.load(m, s, x, n, last) {
		w.complete(m, wire.CompLocalInvalidLKey)
		return
	}
	p.free = p.free[:len(p.free)-1]
	p.used = b.now
	b.spend(n)
	w.mine.some = true
	packets := uint64(max(1, (n+uint32(d.mtu)-1)/uint32(d.mtu)))
	if m.op != wire.IORDMARead {
		w.mine.txPkts += packets
		w.mine.txBytes += uint64(n)
	}
	s.twice, s.since, s.far, s.m = fault == fateDuplicate, b.now, x, m
	s.state.Store(slotQueued)
	if ud {
		s.m = nil
		w.complete(m, wire.CompOK)
	} else {
		m.slot = s
		w.await(m, b)
	}
	l.out <- s // which has room for all slots
}

// await makes a message wait for its link.
func (w *worker) await(m *message, b *budget) {
	if m.silence == 0 {
		m.silence, m.backoff = b.now, int64(w.d.opts.RetransmitTimeout)
	}
	w.wait(m, b.now+w.d.lookTime())
}

// fated lets what was drawn for a message happen; false if it did.
func (w *worker) fated(m *message, x *far, last bool, b *budget) bool {
	if !m.drawn {
		m.drawn = true
		w.draw(m, x.stub)
	}
	notice := last && m.op == wire.IORDMAWrite && m.ctrl&wire.TxHasImm != 0
	switch {
	case m.fate == fateAbort:
		m.meet()
		w.answer(m, x.stub, wire.CompRemoteAbort, b)
	case m.fate == fateCorruptKey && m.op != wire.IOSend && m.stage == stageSend:
		m.meet()
		w.answer(m, x.stub, wire.CompRemoteBadAddress, b)
	case m.fate == fateRNR && (m.op == wire.IOSend || notice):
		m.meet()
		w.notReady(m, x.stub, b)
	default:
		return true
	}
	return false
}

// load makes the frame of a message's next piece.
func (w *worker) load(m *message, s *linkSlot, x *far, n uint32, last bool) bool {
	h := linkFrame{
		kind: frameRequest, op: m.op, dst: x.index, total: m.length, offset: m.carried, n: n,
		srcQP: m.qp.number, destQP: m.destQP, qkey: m.qkey, imm: m.imm, remote: m.remote,
	}
	h.slot = uint16(s.frame[4]) | uint16(s.frame[5])<<8
	if last {
		h.flags |= frameLast
	}
	if m.ctrl&wire.TxHasImm != 0 {
		h.flags |= frameImm
	}
	if m.qp.typ == wire.QPTypeUD {
		h.flags |= frameDatagram
	}
	if m.stage == stagePlaced {
		h.flags |= frameNotice
	}
	s.frame = sized(s.frame, linkHeader+h.payload())
	h.encode(s.frame)
	s.want = n - h.payload()
	if h.payload() == 0 {
		return true
	}
	to := [1]span{{raw: s.frame[linkHeader:], n: n}}
	var from [wire.MaxSendBufs]span
	if m.inline != nil {
		from[0] = span{raw: m.inline[m.carried:], n: n}
	} else {
		count := &w.mine.rdmaPayload
		if m.op == wire.IOSend {
			count = &w.mine.messagePayload
		}
		for i := range m.nbufs {
			v := &m.bufs[i]
			from[i] = span{mr: w.d.regionL(v.LKey), dev: w.d, count: count, addr: v.Addr, n: v.Length}
		}
		from[0].skip(m.carried)
	}
	return copySpans(to[:], from[:], n) == sideNone
}

// sized gives a buffer n bytes, of another array if it has too few.
func sized(b []byte, n uint32) []byte {
	if int(n) <= cap(b) {
		return b[:n]
	}
	// Few sizes, so that it comes to rest soon.
	size := uint32(linkHeader + 4096)
	for size < n {
		size = min(4*size, linkHeader+linkPiece)
	}
	return make([]byte, n, size)
}
