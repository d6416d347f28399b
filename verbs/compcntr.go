package verbs

/*
#include "shim.h"

static int vb_cntr_caps(struct ibv_context *c, struct vb_comp_cntr_caps *caps)
{
	if (!vb_newer._ibv_query_comp_cntr_caps)
		return EOPNOTSUPP;
	return vb_rc(vb_newer._ibv_query_comp_cntr_caps(c, caps, sizeof(*caps)));
}

static struct vb_comp_cntr *vb_create_cntr(struct ibv_context *c, uint32_t type)
{
	struct vb_comp_cntr_attr a = {.type = type};

	errno = EOPNOTSUPP;
	return vb_newer.ibv_create_comp_cntr ? vb_newer.ibv_create_comp_cntr(c, &a) : NULL;
}

static int vb_destroy_cntr(struct vb_comp_cntr *c) { return vb_rc(vb_newer.ibv_destroy_comp_cntr(c)); }

static int vb_attach_cntr(struct ibv_qp *qp, struct vb_comp_cntr *c, uint32_t ops)
{
	struct vb_attach_comp_cntr a = {.op_mask = ops};

	return vb_rc(vb_newer.ibv_qp_attach_comp_cntr(qp, c, &a));
}

static int vb_read_cntr(struct vb_comp_cntr *c, uint64_t *done, uint64_t *failed)
{
	int rc = vb_rc(vb_newer.ibv_read_comp_cntr(c, done));

	return rc ? rc : vb_rc(vb_newer.ibv_read_err_comp_cntr(c, failed));
}

static int vb_set_cntr(struct vb_comp_cntr *c, uint64_t done, uint64_t failed)
{
	int rc = vb_rc(vb_newer.ibv_set_comp_cntr(c, done));

	return rc ? rc : vb_rc(vb_newer.ibv_set_err_comp_cntr(c, failed));
}

static int vb_inc_cntr(struct vb_comp_cntr *c, uint64_t done, uint64_t failed)
{
	int rc = done ? vb_rc(vb_newer.ibv_inc_comp_cntr(c, done)) : 0;

	return rc || !failed ? rc : vb_rc(vb_newer.ibv_inc_err_comp_cntr(c, failed));
}
*/
import "C"

import "unsafe"

// CounterOps are operations that feed a completion counter
// (enum ibv_qp_attach_comp_cntr_op).
type CounterOps uint32

const (
	CounterSend        CounterOps = 1 << 0
	CounterRecv        CounterOps = 1 << 1
	CounterRead        CounterOps = 1 << 2
	CounterRemoteRead  CounterOps = 1 << 3
	CounterWrite       CounterOps = 1 << 4
	CounterRemoteWrite CounterOps = 1 << 5
)

func (o CounterOps) String() string {
	return bitNames(uint64(o), []bitName{
		{1 << 0, "SEND"}, {1 << 1, "RECV"}, {1 << 2, "RDMA_READ"}, {1 << 3, "REMOTE_RDMA_READ"},
		{1 << 4, "RDMA_WRITE"}, {1 << 5, "REMOTE_RDMA_WRITE"},
	})
}

// CompletionCounterCaps are a device's limits on completion counters.
type CompletionCounterCaps struct {
	MaxValue    uint64
	MaxCounters int
	Ops         CounterOps
}

// CompletionCounterCaps asks what completion counters the device has. They
// take symbol version 1.18 of the library.
func (d *Device) CompletionCounterCaps() (CompletionCounterCaps, error) {
	if d.ctx == nil {
		return CompletionCounterCaps{}, &Error{Verb: "ibv_query_comp_cntr_caps", Object: d.info.Name, Err: ErrClosed}
	}
	var c C.struct_vb_comp_cntr_caps
	rc := C.vb_cntr_caps(d.ctx, &c)
	return CompletionCounterCaps{MaxValue: uint64(c.max_value), MaxCounters: int(c.max_counters), Ops: CounterOps(c.supported_qp_attach_ops)},
		code("ibv_query_comp_cntr_caps", d.info.Name, int(rc), "")
}

// CompletionCounter counts completions in place of a queue that lists them.
type CompletionCounter struct {
	object
	dev *Device
	c   *C.struct_vb_comp_cntr
}

