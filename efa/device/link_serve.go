package device

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// linkReply is the place of a reply, one for each slot of the other side.
type linkReply struct {
	free  chan struct{} // holds a token while the place is not in use
	frame []byte
	ended bool // the data path has said what comes of the request
	h     linkFrame
}

// end notes what became of a request.
func (r *linkReply) end(o outcome, s wire.CompStatus) {
	if !r.ended {
		r.ended, r.h.outcome, r.h.status = true, o, s
	}
}

func newFar(l *Link, index int, gid wire.GID, latency time.Duration) *far {
	d := &Device{fabric: l.fabric, mtu: l.fabric.opts.MTU}
	d.opts = Options{GID: gid, Name: fmt.Sprintf("far%d", index), Memory: ProcessMemory(), Latency: latency}
	d.w.d = d
	x := &far{link: l, index: uint16(index), stub: d, flows: make([]flow, len(l.order))}
	x.message.pos = -1
	x.qp.rnrRetry = rnrForever
	return x
}

// read takes frames until the stream ends.
func (l *Link) read() {
	err := l.readFrames()
	if err == io.EOF && l.parted() {
		err = ErrClosed
	}
	l.fail(err)
}

func (l *Link) readFrames() error {
	r := bufio.NewReaderSize(l.conn, 64<<10)
	var (
		b    [linkHeader]byte
		h    linkFrame
		body []byte
		seq  uint64
	)
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		if err := h.decode(b[:], l.fabric.opts.MTU); err != nil {
			return err
		}
		again := h.seq == seq
		if h.seq != seq+1 && (!again || seq == 0 || h.kind != frameRequest) {
			return fmt.Errorf("%w: frame %d after %d", ErrLinkProtocol, h.seq, seq)
		}
		seq = h.seq
		switch {
		case again:
			if _, err := r.Discard(int(h.payload())); err != nil {
				return err
			}
			if int(h.dst) < len(l.order) {
				l.order[h.dst].dev.stats.duplicates.Add(1)
			}
		case h.kind == frameReply:
			if err := l.replyTo(&h, r); err != nil {
				return err
			}
		default:
			body = sized(body, h.payload())
			if _, err := io.ReadFull(r, body); err != nil {
				return err
			}
			if err := l.serve(&h, body); err != nil {
				return err
			}
		}
	}
}

// replyTo takes the answer of a request.
func (l *Link) replyTo(h *linkFrame, r io.Reader) error {
	if int(h.slot) >= len(l.order)*linkSlots {
		return fmt.Errorf("%w: a reply in slot %d of %d", ErrLinkProtocol, h.slot, len(l.order)*linkSlots)
	}
	s := &l.order[h.slot/linkSlots].slots[h.slot%linkSlots]
	if s.state.Load()&(slotQueued|slotAnswered) != slotQueued {
		return fmt.Errorf("%w: a reply in slot %d, where nothing was asked", ErrLinkProtocol, h.slot)
	}
	if ok := h.outcome == outcomeAnswered && h.status == wire.CompOK; ok && h.n != s.want || !ok && h.n != 0 {
		return fmt.Errorf("%w: a reply of %d bytes, not %d", ErrLinkProtocol, h.n, s.want)
	}
	s.outcome, s.status = h.outcome, h.status
	if h.n > 0 {
		s.data = sized(s.data, h.n)
		if _, err := io.ReadFull(r, s.data); err != nil {
			return err
		}
	}
	s.step(slotAnswered)
	return nil
}

func (l *Link) parted() bool {
	select {
	case <-l.parting:
		return true
	default:
		return false
	}
}

