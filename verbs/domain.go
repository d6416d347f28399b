package verbs

/*
#include "shim.h"

static struct ibv_td *vb_alloc_td(struct ibv_context *c)
{
	struct ibv_td_init_attr a = {0};
	struct verbs_context *v = VB_OP(c, alloc_td);

	if (!v)
		return NULL;
	errno = 0;
	return v->alloc_td(c, &a);
}

static int vb_dealloc_td(struct ibv_td *td)
{
	struct verbs_context *v = VB_OP(td->context, dealloc_td);

	return v ? vb_rc(v->dealloc_td(td)) : EOPNOTSUPP;
}

static struct ibv_pd *vb_alloc_parent(struct ibv_pd *pd, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td};
	struct verbs_context *v = VB_OP(pd->context, alloc_parent_domain);

	if (!v)
		return NULL;
	errno = 0;
	return v->alloc_parent_domain(pd->context, &a);
}
*/
import "C"

import "unsafe"

// TD is a thread domain: the promise that one thread at a time uses what is
// made in it, so that the driver need not lock.
type TD struct {
	object
	dev *Device
	td  *C.struct_ibv_td
}

// AllocTD makes a thread domain.
func (d *Device) AllocTD() (*TD, error) {
	td := &TD{dev: d}
	if err := td.attach("ibv_alloc_td", "td", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_alloc_td(d.ctx)
	if p == nil {
		td.detach()
		return nil, failed("ibv_alloc_td", d.info.Name, errno, "")
	}
	td.td = p
	td.rename("%p", p)
	return td, nil
}

// Handle is the struct ibv_td, nil once the domain is closed.
func (td *TD) Handle() unsafe.Pointer { return unsafe.Pointer(td.td) }

// Close frees the domain. It is ErrBusy while parent domains stand on it.
func (td *TD) Close() error {
	return td.close("ibv_dealloc_td", func() error {
		if err := code("ibv_dealloc_td", td.dev.info.Name+" "+td.name(), int(C.vb_dealloc_td(td.td)), ""); err != nil {
			return err
		}
		td.td = nil
		return nil
	})
}

// AllocParentDomain makes a protection domain that shares this one's regions
// and adds a thread domain, nil for none: queues made in it are the thread's.
func (pd *PD) AllocParentDomain(td *TD) (*PD, error) {
	parent := &PD{dev: pd.dev}
	parents := []*object{&pd.object}
	var t *C.struct_ibv_td
	if td != nil {
		parents = append(parents, &td.object)
	}
	if err := parent.attach("ibv_alloc_parent_domain", "pd", parents...); err != nil {
		return nil, err
	}
	if td != nil {
		t = td.td
	}
	p, errno := C.vb_alloc_parent(pd.pd, t)
	if p == nil {
		parent.detach()
		return nil, failed("ibv_alloc_parent_domain", pd.describe(), errno, "")
	}
	parent.pd = p
	parent.rename("parent %p", p)
	return parent, nil
}
