package verbs

/*
#include "shim.h"

#cgo noescape vb_post_recv
#cgo nocallback vb_post_recv
#cgo noescape vb_post_wq
#cgo nocallback vb_post_wq
#cgo noescape vb_post_srq
#cgo nocallback vb_post_srq

static int vb_post_recv(struct ibv_qp *qp, void *wr, void *bad)
{
	return vb_rc(qp->context->ops.post_recv(qp, wr, bad));
}

static int vb_post_wq(struct ibv_wq *wq, void *wr, void *bad)
{
	return vb_rc(wq->post_recv(wq, wr, bad));
}

static int vb_post_srq(struct ibv_srq *srq, void *wr, void *bad)
{
	return vb_rc(srq->context->ops.post_srq_recv(srq, wr, bad));
}
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// RecvBatch collects receives and posts them in one crossing, to a queue pair,
// a shared receive queue or a work queue.
type RecvBatch struct {
	qp    *QP
	srq   *SRQ
	wq    *WQ
	block *batchMemory
	wrs   []recvWR
	sges  []sge
	n     int
	used  int
	err   error
}

// RecvBatch makes a batch of receives of up to the receive queue's size.
func (q *QP) RecvBatch() *RecvBatch {
	return newRecvBatch(&RecvBatch{qp: q}, q.maxRecv, max(q.opts.MaxRecvSGE, 1))
}

func newRecvBatch(b *RecvBatch, depth, width int) *RecvBatch {
	b.block = newBatchMemory(depth * (int(unsafe.Sizeof(recvWR{})) + width*int(unsafe.Sizeof(sge{}))))
	b.wrs = unsafe.Slice((*recvWR)(b.block.at(0)), depth)
	b.sges = unsafe.Slice((*sge)(b.block.at(depth*int(unsafe.Sizeof(recvWR{})))), depth*width)
	for i := range depth - 1 {
		b.wrs[i].next = &b.wrs[i+1]
	}
	return b
}

// Recv adds a receive into one slice; a zero slice receives no data, as a
// WRITE with immediate needs.
func (b *RecvBatch) Recv(into Slice, id uint64) {
	entries := 1
	if into.Length == 0 {
		entries = 0
	}
	if b.n == len(b.wrs) || b.used+entries > len(b.sges) {
		b.err = ErrQueueFull
		return
	}
	if into.bad {
		b.err = ErrRange
	}
	w := &b.wrs[b.n]
	w.id, w.numSGE = id, int32(entries)
	if entries == 1 {
		b.sges[b.used] = sge{addr: into.Addr, length: into.Length, lkey: into.LKey}
		w.sges = &b.sges[b.used]
	}
	b.n++
	b.used += entries
}

// RecvV adds a receive that scatters into several slices.
func (b *RecvBatch) RecvV(into []Slice, id uint64) {
	if b.n == len(b.wrs) || b.used+len(into) > len(b.sges) {
		b.err = ErrQueueFull
		return
	}
	w := &b.wrs[b.n]
	w.id, w.numSGE = id, int32(len(into))
	list := b.sges[b.used : b.used+len(into)]
	w.sges = unsafe.SliceData(list)
	for i, s := range into {
		if s.bad {
			b.err = ErrRange
		}
		list[i] = sge{addr: s.Addr, length: s.Length, lkey: s.LKey}
	}
	b.n++
	b.used += len(into)
}

// Len is the number of receives in the batch.
func (b *RecvBatch) Len() int { return b.n }

// Reset empties the batch without posting it.
func (b *RecvBatch) Reset() { b.n, b.used, b.err = 0, 0, nil }

// Post hands the whole batch to the device in one crossing and empties it.
func (b *RecvBatch) Post() error {
	n, err := b.n, b.err
	b.Reset()
	if err != nil {
		return &PostError{Err: &Error{Verb: "ibv_post_recv", Object: b.describe(), Err: err, Detail: "the batch was not posted"}}
	}
	if n == 0 {
		return nil
	}
	last := &b.wrs[n-1]
	next := last.next
	last.next = nil
	var rc C.int
	switch {
	case b.qp != nil && b.qp.qp != nil:
		rc = C.vb_post_recv(b.qp.qp, unsafe.Pointer(&b.wrs[0]), b.block.bad())
	case b.srq != nil && b.srq.srq != nil:
		rc = C.vb_post_srq(b.srq.srq, unsafe.Pointer(&b.wrs[0]), b.block.bad())
	case b.wq != nil && b.wq.wq != nil:
		rc = C.vb_post_wq(b.wq.wq, unsafe.Pointer(&b.wrs[0]), b.block.bad())
	default:
		last.next = next
		return &Error{Verb: "ibv_post_recv", Object: b.describe(), Err: ErrClosed}
	}
	last.next = next
	if rc == 0 {
		return nil
	}
	posted := 0
	if bad := *(*unsafe.Pointer)(b.block.bad()); bad != nil {
		posted = int((uintptr(bad) - uintptr(unsafe.Pointer(&b.wrs[0]))) / unsafe.Sizeof(recvWR{}))
	}
	detail := ""
	if syscall.Errno(rc) == syscall.ENOMEM {
		detail = "the receive queue is full"
	}
	return &PostError{Posted: min(posted, n), Err: failed("ibv_post_recv", b.describe(), syscall.Errno(rc), detail)}
}

func (b *RecvBatch) describe() string {
	switch {
	case b.srq != nil:
		return b.srq.describe()
	case b.wq != nil:
		return b.wq.describe()
	}
	return b.qp.describe()
}

// Close frees the batch's memory.
func (b *RecvBatch) Close() {
	b.block.free()
	b.wrs, b.sges, b.n, b.used = nil, nil, 0, 0
}
