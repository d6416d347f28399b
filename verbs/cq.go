package verbs

/*
#include "shim.h"

#cgo noescape vb_poll
#cgo nocallback vb_poll
#cgo nocallback vb_notify

static struct ibv_cq *vb_create_cq(struct ibv_context *c, int cqe, uintptr_t cookie, struct ibv_comp_channel *ch, int vector)
{
	errno = 0;
	return vb.ibv_create_cq(c, cqe, (void *)cookie, ch, vector);
}

static int vb_resize_cq(struct ibv_cq *cq, int cqe) { errno = 0; return vb_rc(vb.ibv_resize_cq(cq, cqe)); }
static int vb_destroy_cq(struct ibv_cq *cq) { return vb_rc(vb.ibv_destroy_cq(cq)); }
static void vb_ack_cq(struct ibv_cq *cq, unsigned n) { vb.ibv_ack_cq_events(cq, n); }

static int vb_poll(struct ibv_cq *cq, int n, void *wc)
{
	return cq->context->ops.poll_cq(cq, n, wc);
}

static int vb_notify(struct ibv_cq *cq, int solicited)
{
	errno = 0;
	return vb_rc(cq->context->ops.req_notify_cq(cq, solicited));
}

static int vb_modify_cq(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr a = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = count, .cq_period = period},
	};
	struct verbs_context *v = VB_OP(cq->context, modify_cq);

	return v ? vb_rc(v->modify_cq(cq, &a)) : EOPNOTSUPP;
}
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// CQOptions size and place a completion queue.
type CQOptions struct {
	Depth   int      // entries; default 256; the device may round up
	Channel *Channel // for event-driven use; nil for polling only
	Vector  int      // completion vector (interrupt), below Device.Vectors

	// Any of the following asks for an extended queue (ibv_create_cq_ex),
	// which Poll and PollExt both read.
	WC             WCFlags // what completions carry; default WCStandard
	SingleThreaded bool    // promises that one thread at a time polls, so that the driver need not lock
	IgnoreOverrun  bool    // the program sees to it that the queue never overflows
	ParentDomain   *PD     // see PD.AllocParentDomain

	// Create makes the queue in place of ibv_create_cq_ex, for drivers'
	// own verbs. It gets the struct ibv_context and the filled struct
	// ibv_cq_init_attr_ex, and gives a struct ibv_cq_ex.
	Create func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error)
	// Read is a C function, void (*)(struct ibv_cq_ex *, void *), that adds
	// what a driver knows to an ExtCompletion (the second argument, see
	// there) while the completion is current. It must not call into Go.
	Read unsafe.Pointer
}

func (o *CQOptions) extended() bool {
	return o.WC != 0 || o.SingleThreaded || o.IgnoreOverrun || o.ParentDomain != nil || o.Create != nil
}

// CQ is a completion queue. One goroutine polls it at a time.
type CQ struct {
	object
	dev     *Device
	cq      *C.struct_ibv_cq
	ext     *extended // nil: polled by ibv_poll_cq
	channel *Channel
	depth   int
	events  atomic.Uint32 // taken from the channel and not yet acknowledged
	closing atomic.Bool
}

// CreateCQ makes a completion queue.
func (d *Device) CreateCQ(o CQOptions) (*CQ, error) {
	if o.Depth == 0 {
		o.Depth = 256
	}
	verb := "ibv_create_cq"
	if o.extended() {
		verb = "ibv_create_cq_ex"
	}
	cq := &CQ{dev: d, channel: o.Channel}
	parents := []*object{&d.object}
	if o.Channel != nil {
		parents = append(parents, &o.Channel.object)
	}
	if o.ParentDomain != nil {
		parents = append(parents, &o.ParentDomain.object)
	}
	if err := cq.attach(verb, "cq", parents...); err != nil {
		return nil, err
	}
	cookie := cookies.add(cq)
	p, err := cq.create(cookie, o)
	if p == nil {
		cookies.remove(cookie)
		cq.detach()
		return nil, cq.createError(verb, o, err)
	}
	cq.cq, cq.depth = p, int(p.cqe)
	cq.rename("%d", uint32(p.handle))
	return cq, nil
}

func (q *CQ) create(cookie uintptr, o CQOptions) (*C.struct_ibv_cq, error) {
	if o.extended() {
		return q.createExtended(cookie, o)
	}
	var ch *C.struct_ibv_comp_channel
	if o.Channel != nil {
		ch = o.Channel.ch
	}
	p, err := C.vb_create_cq(q.dev.ctx, C.int(o.Depth), C.uintptr_t(cookie), ch, C.int(o.Vector))
	return p, err
}

func (q *CQ) createError(verb string, o CQOptions, err error) error {
	object := fmt.Sprintf("%s, depth %d, vector %d", q.dev.info.Name, o.Depth, o.Vector)
	detail := ""
	switch a, aerr := q.dev.Attr(); {
	case o.Depth < 0:
		detail = "the depth must be above 0"
	case aerr == nil && o.Depth > a.MaxCQE:
		detail = fmt.Sprintf("the device's limit on entries (max_cqe) is %d", a.MaxCQE)
	case o.Vector < 0 || o.Vector >= q.dev.Vectors():
		detail = fmt.Sprintf("the device has %d completion vectors, from 0", q.dev.Vectors())
	case o.extended():
		object += fmt.Sprintf(", completions with %v", o.WC)
		detail = "the driver has no such queue: leave out what is not standard"
	}
	return failed(verb, object, err, detail)
}

// Poll takes up to len(out) completions and gives how many there were. It
// does not allocate and does not wait.
func (q *CQ) Poll(out []Completion) (int, error) {
	if len(out) == 0 {
		return 0, nil
	}
	if q.cq == nil {
		return 0, &Error{Verb: "ibv_poll_cq", Object: q.describe(), Err: ErrClosed}
	}
	var n int
	if q.ext != nil {
		n = q.ext.poll(out)
	} else {
		// Written so, cgo looks for Go pointers in the slice alone, and
		// not in a structure of the caller's that it may be part of.
		n = int(C.vb_poll(q.cq, C.int(len(out)), unsafe.Pointer(&out[0])))
	}
	if n < 0 {
		return 0, q.pollFailed(n)
	}
	return n, nil
}

func (q *CQ) pollFailed(n int) error {
	err := syscall.Errno(-n)
	if n == -1 {
		err = syscall.EIO
	}
	return failed("ibv_poll_cq", q.describe(), err, "the queue overflowed or the device is gone; its queue pairs are lost")
}

// RequestNotify arms the queue: the next completion (the next solicited one,
// if so asked) raises one event on its channel. Poll after arming and before
// waiting: what came in between raises none.
func (q *CQ) RequestNotify(solicitedOnly bool) error {
	if q.cq == nil {
		return &Error{Verb: "ibv_req_notify_cq", Object: q.describe(), Err: ErrClosed}
	}
	var solicited C.int
	if solicitedOnly {
		solicited = 1
	}
	if rc := C.vb_notify(q.cq, solicited); rc != 0 {
		return code("ibv_req_notify_cq", q.describe(), int(rc), "")
	}
	return nil
}

// Depth is the number of entries the device gave.
func (q *CQ) Depth() int { return q.depth }

// Resize changes the number of entries, keeping what is in the queue.
func (q *CQ) Resize(depth int) error {
	q.life.Lock()
	defer q.life.Unlock()
	if q.cq == nil {
		return &Error{Verb: "ibv_resize_cq", Object: q.describe(), Err: ErrClosed}
	}
	if err := code("ibv_resize_cq", q.describe(), int(C.vb_resize_cq(q.cq, C.int(depth))), ""); err != nil {
		return err
	}
	q.depth = int(q.cq.cqe)
	return nil
}

// Moderate asks for an event only after count completions, or microseconds
// after the first.
func (q *CQ) Moderate(count, microseconds uint16) error {
	if q.cq == nil {
		return &Error{Verb: "ibv_modify_cq", Object: q.describe(), Err: ErrClosed}
	}
	return code("ibv_modify_cq", q.describe(), int(C.vb_modify_cq(q.cq, C.uint16_t(count), C.uint16_t(microseconds))), "")
}

// Channel is the queue's completion channel, or nil.
func (q *CQ) Channel() *Channel { return q.channel }

// Handle is the struct ibv_cq, nil once the queue is closed.
func (q *CQ) Handle() unsafe.Pointer { return unsafe.Pointer(q.cq) }

func (q *CQ) describe() string { return q.dev.info.Name + " " + q.name() }

// Close destroys the queue. Events taken from its channel are acknowledged
// first: the library waits for that.
func (q *CQ) Close() error {
	return q.close("ibv_destroy_cq", func() error {
		cookie := uintptr(q.cq.cq_context)
		q.closing.Store(true)
		if n := q.events.Swap(0); n > 0 {
			C.vb_ack_cq(q.cq, C.uint(n))
		}
		if err := code("ibv_destroy_cq", q.describe(), int(C.vb_destroy_cq(q.cq)), ""); err != nil {
			q.closing.Store(false)
			return err
		}
		cookies.remove(cookie)
		q.cq, q.ext = nil, nil
		return nil
	})
}
