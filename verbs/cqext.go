package verbs

/*
#include "shim.h"

#cgo noescape vb_poll_ext
#cgo nocallback vb_poll_ext
#cgo noescape vb_poll_wide
#cgo nocallback vb_poll_wide

// ExtCompletion of Go; the offsets are pinned below.
struct vb_ext_wc {
	struct ibv_wc wc;
	uint64_t timestamp;
	uint64_t wallclock_ns;
	uint64_t tag;
	uint32_t tag_priv;
	uint32_t flow_tag;
	uint16_t cvlan;
	uint16_t driver_flags;
	uint32_t driver_word;
	uint8_t sgid[16];
};

_Static_assert(offsetof(struct vb_ext_wc, timestamp) == 48, "timestamp");
_Static_assert(offsetof(struct vb_ext_wc, cvlan) == 80, "cvlan");
_Static_assert(offsetof(struct vb_ext_wc, sgid) == 88, "sgid");
_Static_assert(sizeof(struct vb_ext_wc) == 104, "vb_ext_wc");

typedef void (*vb_read_fn)(struct ibv_cq_ex *, void *);

static struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *c, void *a)
{
	struct verbs_context *v = VB_OP(c, create_cq_ex);

	if (!v)
		return NULL;
	errno = 0;
	return v->create_cq_ex(c, a);
}

static void vb_set_cookie(struct ibv_cq_ex *cq, uintptr_t cookie) { cq->cq_context = (void *)cookie; }

static void vb_read_wc(struct ibv_cq_ex *cq, uint64_t with, struct ibv_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	if (with & IBV_WC_EX_WITH_QP_NUM)
		wc->qp_num = cq->read_qp_num(cq);
	if (cq->status != IBV_WC_SUCCESS) {
		// The rest means nothing, and some providers cannot even be asked.
		wc->vendor_err = cq->read_vendor_err(cq);
		return;
	}
	wc->opcode = cq->read_opcode(cq);
	wc->wc_flags = cq->read_wc_flags(cq);
	if (with & IBV_WC_EX_WITH_BYTE_LEN)
		wc->byte_len = cq->read_byte_len(cq);
	if ((with & IBV_WC_EX_WITH_IMM) && (wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)))
		wc->imm_data = cq->read_imm_data(cq);
	if (with & IBV_WC_EX_WITH_SRC_QP)
		wc->src_qp = cq->read_src_qp(cq);
	if (with & IBV_WC_EX_WITH_SLID)
		wc->slid = cq->read_slid(cq);
	if (with & IBV_WC_EX_WITH_SL)
		wc->sl = cq->read_sl(cq);
	if (with & IBV_WC_EX_WITH_DLID_PATH_BITS)
		wc->dlid_path_bits = cq->read_dlid_path_bits(cq);
}

static void vb_read_ext(struct ibv_cq_ex *cq, uint64_t with, vb_read_fn more, struct vb_ext_wc *x)
{
	memset(&x->timestamp, 0, sizeof(*x) - offsetof(struct vb_ext_wc, timestamp));
	if (cq->status != IBV_WC_SUCCESS)
		return;
	if (with & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		x->timestamp = cq->read_completion_ts(cq);
	if (with & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		x->wallclock_ns = cq->read_completion_wallclock_ns(cq);
	if (with & IBV_WC_EX_WITH_CVLAN)
		x->cvlan = cq->read_cvlan(cq);
	if (with & IBV_WC_EX_WITH_FLOW_TAG)
		x->flow_tag = cq->read_flow_tag(cq);
	if (with & IBV_WC_EX_WITH_TM_INFO) {
		struct ibv_wc_tm_info tm = {0};

		cq->read_tm_info(cq, &tm);
		x->tag = tm.tag;
		x->tag_priv = tm.priv;
	}
	if (more)
		more(cq, x);
}

// Fills up to max records, stride bytes apart: struct ibv_wc alone, or the
// whole of struct vb_ext_wc where the stride has room for it. With singly each
// completion is a round of its own.
static int vb_poll_ext(struct ibv_cq_ex *cq, int max, void *out, size_t stride, uint64_t with, void *more, int singly)
{
	int n = 0;

	while (n < max) {
		struct ibv_poll_cq_attr attr = {0};
		int rc = cq->start_poll(cq, &attr);

		if (rc && n)
			return n; // an error surfaces again in the next round
		if (rc)
			return rc == ENOENT ? 0 : rc < 0 ? rc : -rc;
		do {
			void *at = (char *)out + n * stride;

			vb_read_wc(cq, with, at);
			if (stride >= sizeof(struct vb_ext_wc))
				vb_read_ext(cq, with, (vb_read_fn)more, at);
			n++;
			rc = singly || n == max ? ENOENT : cq->next_poll(cq);
		} while (!rc);
		cq->end_poll(cq);
		if (!singly)
			break;
	}
	return n;
}

// The same for a queue that is not extended.
static int vb_poll_wide(struct ibv_cq *cq, int max, void *out)
{
	struct vb_ext_wc *x = out;
	int n, rc;

	for (n = 0; n < max; n++, x++) {
		rc = cq->context->ops.poll_cq(cq, 1, &x->wc);
		if (rc < 0)
			return n ? n : rc;
		if (rc == 0)
			break;
		memset(&x->timestamp, 0, sizeof(*x) - offsetof(struct vb_ext_wc, timestamp));
	}
	return n;
}
*/
import "C"

