package verbs

/*
#include "shim.h"

static struct ibv_pd *vb_alloc_pd(struct ibv_context *c) { errno = 0; return vb.ibv_alloc_pd(c); }
static int vb_dealloc_pd(struct ibv_pd *pd) { return vb_rc(vb.ibv_dealloc_pd(pd)); }
*/
import "C"

import "unsafe"

// PD is a protection domain: regions and queue pairs work together only inside
// one.
type PD struct {
	object
	dev *Device
	pd  *C.struct_ibv_pd

	imported bool
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	if err := pd.attach("ibv_alloc_pd", "pd", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_alloc_pd(d.ctx)
	if p == nil {
		pd.detach()
		return nil, failed("ibv_alloc_pd", d.info.Name, errno, "")
	}
	pd.pd = p
	pd.rename("%d", uint32(p.handle))
	return pd, nil
}

// Device is the device the domain belongs to.
func (pd *PD) Device() *Device { return pd.dev }

// Handle is the struct ibv_pd, nil once the domain is closed.
func (pd *PD) Handle() unsafe.Pointer { return unsafe.Pointer(pd.pd) }

// Close frees the domain. It is ErrBusy while objects stand on it.
func (pd *PD) Close() error {
	return pd.close("ibv_dealloc_pd", func() error {
		if pd.imported {
			unimportPD(pd.pd)
		} else if err := code("ibv_dealloc_pd", pd.describe(), int(C.vb_dealloc_pd(pd.pd)), ""); err != nil {
			return err
		}
		pd.pd = nil
		return nil
	})
}

// describe names the domain and its device in errors.
func (pd *PD) describe() string { return pd.dev.info.Name + " " + pd.name() }
