package device

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// receiveQueue is a ring of receive descriptors in host memory. Whoever delivers
// takes from it, so it has a lock of its own.
type receiveQueue struct {
	base     uint64
	depth    uint32 // descriptors
	producer atomic.Uint32

	mu       sync.Mutex
	consumer uint16
}

// receive is a posted receive: a chain of descriptors.
type receive struct {
	reqID uint16
	bad   bool // the chain makes no sense
	n     int
	bufs  [maxRecvSGEs]wire.TxBuf
	total uint32
}

// take takes the oldest receive; false if none is complete. q.mu and the memory are
// held.
func (q *receiveQueue) take(d *Device, r *receive) bool {
	pending := uint32(uint16(q.producer.Load()) - q.consumer)
	if pending == 0 {
		return false
	}
	if pending > q.depth {
		d.stats.badDoorbells.Add(1)
		return false
	}
	r.n, r.total, r.bad = 0, 0, false
	for i := range pending {
		at := q.base + uint64((uint32(q.consumer)+i)&(q.depth-1))*wire.SizeRxDesc
		b := d.opts.Memory.Bytes(at, wire.SizeRxDesc)
		if len(b) < wire.SizeRxDesc {
			d.stats.ringFaults.Add(1)
			return false
		}
		e := *(*wire.RxEntry)(unsafe.Pointer(unsafe.SliceData(b)))
		switch {
		case i == 0:
			r.reqID = e.ReqID()
			r.bad = !e.First()
		case e.First():
			// The chain before it has no end.
			r.bad = true
			q.consumer += uint16(i)
			return true
		}
		r.bufs[r.n] = wire.TxBuf{Length: uint32(e.Length()), LKey: e.LKey(), Addr: e.Addr()}
		r.total += uint32(e.Length())
		r.n++
		if e.Last() || r.n == d.opts.MaxRecvSGEs {
			r.bad = r.bad || !e.Last()
			q.consumer += uint16(i) + 1
			return true
		}
	}
	return false
}

// takeGood takes the oldest receive that makes sense; those that do not complete as
// errors of their queue pair. It gives up after a few, for the work of one delivery
// to be bounded.
func (qp *queuePair) takeGood(d *Device, r *receive) bool {
	qp.rq.mu.Lock()
	defer qp.rq.mu.Unlock()
	for range 8 {
		if !qp.rq.take(d, r) {
			return false
		}
		if !r.bad {
			return true
		}
		d.stats.badReceives.Add(1)
		done := received{reqID: r.reqID, status: wire.CompLocalQPInternalError, ah: wire.UnknownAH}
		qp.recvCQ.completeRecv(d, qp, &done)
		qp.count(d, wire.CountRecvErr)
	}
	return false
}