import (
	"unsafe"
)

// WCFlags say what the completions of an extended queue carry
// (enum ibv_create_cq_wc_flags).
type WCFlags uint64

const (
	WCByteLen      WCFlags = 1 << 0
	WCImm          WCFlags = 1 << 1
	WCQPNum        WCFlags = 1 << 2
	WCSrcQP        WCFlags = 1 << 3
	WCSLID         WCFlags = 1 << 4
	WCSL           WCFlags = 1 << 5
	WCDLIDPathBits WCFlags = 1 << 6
	WCTimestamp    WCFlags = 1 << 7
	WCCVLAN        WCFlags = 1 << 8
	WCFlowTag      WCFlags = 1 << 9
	WCTagMatching  WCFlags = 1 << 10
	WCWallclock    WCFlags = 1 << 11

	// WCStandard is what the completions of every queue carry.
	WCStandard = WCByteLen | WCImm | WCQPNum | WCSrcQP | WCSLID | WCSL | WCDLIDPathBits
)

func (f WCFlags) String() string {
	return bitNames(uint64(f), []bitName{
		{1 << 0, "BYTE_LEN"}, {1 << 1, "IMM"}, {1 << 2, "QP_NUM"}, {1 << 3, "SRC_QP"}, {1 << 4, "SLID"},
		{1 << 5, "SL"}, {1 << 6, "DLID_PATH_BITS"}, {1 << 7, "COMPLETION_TIMESTAMP"}, {1 << 8, "CVLAN"},
		{1 << 9, "FLOW_TAG"}, {1 << 10, "TM_INFO"}, {1 << 11, "COMPLETION_TIMESTAMP_WALLCLOCK"},
	})
}

// ExtCompletion is a completion with what an extended queue adds. A field that
// the queue was not asked for is zero. 104 bytes in memory, in the order below
// with the completion's 48 first: a driver's reader (CQOptions.Read) fills in
// DriverFlags at 82, DriverWord at 84 and SGID at 88.
type ExtCompletion struct {
	Completion
	Timestamp   uint64 // ticks of DeviceAttr.CoreClockKHz
	WallclockNS uint64 // nanoseconds, where the driver converts
	Tag         uint64 // tag matching
	TagPriv     uint32 // the sender's word beside the tag
	FlowTag     uint32 // of the flow rule that steered the packet here
	CVLAN       uint16 // VLAN tag that was stripped
	DriverFlags uint16
	DriverWord  uint32
	SGID        GID // the sender's, for datagrams of drivers that tell
}

