package verbs

/*
#include "shim.h"

static struct ibv_counters *vb_create_counters(struct ibv_context *c)
{
	struct ibv_counters_init_attr a = {0};
	struct verbs_context *v = VB_OP(c, create_counters);

	if (!v)
		return NULL;
	errno = 0;
	return v->create_counters(c, &a);
}

static int vb_destroy_counters(struct ibv_counters *c)
{
	struct verbs_context *v = VB_OP(c->context, destroy_counters);

	return v ? vb_rc(v->destroy_counters(c)) : EOPNOTSUPP;
}

static int vb_attach_counters(struct ibv_counters *c, int what, uint32_t index, struct ibv_flow *flow)
{
	struct ibv_counter_attach_attr a = {.counter_desc = what, .index = index};
	struct verbs_context *v = VB_OP(c->context, attach_counters_point_flow);

	return v ? vb_rc(v->attach_counters_point_flow(c, &a, flow)) : EOPNOTSUPP;
}

static int vb_read_counters(struct ibv_counters *c, uint64_t *out, uint32_t n, uint32_t flags)
{
	struct verbs_context *v = VB_OP(c->context, read_counters);

	return v ? vb_rc(v->read_counters(c, out, n, flags)) : EOPNOTSUPP;
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// CounterKind is what a counter counts (enum ibv_counter_description).
type CounterKind int

const (
	CountPackets CounterKind = iota
	CountBytes
)

// Counters is a set of counters that flow rules feed.
type Counters struct {
	object
	dev *Device
	c   *C.struct_ibv_counters
}

// CreateCounters makes an empty set.
func (d *Device) CreateCounters() (*Counters, error) {
	c := &Counters{dev: d}
	if err := c.attach("ibv_create_counters", "counters", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_create_counters(d.ctx)
	if p == nil {
		c.detach()
		return nil, failed("ibv_create_counters", d.info.Name, errno, "")
	}
	c.c = p
	c.rename("%p", p)
	return c, nil
}

// Attach has the counter at index count something of a flow. A nil flow
// prepares the set for a rule that is made with it (FlowCount).
func (c *Counters) Attach(kind CounterKind, index int, f *Flow) error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.c == nil {
		return &Error{Verb: "ibv_attach_counters_point_flow", Object: c.describe(), Err: ErrClosed}
	}
	var p *C.struct_ibv_flow
	if f != nil {
		p = f.flow
	}
	rc := C.vb_attach_counters(c.c, C.int(kind), C.uint32_t(index), p)
	return code("ibv_attach_counters_point_flow", fmt.Sprintf("%s index %d", c.describe(), index), int(rc), "")
}

// Read fills out with the counters from index 0 on. Cached values cost no
// question to the device.
func (c *Counters) Read(out []uint64, cached bool) error {
	if c.c == nil {
		return &Error{Verb: "ibv_read_counters", Object: c.describe(), Err: ErrClosed}
	}
	if len(out) == 0 {
		return nil
	}
	var flags C.uint32_t
	if cached {
		flags = C.IBV_READ_COUNTERS_ATTR_PREFER_CACHED
	}
	rc := C.vb_read_counters(c.c, (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(out))), C.uint32_t(len(out)), flags)
	return code("ibv_read_counters", c.describe(), int(rc), "")
}

// Handle is the struct ibv_counters, nil once the set is closed.
func (c *Counters) Handle() unsafe.Pointer { return unsafe.Pointer(c.c) }

func (c *Counters) describe() string { return c.dev.info.Name + " " + c.name() }

// Close destroys the set. It is ErrBusy while flows feed it.
func (c *Counters) Close() error {
	return c.close("ibv_destroy_counters", func() error {
		if err := code("ibv_destroy_counters", c.describe(), int(C.vb_destroy_counters(c.c)), ""); err != nil {
			return err
		}
		c.c = nil
		return nil
	})
}