// CreateCompletionCounter makes a counter of work requests, or of their bytes.
func (d *Device) CreateCompletionCounter(bytes bool) (*CompletionCounter, error) {
	if !HasFunction("ibv_create_comp_cntr") {
		return nil, unsupported("ibv_create_comp_cntr", d.info.Name)
	}
	c := &CompletionCounter{dev: d}
	if err := c.attach("ibv_create_comp_cntr", "comp_cntr", &d.object); err != nil {
		return nil, err
	}
	var kind C.uint32_t
	if bytes {
		kind = 1
	}
	p, errno := C.vb_create_cntr(d.ctx, kind)
	return c.made("ibv_create_comp_cntr", p, errno)
}

// CreateCompletionCounterBy makes a counter of work requests through a driver's
// own verb, which gets the struct ibv_context and a zeroed struct
// ibv_comp_cntr_init_attr, and gives a struct ibv_comp_cntr.
func (d *Device) CreateCompletionCounterBy(verb string, create func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error)) (*CompletionCounter, error) {
	if !HasFunction("ibv_destroy_comp_cntr") {
		return nil, unsupported(verb, d.info.Name)
	}
	c := &CompletionCounter{dev: d}
	if err := c.attach(verb, "comp_cntr", &d.object); err != nil {
		return nil, err
	}
	var a C.struct_vb_comp_cntr_attr
	p, err := create(unsafe.Pointer(d.ctx), unsafe.Pointer(&a))
	return c.made(verb, (*C.struct_vb_comp_cntr)(p), err)
}

func (c *CompletionCounter) made(verb string, p *C.struct_vb_comp_cntr, err error) (*CompletionCounter, error) {
	if p == nil {
		c.detach()
		return nil, failed(verb, c.dev.info.Name, err, "")
	}
	c.c = p
	c.rename("%d", uint32(p.handle))
	return c, nil
}

// AttachCounter has operations of the queue pair feed a counter. The counter
// cannot be closed before the queue pair.
func (q *QP) AttachCounter(c *CompletionCounter, ops CounterOps) error {
	q.life.Lock()
	defer q.life.Unlock()
	if q.qp == nil {
		return &Error{Verb: "ibv_qp_attach_comp_cntr", Object: q.describe(), Err: ErrClosed}
	}
	if err := c.hold("ibv_qp_attach_comp_cntr", &q.object); err != nil {
		return err
	}
	if rc := C.vb_attach_cntr(q.qp, c.c, C.uint32_t(ops)); rc != 0 {
		c.drop(&q.object)
		return code("ibv_qp_attach_comp_cntr", q.describe(), int(rc), "")
	}
	q.life.Rest(&c.life, nil)
	return nil
}

// Read gives how many completed and how many of them failed.
func (c *CompletionCounter) Read() (done, failed uint64, err error) {
	err = c.call("ibv_read_comp_cntr", func() C.int {
		return C.vb_read_cntr(c.c, (*C.uint64_t)(&done), (*C.uint64_t)(&failed))
	})
	return done, failed, err
}

// Set sets both counts, which must stand still meanwhile.
func (c *CompletionCounter) Set(done, failed uint64) error {
	return c.call("ibv_set_comp_cntr", func() C.int {
		return C.vb_set_cntr(c.c, C.uint64_t(done), C.uint64_t(failed))
	})
}

// Add adds to both counts.
func (c *CompletionCounter) Add(done, failed uint64) error {
	return c.call("ibv_inc_comp_cntr", func() C.int {
		return C.vb_inc_cntr(c.c, C.uint64_t(done), C.uint64_t(failed))
	})
}

func (c *CompletionCounter) call(verb string, f func() C.int) error {
	if c.c == nil {
		return &Error{Verb: verb, Object: c.dev.info.Name + " " + c.name(), Err: ErrClosed}
	}
	return code(verb, c.dev.info.Name+" "+c.name(), int(f()), "")
}

// Handle is the struct ibv_comp_cntr, nil once the counter is closed.
func (c *CompletionCounter) Handle() unsafe.Pointer { return unsafe.Pointer(c.c) }

// Close destroys the counter. It is ErrBusy while queue pairs feed it.
func (c *CompletionCounter) Close() error {
	return c.close("ibv_destroy_comp_cntr", func() error {
		if err := code("ibv_destroy_comp_cntr", c.dev.info.Name+" "+c.name(), int(C.vb_destroy_cntr(c.c)), ""); err != nil {
			return err
		}
		c.c = nil
		return nil
	})
}
