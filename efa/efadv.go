package efa

/*
#include "efadv.h"

static int ef_query_device(void *ctx, struct ef_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	errno = 0;
	return EF_INT(efadv_query_device, ctx, a, sizeof(*a));
}

static int ef_query_ah(void *ah, uint16_t *number)
{
	struct ef_ah_attr a = {0};
	int rc;

	errno = 0;
	rc = EF_INT(efadv_query_ah, ah, &a, sizeof(a));
	*number = a.ahn;
	return rc;
}

static int ef_query_mr(void *mr, struct ef_mr_attr *a)
{
	memset(a, 0, sizeof(*a));
	errno = 0;
	return EF_INT(efadv_query_mr, mr, a, sizeof(*a));
}

static int ef_query_cq(void *cq, struct ef_cq_attr *a)
{
	memset(a, 0, sizeof(*a));
	errno = 0;
	return EF_INT(efadv_query_cq, cq, a, sizeof(*a));
}

static int ef_query_wqs(void *qp, struct ef_wq_attr *sq, struct ef_wq_attr *rq)
{
	memset(sq, 0, sizeof(*sq));
	memset(rq, 0, sizeof(*rq));
	errno = 0;
	return EF_INT(efadv_query_qp_wqs, qp, sq, rq, sizeof(*sq));
}

// The depth, or a negative errno.
static int ef_max_sq(void *ctx, uint32_t flags, uint32_t inline_data)
{
	struct ef_sq_depth_attr a = {.flags = flags, .max_send_sge = 1, .max_rdma_sge = 1, .max_inline_data = inline_data};

	return ef.efadv_get_max_sq_depth ? ef.efadv_get_max_sq_depth(ctx, &a, sizeof(a)) : -EOPNOTSUPP;
}

static int ef_max_rq(void *ctx, uint32_t sge)
{
	struct ef_rq_depth_attr a = {.max_recv_sge = sge};

	return ef.efadv_get_max_rq_depth ? ef.efadv_get_max_rq_depth(ctx, &a, sizeof(a)) : -EOPNOTSUPP;
}

static void *ef_create_cq(void *ctx, void *attr, struct ef_cq_init_attr *e)
{
	errno = EOPNOTSUPP;
	if (!ef.efadv_create_cq)
		return NULL;
	errno = 0;
	return ef.efadv_create_cq(ctx, attr, e, sizeof(*e));
}

static void *ef_create_qp(void *ctx, void *attr, struct ef_qp_init_attr *e)
{
	errno = 0;
	return ef.efadv_create_qp_ex(ctx, attr, e, sizeof(*e));
}

// The call before efadv_create_qp_ex, without RDMA write; a queue pair's classic
// attributes are the extended ones' beginning.
static void *ef_create_driver_qp(void *attr)
{
	struct ibv_qp_init_attr_ex *a = attr;

	errno = EOPNOTSUPP;
	if (!ef.efadv_create_driver_qp)
		return NULL;
	errno = 0;
	return ef.efadv_create_driver_qp(a->pd, attr, 0);
}

static void *ef_create_cntr(void *ctx, void *attr, struct ef_comp_cntr_init_attr *e)
{
	errno = EOPNOTSUPP;
	if (!ef.efadv_create_comp_cntr)
		return NULL;
	errno = 0;
	return ef.efadv_create_comp_cntr(ctx, attr, e, sizeof(*e));
}

// Whether requests of a queue pair can carry processing hints.
static int ef_has_hints(void *qp_ex)
{
	struct ef_qp *e = qp_ex && ef.efadv_qp_from_ibv_qp_ex ? ef.efadv_qp_from_ibv_qp_ex(qp_ex) : NULL;

	return e && e->wr_set_processing_hints;
}

static int ef_has_rings(void) { return ef.efadv_query_qp_wqs && ef.efadv_query_cq; }
static int ef_has_create_qp(void) { return !!ef.efadv_create_qp_ex; }
static int ef_has_hints_call(void) { return !!ef.efadv_qp_from_ibv_qp_ex; }
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/dl"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// libefa is loaded once, after libibverbs, which loads the same file as its
// provider. It is never unloaded.
var libefa = sync.OnceValues(func() (*dl.Library, error) {
	lib, err := dl.Open("libefa.so.1", "libefa.so")
	if err != nil {
		return nil, &Error{Op: "dlopen", Object: "libefa.so.1", Err: ErrNoDevice,
			Detail: fmt.Sprintf("%v; install rdma-core's ibverbs-providers", err)}
	}
	C.ef_load(lib.Handle())
	return lib, nil
})

// rcError is the error of a call that gives an errno.
func rcError(call, object string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return callError(call, object, syscall.Errno(rc))
}

// callError says who lacks a call: the library, whose symbol is missing, or the
// kernel, whose uverbs answers EPROTONOSUPPORT for a method it does not know.
func callError(call, object string, err error) error {
	lib, liberr := libefa()
	switch {
	case !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.EPROTONOSUPPORT):
		return failed(call, object, err, "")
	case liberr == nil && lib.Symbol(call) == nil:
		return failed(call, object, ErrUnsupported, fmt.Sprintf("%s has no such call: install a newer rdma-core", lib.Path()))
	}
	return failed(call, object, ErrUnsupported, fmt.Sprintf("the kernel or the device lacks it (%s)", errname.Text(err)))
}

// dvAttr is efadv_query_device's answer.
type dvAttr struct {
	maxSend, maxRecv       int
	maxSendSGE, maxRecvSGE int
	inline, inlineEx       int
	caps                   Caps
	maxRDMA                uint32
}

func dvQueryDevice(ctx unsafe.Pointer, object string) (dvAttr, error) {
	var a C.struct_ef_device_attr
	err := rcError("efadv_query_device", object, C.ef_query_device(ctx, &a))
	return dvAttr{
		maxSend: int(a.max_sq_wr), maxRecv: int(a.max_rq_wr),
		maxSendSGE: int(a.max_sq_sge), maxRecvSGE: int(a.max_rq_sge),
		inline: int(a.inline_buf_size), inlineEx: int(a.inline_buf_size_ex),
		caps: Caps(a.device_caps), maxRDMA: uint32(a.max_rdma_size),
	}, err
}

// dvMaxDepths asks for the depths; negative where the library cannot tell.
func dvMaxSend(ctx unsafe.Pointer, inline int, inlineWrite bool) int {
	var flags C.uint32_t
	if inlineWrite {
		flags = 1
	}
	return int(C.ef_max_sq(ctx, flags, C.uint32_t(inline)))
}

func dvMaxRecv(ctx unsafe.Pointer, buffers int) int {
	return int(C.ef_max_rq(ctx, C.uint32_t(buffers)))
}

func dvQueryAH(ah unsafe.Pointer, object string) (uint16, error) {
	var n C.uint16_t
	err := rcError("efadv_query_ah", object, C.ef_query_ah(ah, &n))
	return uint16(n), err
}

func dvQueryMR(mr unsafe.Pointer, object string) (Interconnects, error) {
	var a C.struct_ef_mr_attr
	err := rcError("efadv_query_mr", object, C.ef_query_mr(mr, &a))
	return Interconnects{
		Valid: InterconnectUse(a.ic_id_validity), Recv: uint16(a.recv_ic_id),
		RDMARead: uint16(a.rdma_read_ic_id), RDMARecv: uint16(a.rdma_recv_ic_id),
	}, err
}

func dvQueryCQ(cq unsafe.Pointer, object string) (cqMemory, error) {
	var a C.struct_ef_cq_attr
	err := rcError("efadv_query_cq", object, C.ef_query_cq(cq, &a))
	return cqMemory{
		ring: unsafe.Pointer(a.buffer), entry: int(a.entry_size), count: int(a.num_entries),
		bell: bell{register: unsafe.Pointer(a.doorbell)}, armed: a.doorbell != nil,
	}, err
}

func dvQueryQP(qp unsafe.Pointer, object string) (send, recv wqMemory, err error) {
	var s, r C.struct_ef_wq_attr
	err = rcError("efadv_query_qp_wqs", object, C.ef_query_wqs(qp, &s, &r))
	return wqFrom(&s), wqFrom(&r), err
}

func wqFrom(a *C.struct_ef_wq_attr) wqMemory {
	return wqMemory{
		ring: unsafe.Pointer(a.buffer), entry: int(a.entry_size), count: int(a.num_entries),
		maxBatch: int(a.max_batch), wideIDs: a.caps&1 != 0, bell: bell{register: unsafe.Pointer(a.doorbell)},
	}
}

// dvCreateCQ is a hook of verbs.CQOptions.
func dvCreateCQ(o CQOptions) func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error) {
	return func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error) {
		var e C.struct_ef_cq_init_attr
		if o.SGID {
			e.wc_flags |= 1
		}
		if o.Unsolicited {
			e.wc_flags |= 2
		}
		if m := o.Memory; m != nil {
			e.flags |= 1
			e.ext_mem_dmabuf.buffer = (*C.uint8_t)(unsafe.SliceData(m.Mapped))
			e.ext_mem_dmabuf.length = C.uint64_t(len(m.Mapped))
			e.ext_mem_dmabuf.offset = C.uint64_t(m.Offset)
			e.ext_mem_dmabuf.fd = C.int32_t(m.FD)
		}
		p, err := C.ef_create_cq(ctx, attr, &e)
		return p, err
	}
}

// dvCreateQP is a hook of verbs.QPOptions.
func dvCreateQP(o qpOptions) func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error) {
	return func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error) {
		if C.ef_has_create_qp() == 0 {
			if o.Unsolicited || o.InlineWrite || o.ServiceLevel != 0 || o.Hints {
				return nil, syscall.EOPNOTSUPP
			}
			p, err := C.ef_create_driver_qp(attr)
			return p, err
		}
		if o.Hints && C.ef_has_hints_call() == 0 {
			return nil, syscall.EOPNOTSUPP // an older call takes the flag for a wrong one
		}
		var e C.struct_ef_qp_init_attr
		if o.Unsolicited {
			e.flags |= 1
		}
		if o.InlineWrite {
			e.flags |= 2
		}
		if o.Hints {
			e.wr_flags |= 1
		}
		e.sl = C.uint8_t(o.ServiceLevel)
		p, err := C.ef_create_qp(ctx, attr, &e)
		return p, err
	}
}

// dvCreateCounter is a hook of verbs.Device.CreateCompletionCounterBy.
func dvCreateCounter(o CounterOptions) func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error) {
	return func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error) {
		var e C.struct_ef_comp_cntr_init_attr
		for i, m := range []*CounterMemory{o.Done, o.Failed} {
			if m == nil {
				continue
			}
			e.flags |= 1 << i
			at := &e.comp_cntr_ext_mem
			if i == 1 {
				at = &e.err_cntr_ext_mem
			}
			at.ptr = (*C.uint8_t)(unsafe.SliceData(m.Mapped))
			if m.FD != 0 {
				at._type = 1
				at.dmabuf.fd, at.dmabuf.offset = C.int32_t(m.FD), C.uint64_t(m.Offset)
			}
		}
		p, err := C.ef_create_cntr(ctx, attr, &e)
		return p, err
	}
}

// dvReader reads what a queue of these options tells besides the ordinary.
func dvReader(o CQOptions) unsafe.Pointer {
	return C.ef_reader(flag(o.SGID), flag(o.Unsolicited))
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func dvHasRings() bool                    { return C.ef_has_rings() != 0 }
func dvHasCreateQP() bool                 { return C.ef_has_create_qp() != 0 }
func dvHasHints(qpEx unsafe.Pointer) bool { return C.ef_has_hints(qpEx) != 0 }
