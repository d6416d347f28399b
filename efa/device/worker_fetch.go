package device

import (
	"github.com/peerdirect/peerdirect/efa/wire"
)

// enqueue gives a queue pair a turn at fetching, if it may send.
func (w *worker) enqueue(qp *queuePair) {
	if qp.queued || qp.dead || !qp.in(wire.QPStateRTS) {
		return
	}
	qp.queued = true
	w.run[(w.runHead+w.runLen)%maxQPs] = qp
	w.runLen++
}

// unqueue takes a queue pair's turn away.
func (w *worker) unqueue(qp *queuePair) {
	if !qp.queued {
		return
	}
	qp.queued = false
	kept := 0
	for i := range w.runLen {
		at := (w.runHead + i) % maxQPs
		if x := w.run[at]; x != qp {
			w.run[(w.runHead+kept)%maxQPs] = x
			kept++
		}
	}
	w.run[(w.runHead+kept)%maxQPs] = nil
	w.runLen = kept
}

// fetch takes a turn's entries out of a send queue.
func (w *worker) fetch(qp *queuePair) {
	if qp.dead || !qp.in(wire.QPStateRTS) {
		return
	}
	pending := qp.pendingSends(w.d)
	n := min(pending, fetchTurn, uint32(window-w.active))
	for range n {
		if qp.inFlight >= qp.depth {
			return // until one completes
		}
		m := w.take(qp)
		if s := m.parse(w.d); s != wire.CompOK {
			w.complete(m, s)
			continue
		}
		m.order(uint32(w.d.mtu), w.d.fabric.opts.InOrder)
		w.count(m)
		if lat := int64(w.d.opts.Latency); lat > 0 {
			w.wait(m, since()+lat)
		} else {
			w.activate(m)
		}
	}
	if pending > n {
		w.enqueue(qp)
	}
}

// take makes a message of a queue pair's next entry.
func (w *worker) take(qp *queuePair) *message {
	m := w.free
	if m == nil {
		m = &message{}
	} else {
		w.free = m.next
	}
	m.qp = qp
	m.seq = qp.seq
	m.turnOf = w.fetched
	w.fetched++
	m.key = mix(w.d.id<<16|uint64(qp.number), qp.seq)
	qp.seq++
	copy(m.entry[:], qp.nextEntry())
	m.prev, m.next = nil, qp.first
	if qp.first != nil {
		qp.first.prev = m
	}
	qp.first = m
	qp.inFlight++
	m.stage, m.result, m.fate, m.fateOf, m.drawn = stageSend, wire.CompOK, fateNone, nil, false
	m.rnrs, m.silence, m.backoff, m.flow, m.pos, m.carried = 0, 0, 0, nil, -1, 0
	return m
}
