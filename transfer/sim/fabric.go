package sim

import (
	"bytes"

	"github.com/peerdirect/peerdirect/transfer"
)

// message is a request on its way.
type message struct {
	from    *conn
	id      uint64
	bytes   uint64
	start   Time // its first byte goes out
	kind    transfer.OpKind
	imm     uint32
	awaited bool // its completion has not been given

	// Where the bytes are, and go to; of a world that moves them.
	local, remote uint64
	lkey, rkey    uint32

	data []byte // of a message
}

// send has a NIC send a request, after those that were posted before.
func (w *World) send(n *NIC, op *transfer.Op) {
	m := message{
		from: n.conns[op.Peer], id: op.ID, bytes: uint64(op.Local.Length), kind: op.Kind, imm: op.Imm, awaited: true,
		local: op.Local.Addr, lkey: op.Local.Key, remote: op.Remote.Addr, rkey: op.Remote.Key,
	}
	if m.kind == transfer.OpSend {
		from := &n.regions[m.lkey-1]
		m.data = bytes.Clone(from.mem[m.local-from.addr:][:m.bytes])
	}
	if w.posted != nil {
		w.posted(n, op)
	}
	m.start = max(n.core.clock, n.sending)
	n.sending = m.start + max(w.shape.wire(m.bytes), w.request)
	m.from.awaiting++
	index := w.messages.put(m)
	if w.coreByte > 0 {
		w.todo.push(m.start, eventEnter, index)
		return
	}
	w.todo.push(m.start+w.way(), eventArrive, index)
}

// way is how long the first byte is on its way.
func (w *World) way() Time {
	if w.jitter == 0 {
		return w.latency
	}
	return w.latency + Time(w.rand.Int64N(int64(w.jitter)))
}

// enter has a message take its share of the fabric's core, first come first
// served.
func (w *World) enter(index int32) {
	start := max(w.now, w.coreFree)
	w.coreFree = start + Time(float64(w.messages.all[index].bytes)*w.coreByte)
	w.todo.push(start+w.way(), eventArrive, index)
}

// arrive has the first byte of a message come to the far port, which takes it
// when it has taken all that came before. The last byte comes no earlier than it
// went out and was on its way. Then the message is acknowledged.
func (w *World) arrive(index int32) {
	m := &w.messages.all[index]
	near, c := m.from.nic, m.from.to
	if !c.open || c.nic.down || near.down && near.downAt <= m.start {
		w.todo.push(max(w.now, m.start+w.timeout), eventTimeout, index)
		return
	}
	n := c.nic
	end := max(w.now, n.taking) + max(w.shape.wire(m.bytes), w.request)
	n.taking = end
	n.count.Landed += m.bytes
	if w.moves && m.bytes > 0 && m.data == nil {
		from, to := &near.regions[m.lkey-1], &n.regions[m.rkey-1]
		copy(to.mem[m.remote-to.addr:][:m.bytes], from.mem[m.local-from.addr:])
	}
	switch m.kind {
	case transfer.OpNotify:
		n.complete(end, transfer.Completion{Kind: transfer.Notice, Peer: c.id, Imm: m.imm}, 0)
	case transfer.OpSend:
		n.complete(end, transfer.Completion{Kind: transfer.Message, Peer: c.id, Data: m.data}, 0)
	}
	if near.down {
		w.todo.push(max(w.now, m.start+w.timeout), eventTimeout, index) // nobody hears that it came
		return
	}
	if m.awaited {
		m.from.awaiting--
		near.complete(end+w.way(), transfer.Completion{Kind: transfer.Done, Peer: m.from.id, ID: m.id}, m.bytes)
	}
	w.messages.take(index)
}

// expire has the sender give a message up that nobody acknowledged. The cause is
// told once.
func (w *World) expire(index int32) {
	m := w.messages.take(index)
	if !m.awaited {
		return
	}
	m.from.awaiting--
	c := transfer.Completion{Kind: transfer.Failed, Peer: m.from.id, ID: m.id, Err: transfer.ErrFlushed}
	if !m.from.lost {
		m.from.lost = true
		c.Err = &transfer.LostError{Device: m.from.nic.name, Err: errDown}
	}
	m.from.nic.complete(w.now, c, 0)
}
