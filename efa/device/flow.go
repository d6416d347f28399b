package device

import "github.com/peerdirect/peerdirect/efa/wire"

// flow is a peer and the active messages to it.
type flow struct {
	peer   *Device
	far    *far  // instead, a device that a link leads to
	port   *port // and by which way
	active []*message
	pos    int // in worker.flows
	// The last answer to whether the peer knows this device in a domain.
	knownPD  uint16
	knownGen uint64
	knownAH  uint16
}

// activate makes a message one of its peer's flow.
func (w *worker) activate(m *message) {
	f := w.flowTo(m.ah)
	m.flow = f
	m.pos = len(f.active)
	if m.pos == 0 {
		f.pos = len(w.flows)
		w.flows = append(w.flows, f)
	}
	f.active = append(f.active, m)
	w.active++
}

// deactivate takes a message out of its flow.
func (w *worker) deactivate(m *message) {
	f := m.flow
	last := len(f.active) - 1
	moved := f.active[last]
	f.active[m.pos], moved.pos = moved, m.pos
	f.active[last] = nil
	f.active = f.active[:last]
	m.flow, m.pos = nil, -1
	w.active--
	if last == 0 {
		end := len(w.flows) - 1
		g := w.flows[end]
		w.flows[f.pos], g.pos = g, f.pos
		w.flows[end] = nil
		w.flows = w.flows[:end]
	}
}

// wait puts a message aside.
func (w *worker) wait(m *message, due int64) {
	if m.flow != nil {
		w.deactivate(m)
	}
	m.due = due
	w.heap.push(m)
}

// flowTo finds the flow to an address.
func (w *worker) flowTo(ah *addressHandle) *flow {
	changes := w.d.fabric.changes.Load()
	if ah.flow != nil && ah.changes == changes {
		return ah.flow
	}
	f := &w.nobody
	if peer := w.d.fabric.find(ah.key.gid); peer != nil {
		if f = w.byPeer[peer]; f == nil {
			for p, old := range w.byPeer {
				if p.gone.Load() && len(old.active) == 0 {
					delete(w.byPeer, p)
				}
			}
			f = &flow{peer: peer, active: make([]*message, 0, window)}
			w.byPeer[peer] = f
		}
	} else if x := w.d.fabric.far(ah.key.gid); x != nil {
		f = w.flowToFar(x)
	}
	ah.flow, ah.changes = f, changes
	return f
}

// flowToFar finds the flow to a device behind a link, which is nobody unless this
// device was offered there: its peers could not answer.
func (w *worker) flowToFar(x *far) *flow {
	p := x.link.ports[w.d]
	if p == nil {
		return &w.nobody
	}
	f := w.byFar[x]
	if f == nil {
		for x, old := range w.byFar {
			if x.link.down.Load() && len(old.active) == 0 {
				delete(w.byFar, x)
			}
		}
		f = &flow{far: x, port: p, active: make([]*message, 0, window)}
		w.byFar[x] = f
	}
	return f
}

// complete ends a message: its completion is posted if asked for, or if it failed.
// The device's memory is held.
func (w *worker) complete(m *message, s wire.CompStatus) {
	if m.reply != nil {
		m.reply.end(outcomeAnswered, s)
		return
	}
	d, qp := w.d, m.qp
	if s != wire.CompOK {
		switch m.op {
		case wire.IORDMARead:
			d.stats.readErr.Add(1)
		case wire.IORDMAWrite:
			d.stats.writeErr.Add(1)
		}
	}
	if m.seq < qp.lastDone {
		w.mine.some = true
		w.mine.outOfOrder++
	} else {
		qp.lastDone = m.seq
	}
	op, id, post := m.op, m.id, s != wire.CompOK || m.ctrl&wire.TxCompReq != 0
	w.drop(m)
	if post {
		qp.sendCQ.completeSend(d, qp, id, s, op)
	}
	qp.count(d, sendEvent(op, s))
	if uint16(qp.sqProducer.Load()) != qp.sqConsumer {
		w.enqueue(qp) // it may have been full
	}
	if qp.inFlight == 0 && qp.notify && qp.in(wire.QPStateSQD) {
		qp.notify = false
		w.drained = append(w.drained, qp.number)
	}
}

// drop takes a message out of everything and keeps it for the next request.
func (w *worker) drop(m *message) {
	switch {
	case m.flow != nil:
		w.deactivate(m)
	case m.pos >= 0:
		w.heap.remove(m.pos)
	}
	m.release()
	qp := m.qp
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		qp.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	qp.inFlight--
	m.qp, m.ah, m.inline, m.pos = nil, nil, nil, -1
	m.prev, m.next = nil, w.free
	w.free = m
}

// dropAll drops what a queue pair has in flight, without completions.
func (w *worker) dropAll(qp *queuePair) {
	for qp.first != nil {
		w.drop(qp.first)
	}
}
