package verbs

/*
#include "shim.h"

static struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, int type)
{
	errno = EOPNOTSUPP;
	return pd->context->ops.alloc_mw ? pd->context->ops.alloc_mw(pd, type) : NULL;
}

static int vb_dealloc_mw(struct ibv_mw *mw) { errno = 0; return vb_rc(mw->context->ops.dealloc_mw(mw)); }

static int vb_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t addr, uint64_t len,
		      unsigned access, uint64_t id, unsigned flags)
{
	struct ibv_mw_bind b = {
		.wr_id = id,
		.send_flags = flags,
		.bind_info = {.mr = mr, .addr = addr, .length = len, .mw_access_flags = access},
	};

	if (!mw->context->ops.bind_mw)
		return EOPNOTSUPP;
	errno = 0;
	return vb_rc(mw->context->ops.bind_mw(qp, mw, &b));
}

static uint32_t vb_mw_rkey(struct ibv_mw *mw) { return mw->rkey; }
static uint32_t vb_mw_handle(struct ibv_mw *mw) { return mw->handle; }
*/
import "C"

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// MWType is how a memory window is bound (enum ibv_mw_type).
type MWType int

const (
	MWType1 MWType = 1 // by QP.BindMW; the library chooses the rkey
	MWType2 MWType = 2 // by Batch.BindMW; the program chooses its last byte; can be invalidated
)

// MW is a memory window: an rkey for a range of a region, which binding moves
// faster than registration could.
type MW struct {
	object
	pd   *PD
	mw   *C.struct_ibv_mw
	kind MWType
	rkey atomic.Uint32
}

// AllocMW makes a memory window, bound to nothing.
func (pd *PD) AllocMW(t MWType) (*MW, error) {
	w := &MW{pd: pd, kind: t}
	if err := w.attach("ibv_alloc_mw", "mw", &pd.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_alloc_mw(pd.pd, C.int(t))
	if p == nil {
		w.detach()
		return nil, failed("ibv_alloc_mw", fmt.Sprintf("%s, type %d", pd.describe(), t), errno,
			"the device must have MEM_WINDOW or MEM_WINDOW_TYPE_2A/2B: see Caps of Device.Attr")
	}
	w.mw = p
	w.rkey.Store(uint32(C.vb_mw_rkey(p)))
	w.rename("%d", uint32(C.vb_mw_handle(p)))
	return w, nil
}

// Type is how the window is bound.
func (w *MW) Type() MWType { return w.kind }

// RKey names the window in the peer's requests, once it is bound.
func (w *MW) RKey() uint32 { return w.rkey.Load() }

// NextRKey changes the byte of an rkey that belongs to the program, so that
// requests with the old one are refused.
func NextRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// Remote describes what the window is bound to, to a peer.
func (w *MW) Remote(mr *MR, offset, length uint64) RemoteRegion {
	return RemoteRegion{Addr: mr.iova + offset, Length: length, RKey: w.RKey()}
}

// BindMW binds a type 1 window to a range of a region registered with MWBind,
// as a request of the send queue with its own completion. The window's RKey is
// the new one when it returns; peers may use it once the request has
// completed. A length of 0 binds to nothing.
func (q *QP) BindMW(w *MW, mr *MR, offset, length uint64, access Access, id uint64, flags SendFlags) error {
	object := fmt.Sprintf("%s to %s", w.describe(), q.name())
	wrong := func(err error, detail string) error {
		return &Error{Verb: "ibv_bind_mw", Object: object, Err: err, Detail: detail}
	}
	switch {
	case q.qp == nil || w.mw == nil:
		return wrong(ErrClosed, "")
	case w.kind != MWType1:
		return wrong(syscall.EINVAL, "a type 2 window is bound by Batch.BindMW")
	case length > 0 && !mr.holds(offset, length):
		return wrong(ErrRange, "")
	}
	var (
		p    *C.struct_ibv_mr
		addr uint64
	)
	if length > 0 {
		p, addr = mr.mr, mr.iova+offset
	}
	rc := C.vb_bind_mw(q.qp, w.mw, p, C.uint64_t(addr), C.uint64_t(length), C.uint(access), C.uint64_t(id), C.uint(flags))
	if rc != 0 {
		err := syscall.Errno(rc)
		detail := ""
		if errors.Is(err, syscall.EINVAL) && length > 0 && mr.access&MWBind == 0 {
			detail = "the region was registered without MW_BIND"
		}
		return failed("ibv_bind_mw", object, err, detail)
	}
	w.rkey.Store(uint32(C.vb_mw_rkey(w.mw)))
	return nil
}

// Handle is the struct ibv_mw, nil once the window is closed.
func (w *MW) Handle() unsafe.Pointer { return unsafe.Pointer(w.mw) }

func (w *MW) describe() string { return w.pd.dev.info.Name + " " + w.name() }

// Close frees the window and what it is bound to.
func (w *MW) Close() error {
	return w.close("ibv_dealloc_mw", func() error {
		if err := code("ibv_dealloc_mw", w.describe(), int(C.vb_dealloc_mw(w.mw)), ""); err != nil {
			return err
		}
		w.mw = nil
		return nil
	})
}
