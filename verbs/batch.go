package verbs

/*
#include "shim.h"

#cgo noescape vb_post_send
#cgo nocallback vb_post_send

static int vb_post_send(struct ibv_qp *qp, void *wr, void *bad)
{
	return vb_rc(qp->context->ops.post_send(qp, wr, bad));
}

// Providers take a window's old rkey from its structure when they bind it
// anew, and leave it to the program to keep it.
static void vb_bound(void *list)
{
	struct ibv_send_wr *wr;

	for (wr = list; wr; wr = wr->next)
		if (wr->opcode == IBV_WR_BIND_MW)
			wr->bind_mw.mw->rkey = wr->bind_mw.rkey;
}
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Batch collects send requests and posts them in one crossing into C. It is
// made once and used again and again; adding and posting allocate nothing. A
// batch belongs to one goroutine.
//
// A request that cannot be right (a slice outside its region, no room) makes
// Post fail with everything unposted.
type Batch struct {
	qp    *QP
	block *batchMemory
	wrs   []sendWR
	sges  []sge
	n     int // requests in the batch
	used  int // scatter entries in the batch
	err   error

	gathers bool // a request has several scatter entries
	binds   bool // a request binds a window
}

// Batch makes a batch of up to the send queue's size. Close it with the queue
// pair; its memory is the library's, outside the Go heap.
func (q *QP) Batch() *Batch {
	sges := q.maxSend * max(q.opts.MaxSendSGE, 1)
	// One request and one entry more than the queue holds: a refused request
	// is built there.
	block := newBatchMemory((q.maxSend+1)*int(unsafe.Sizeof(sendWR{})) + sges*int(unsafe.Sizeof(sge{})))
	b := &Batch{qp: q, block: block}
	b.wrs = unsafe.Slice((*sendWR)(block.at(0)), q.maxSend+1)
	b.sges = unsafe.Slice((*sge)(block.at((q.maxSend+1)*int(unsafe.Sizeof(sendWR{})))), sges)
	for i := range q.maxSend {
		b.wrs[i].next = &b.wrs[i+1]
	}
	return b
}

// Len is the number of requests in the batch.
func (b *Batch) Len() int { return b.n }

// Post hands the whole batch to the device in one crossing and empties it. A
// *PostError tells how many were taken when the device refused one.
func (b *Batch) Post() error {
	n, err := b.n, b.err
	classic := b.qp.ex == nil || b.gathers && b.qp.gatherWrong
	binds := b.binds
	b.Reset()
	if err != nil {
		return b.refused(err)
	}
	if n == 0 {
		return nil
	}
	if b.qp.qp == nil {
		return &Error{Verb: "ibv_post_send", Object: b.qp.describe(), Err: ErrClosed}
	}
	last := &b.wrs[n-1]
	next := last.next
	last.next = nil
	var rc C.int
	if classic {
		rc = C.vb_post_send(b.qp.qp, unsafe.Pointer(&b.wrs[0]), b.block.bad())
	} else {
		rc = b.qp.postExtended(unsafe.Pointer(&b.wrs[0]), b.block.bad())
	}
	if binds && rc == 0 {
		C.vb_bound(unsafe.Pointer(&b.wrs[0]))
	}
	last.next = next
	if rc == 0 {
		return nil
	}
	return b.postFailed(syscall.Errno(rc), n)
}

// Reset empties the batch without posting it.
func (b *Batch) Reset() {
	b.n, b.used, b.err = 0, 0, nil
	b.gathers, b.binds = false, false
}

func (b *Batch) refused(err error) error {
	detail := "the batch was not posted"
	switch err {
	case errNoSuchOp:
		detail = fmt.Sprintf("the queue pair was made for %v; name the operation in QPOptions.Extended", b.qp.opts.Extended)
	case ErrQueueFull:
		detail = fmt.Sprintf("more than the %d requests or %d buffers that the queue was made for; nothing was posted", len(b.wrs)-1, len(b.sges))
	}
	return &PostError{Err: &Error{Verb: "ibv_post_send", Object: b.qp.describe(), Err: err, Detail: detail}}
}

func (b *Batch) postFailed(errno syscall.Errno, n int) error {
	posted := 0
	if bad := *(*unsafe.Pointer)(b.block.bad()); bad != nil {
		posted = int((uintptr(bad) - uintptr(unsafe.Pointer(&b.wrs[0]))) / unsafe.Sizeof(sendWR{}))
	}
	return &PostError{Posted: min(posted, n), Err: failed("ibv_post_send", b.qp.describe(), errno, b.qp.explainPost(errno))}
}

func (q *QP) explainPost(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOMEM:
		return "the send queue is full; poll completions first, or make it deeper"
	case syscall.EINVAL, syscall.ENOTCONN:
		state, err := q.State()
		if err == nil && state != StateRTS {
			return fmt.Sprintf("the queue pair is in %v, not RTS", state)
		}
		return "more buffers or inline bytes than the queue pair was made for, or an operation it lacks"
	}
	return ""
}

// PostError is a batch of which only the first Posted requests were taken.
type PostError struct {
	Posted int
	Err    error
}

func (e *PostError) Error() string { return fmt.Sprintf("%v (%d posted before it)", e.Err, e.Posted) }

func (e *PostError) Unwrap() error { return e.Err }

// Close frees the batch's memory.
func (b *Batch) Close() {
	b.block.free()
	b.wrs, b.sges = nil, nil
	b.Reset()
}

// batchMemory is zeroed C memory that begins with the word where the library
// leaves the request it refused.
type batchMemory struct {
	p unsafe.Pointer
}

const batchHead = 64 // keeps the requests on cache lines of their own

func newBatchMemory(bytes int) *batchMemory {
	var p unsafe.Pointer
	if C.posix_memalign(&p, 64, C.size_t(batchHead+bytes)) != 0 {
		// As the runtime does for its own memory: there is no way on.
		panic("verbs: out of memory")
	}
	C.memset(p, 0, C.size_t(batchHead+bytes))
	return &batchMemory{p: p}
}

func (m *batchMemory) bad() unsafe.Pointer          { return m.p }
func (m *batchMemory) at(offset int) unsafe.Pointer { return unsafe.Add(m.p, batchHead+offset) }

func (m *batchMemory) free() {
	if m.p != nil {
		C.free(m.p)
		m.p = nil
	}
}