// serve carries out a request of a far device, once, and queues the reply. An error
// is a breach of protocol.
func (l *Link) serve(h *linkFrame, body []byte) error {
	if int(h.slot) >= len(l.replies) || int(h.dst) >= len(l.order) {
		return fmt.Errorf("%w: a request in slot %d for device %d", ErrLinkProtocol, h.slot, h.dst)
	}
	r := &l.replies[h.slot]
	// A peer that uses a slot again has the reply, so the token is here, or comes as
	// soon as the writer has ended writing it.
	select {
	case <-r.free:
	case <-l.done:
		return ErrClosed
	}
	l.serving.Lock()
	defer l.serving.Unlock()
	if l.parted() {
		return nil // nobody is there any more
	}
	x, t := l.fars[h.slot/linkSlots], l.order[h.dst].dev
	r.ended = false
	r.h = linkFrame{kind: frameReply, slot: h.slot}
	r.frame = sized(r.frame, linkHeader)
	data := body
	if h.op == wire.IORDMARead {
		r.frame = sized(r.frame, linkHeader+h.n)
		data = r.frame[linkHeader:]
	}
	lockPair(t, nil)
	x.deliver(h, data, t, r)
	x.stub.w.mine.add(&x.stub.stats)
	x.stub.w.theirs.add(&t.stats)
	unlockPair(t, nil)
	t.raise()
	if h.op == wire.IORDMARead && r.h.outcome == outcomeAnswered && r.h.status == wire.CompOK {
		r.h.n = h.n
	}
	r.frame = r.frame[:linkHeader+r.h.n]
	r.h.encode(r.frame)
	l.back <- r // which has room for all slots
	return nil
}

// deliver lets the data path deliver a piece as if its sender were a device of this
// fabric: with the sender's stub as the source, and data as its memory. The target
// and its memory are held.
func (x *far) deliver(h *linkFrame, data []byte, t *Device, r *linkReply) {
	w := &x.stub.w
	if t.closed || t.fatal || t.faults.silent(true) || t.fabric.faults.silent(true) {
		r.end(outcomeSilence, 0)
		return
	}
	m := &x.message
	m.reply, m.qp, m.flow = r, &x.qp, &x.flows[h.dst]
	m.qp.number, m.qp.typ = h.srcQP, wire.QPTypeSRD
	m.op, m.destQP, m.qkey, m.imm, m.remote = h.op, h.destQP, h.qkey, h.imm, h.remote
	m.length, m.inline, m.ctrl, m.stage, m.attempt = h.total, data, 0, stageSend, 0
	if h.flags&frameImm != 0 {
		m.ctrl = wire.TxHasImm
	}
	b := budget{packets: turnPackets, bytes: turnBytes, now: since()}
	if h.flags&frameDatagram != 0 {
		m.qp.typ = wire.QPTypeUD
		w.datagram(m, t, &b)
		return
	}
	if h.flags&frameNotice != 0 {
		m.stage = stagePlaced
	}
	tq := t.qp(uint32(m.destQP))
	if s := w.accepted(m, t, tq, &b); s != wire.CompOK {
		r.end(outcomeAnswered, s)
		return
	}
	if m.op == wire.IOSend {
		w.send(m, t, tq, &b)
		return
	}
	if m.stage == stagePlaced {
		if w.known(m.flow, t, tq.pd) == wire.UnknownAH {
			r.end(outcomeAnswered, wire.CompRemoteUnknownPeer)
			return
		}
	} else if s := x.place(h, t, m); s != wire.CompOK {
		r.end(outcomeAnswered, s)
		return
	}
	if h.flags&frameLast != 0 {
		if m.stage == stageSend {
			ev := wire.CountRemoteWrite
			if m.op == wire.IORDMARead {
				ev = wire.CountRemoteRead
			}
			tq.count(t, ev)
		}
		if m.op == wire.IORDMAWrite && m.ctrl&wire.TxHasImm != 0 && !w.notice(m, t, tq, &b) {
			return
		}
	}
	r.end(outcomeAnswered, wire.CompOK)
}

// place copies a piece of an accepted read or write. Its region was checked for the
// whole request.
func (x *far) place(h *linkFrame, t *Device, m *message) wire.CompStatus {
	w := &x.stub.w
	packets := uint64(max(1, (h.n+uint32(t.mtu)-1)/uint32(t.mtu)))
	w.theirs.some = true
	if m.op == wire.IORDMAWrite {
		w.theirs.rxPkts += packets
		w.theirs.rxBytes += uint64(h.n)
		w.theirs.writeRecvBytes += uint64(h.n)
	} else {
		w.theirs.txPkts += packets
		w.theirs.txBytes += uint64(h.n)
		w.theirs.readRespBytes += uint64(h.n)
	}
	m.remote.Addr += uint64(h.offset)
	s := w.place(m, t, nil, t.regionR(m.remote.RKey), 0, h.n)
	m.remote.Addr = h.remote.Addr
	return s
}