var (
	_ [104]byte = [unsafe.Sizeof(ExtCompletion{})]byte{}
	_ [48]byte  = [unsafe.Offsetof(ExtCompletion{}.Timestamp)]byte{}
	_ [80]byte  = [unsafe.Offsetof(ExtCompletion{}.CVLAN)]byte{}
	_ [88]byte  = [unsafe.Offsetof(ExtCompletion{}.SGID)]byte{}
)

// extended is the part of a queue that only an extended one has.
type extended struct {
	cq   *C.struct_ibv_cq_ex
	with WCFlags
	read unsafe.Pointer
	// singly: the provider of rxe counts a completion twice when a round ends
	// because the queue is empty, in rdma-core 44 and some later versions; it
	// is right when each round takes one completion (cq_next_poll and
	// cq_end_poll of providers/rxe/rxe.c both advance the index).
	singly C.int
}

func (q *CQ) createExtended(cookie uintptr, o CQOptions) (*C.struct_ibv_cq, error) {
	if o.WC == 0 {
		o.WC = WCStandard
	}
	var a C.struct_ibv_cq_init_attr_ex
	a.cqe = C.uint32_t(o.Depth)
	a.comp_vector = C.uint32_t(o.Vector)
	a.wc_flags = C.uint64_t(o.WC)
	if o.Channel != nil {
		a.channel = o.Channel.ch
	}
	if o.SingleThreaded {
		a.flags |= C.IBV_CREATE_CQ_ATTR_SINGLE_THREADED
	}
	if o.IgnoreOverrun {
		a.flags |= C.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN
	}
	if a.flags != 0 {
		a.comp_mask |= C.IBV_CQ_INIT_ATTR_MASK_FLAGS
	}
	if o.ParentDomain != nil {
		a.parent_domain = o.ParentDomain.pd
		a.comp_mask |= C.IBV_CQ_INIT_ATTR_MASK_PD
	}
	var (
		p   *C.struct_ibv_cq_ex
		err error
	)
	if o.Create != nil {
		var made unsafe.Pointer
		made, err = o.Create(unsafe.Pointer(q.dev.ctx), unsafe.Pointer(&a))
		p = (*C.struct_ibv_cq_ex)(made)
	} else {
		p, err = C.vb_create_cq_ex(q.dev.ctx, unsafe.Pointer(&a))
	}
	if p == nil {
		return nil, err
	}
	// Set afterwards, so that a number needs no disguise as a pointer of the
	// attributes: no event can have come yet, since nothing is armed.
	C.vb_set_cookie(p, C.uintptr_t(cookie))
	q.ext = &extended{cq: p, with: o.WC, read: o.Read}
	if o.Create == nil && q.dev.isRXE() {
		q.ext.singly = 1
	}
	return (*C.struct_ibv_cq)(unsafe.Pointer(p)), nil
}

func (x *extended) poll(out []Completion) int {
	return int(C.vb_poll_ext(x.cq, C.int(len(out)), unsafe.Pointer(&out[0]), C.size_t(unsafe.Sizeof(out[0])), C.uint64_t(x.with), x.read, x.singly))
}

func (x *extended) pollExt(out []ExtCompletion) int {
	return int(C.vb_poll_ext(x.cq, C.int(len(out)), unsafe.Pointer(&out[0]), C.size_t(unsafe.Sizeof(out[0])), C.uint64_t(x.with), x.read, x.singly))
}

// PollExt takes up to len(out) completions with what the queue adds to them,
// in one crossing. On a queue that is not extended the additions are zero. It
// does not allocate and does not wait.
func (q *CQ) PollExt(out []ExtCompletion) (int, error) {
	if len(out) == 0 {
		return 0, nil
	}
	if q.cq == nil {
		return 0, &Error{Verb: "ibv_start_poll", Object: q.describe(), Err: ErrClosed}
	}
	var n int
	if q.ext != nil {
		n = q.ext.pollExt(out)
	} else {
		n = int(C.vb_poll_wide(q.cq, C.int(len(out)), unsafe.Pointer(&out[0])))
	}
	if n < 0 {
		return 0, q.pollFailed(n)
	}
	return n, nil
}

// Extended tells whether the queue was made by ibv_create_cq_ex.
func (q *CQ) Extended() bool { return q.ext != nil }
