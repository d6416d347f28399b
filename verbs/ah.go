package verbs

/*
#include "shim.h"

static struct ibv_ah *vb_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a) { errno = 0; return vb.ibv_create_ah(pd, a); }
static int vb_destroy_ah(struct ibv_ah *ah) { return vb_rc(vb.ibv_destroy_ah(ah)); }
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// AH is an address handle: the way to a peer, for datagrams.
type AH struct {
	object
	pd *PD
	ah *C.struct_ibv_ah
}

// CreateAH makes an address handle for a route.
func (pd *PD) CreateAH(r Route) (*AH, error) {
	ah := &AH{pd: pd}
	if err := ah.attach("ibv_create_ah", "ah", &pd.object); err != nil {
		return nil, err
	}
	a := r.c()
	p, errno := C.vb_create_ah(pd.pd, &a)
	if p == nil {
		ah.detach()
		return nil, failed("ibv_create_ah", fmt.Sprintf("%s to %v", pd.describe(), r.DGID), errno, "the port, the GID index or the route to the peer is wrong")
	}
	ah.ah = p
	ah.rename("%d", uint32(p.handle))
	return ah, nil
}

// Handle is the struct ibv_ah, nil once the handle is closed.
func (a *AH) Handle() unsafe.Pointer { return unsafe.Pointer(a.ah) }

// Close destroys the handle. Requests that use it must have completed.
func (a *AH) Close() error {
	return a.close("ibv_destroy_ah", func() error {
		if err := code("ibv_destroy_ah", a.pd.dev.info.Name+" "+a.name(), int(C.vb_destroy_ah(a.ah)), ""); err != nil {
			return err
		}
		a.ah = nil
		return nil
	})
}
