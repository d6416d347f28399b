package verbs

/*
#include "shim.h"

static struct ibv_qp *vb_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	errno = 0;
	return vb.ibv_create_qp(pd, a);
}

static struct ibv_qp *vb_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	struct verbs_context *v = VB_OP(c, create_qp_ex);

	if (!v)
		return NULL;
	errno = 0;
	return v->create_qp_ex(c, a);
}

static struct ibv_qp_ex *vb_qp_ex(struct ibv_qp *qp) { return vb.ibv_qp_to_qp_ex(qp); }
static int vb_destroy_qp(struct ibv_qp *qp) { return vb_rc(vb.ibv_destroy_qp(qp)); }

static int vb_data_in_order(struct ibv_qp *qp, int op)
{
	return vb.ibv_query_qp_data_in_order ? vb.ibv_query_qp_data_in_order(qp, op, 0) : -1;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// QP is a queue pair. One goroutine posts to its send queue at a time, and one
// to its receive queue; neither locks.
type QP struct {
	object
	dev       *Device
	pd        *PD
	qp        *C.struct_ibv_qp
	ex        *C.struct_ibv_qp_ex // nil: posts go through ibv_post_send
	opts      QPOptions
	psn       uint32
	qpn       uint32
	maxSend   int
	maxRecv   int
	maxInline int
	// gatherWrong: the provider's ibv_wr_set_sge_list loses bytes (batch.go).
	gatherWrong bool
}

// CreateQP makes a queue pair of any type, in the RESET state. The typed
// constructors (CreateRC, CreateUC, CreateUD, …) are built on it.
func (pd *PD) CreateQP(o QPOptions) (*QP, error) {
	q := &QP{dev: pd.dev, pd: pd, psn: randomPSN()}
	if err := q.create(&pd.object, o); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *QP) create(domain *object, o QPOptions) error {
	o.defaults()
	verb := "ibv_create_qp"
	parents := []*object{domain}
	add := func(p *object) {
		for _, have := range parents {
			if have == p {
				return
			}
		}
		parents = append(parents, p)
	}
	var a C.struct_ibv_qp_init_attr_ex
	if o.Type != TypeXRCRecv {
		if o.CQ == nil {
			return &Error{Verb: verb, Object: q.dev.info.Name, Err: syscall.EINVAL, Detail: "a queue pair needs a completion queue"}
		}
		add(&o.CQ.object)
		a.send_cq = o.CQ.cq
	}
	if o.Type != TypeXRCRecv && o.Type != TypeXRCSend {
		add(&o.RecvCQ.object)
		if o.IndTable != nil {
			add(&o.IndTable.object)
		} else {
			a.recv_cq = o.RecvCQ.cq
		}
		if o.SRQ != nil {
			add(&o.SRQ.object)
			a.srq = o.SRQ.srq
		}
	}
	if err := q.attach(verb, "qp "+o.Type.String(), parents...); err != nil {
		return err
	}
	a.cap.max_send_wr = C.uint32_t(o.MaxSend)
	a.cap.max_recv_wr = C.uint32_t(o.MaxRecv)
	a.cap.max_send_sge = C.uint32_t(o.MaxSendSGE)
	a.cap.max_recv_sge = C.uint32_t(o.MaxRecvSGE)
	a.cap.max_inline_data = C.uint32_t(o.MaxInline)
	a.qp_type = uint32(o.Type)
	if o.SignalAll {
		a.sq_sig_all = 1
	}
	p, errno := q.createC(&a, o)
	if p == nil {
		q.detach()
		return q.createError(o, errno)
	}
	q.qp, q.opts, q.qpn = p, o, uint32(p.qp_num)
	if o.Extended != 0 {
		q.ex = C.vb_qp_ex(p)
		q.gatherWrong = o.MaxSendSGE > 1 && q.dev.gathersWrong()
	}
	q.maxSend = int(a.cap.max_send_wr)
	q.maxRecv = int(a.cap.max_recv_wr)
	q.maxInline = int(a.cap.max_inline_data)
	q.rename("%v %d", o.Type, q.qpn)
	return nil
}

func (q *QP) createC(a *C.struct_ibv_qp_init_attr_ex, o QPOptions) (*C.struct_ibv_qp, error) {
	if !o.extended() {
		// The classic call: its structure is the extended one's beginning.
		p, errno := C.vb_create_qp(q.pd.pd, (*C.struct_ibv_qp_init_attr)(unsafe.Pointer(a)))
		return p, errno
	}
	if q.pd != nil {
		a.pd = q.pd.pd
		a.comp_mask |= C.IBV_QP_INIT_ATTR_PD
	}
	if o.XRCD != nil {
		a.xrcd = o.XRCD.xrcd
		a.comp_mask |= C.IBV_QP_INIT_ATTR_XRCD
	}
	if o.Extended != 0 {
		a.send_ops_flags = C.uint64_t(o.Extended)
		a.comp_mask |= C.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
	}
	if o.Flags != 0 {
		a.create_flags = C.uint32_t(o.Flags)
		a.source_qpn = C.uint32_t(o.SourceQPN)
		a.comp_mask |= C.IBV_QP_INIT_ATTR_CREATE_FLAGS
	}
	if o.MaxTSO != 0 {
		a.max_tso_header = C.uint16_t(o.MaxTSO)
		a.comp_mask |= C.IBV_QP_INIT_ATTR_MAX_TSO_HEADER
	}
	if o.IndTable != nil {
		a.rwq_ind_tbl = o.IndTable.table
		a.comp_mask |= C.IBV_QP_INIT_ATTR_IND_TABLE
		defer o.RXHash.fill(a)()
	}
	if o.Create != nil {
		p, err := o.Create(unsafe.Pointer(q.dev.ctx), unsafe.Pointer(a))
		return (*C.struct_ibv_qp)(p), err
	}
	p, errno := C.vb_create_qp_ex(q.dev.ctx, a)
	return p, errno
}

func (q *QP) createError(o QPOptions, err error) error {
	object := fmt.Sprintf("%s, %v, max_send %d, max_recv %d, sge %d/%d, inline %d", q.dev.info.Name,
		o.Type, o.MaxSend, o.MaxRecv, o.MaxSendSGE, o.MaxRecvSGE, o.MaxInline)
	detail := ""
	switch {
	case errors.Is(err, syscall.EINVAL):
		detail = q.overLimit(o)
	case errors.Is(err, ErrUnsupported):
		detail = fmt.Sprintf("the driver has no %v queue pair", o.Type)
		if o.Extended != 0 {
			detail += fmt.Sprintf(" with the operations %v", o.Extended)
		}
	case errors.Is(err, syscall.ENOMEM):
		detail = "the device's limit on queue pairs, or the memlock limit, is reached"
	case errors.Is(err, ErrPermission):
		detail = "raw packets need CAP_NET_RAW"
	}
	return failed("ibv_create_qp", object, err, detail)
}

// overLimit names the size that the device does not have.
func (q *QP) overLimit(o QPOptions) string {
	a, err := q.dev.Attr()
	if err != nil {
		return ""
	}
	for _, l := range []struct {
		name      string
		want, max int
	}{
		{"MaxSend", o.MaxSend, a.MaxQPWR}, {"MaxRecv", o.MaxRecv, a.MaxQPWR},
		{"MaxSendSGE", o.MaxSendSGE, a.MaxSGE}, {"MaxRecvSGE", o.MaxRecvSGE, a.MaxSGE},
	} {
		if l.want > l.max {
			return fmt.Sprintf("%s is %d, the device's limit is %d", l.name, l.want, l.max)
		}
	}
	if o.MaxInline > 0 {
		return "MaxInline may be over what the device has, or it lacks the type"
	}
	return "the device lacks the type, or an option of it"
}

// QPN is the queue pair's number, 24 bits.
func (q *QP) QPN() uint32 { return q.qpn }

// Type is the queue pair's service.
func (q *QP) Type() QPType { return q.opts.Type }

// MaxSend is the number of requests that the send queue holds; the device may
// have rounded up what was asked for.
func (q *QP) MaxSend() int { return q.maxSend }

// MaxRecv is the number of receives that the receive queue holds.
func (q *QP) MaxRecv() int { return q.maxRecv }

// MaxInline is the number of bytes that a request may carry inline.
func (q *QP) MaxInline() int { return q.maxInline }

// Device is the device of the queue pair.
func (q *QP) Device() *Device { return q.dev }

// Handle is the struct ibv_qp, nil once the queue pair is closed.
func (q *QP) Handle() unsafe.Pointer { return unsafe.Pointer(q.qp) }

// HandleEx is the struct ibv_qp_ex of a queue pair made with Extended, else nil.
func (q *QP) HandleEx() unsafe.Pointer { return unsafe.Pointer(q.ex) }

// DataInOrder tells whether the bytes of an operation are seen in order by the
// memory's owner, so that the last byte may be polled.
func (q *QP) DataInOrder(op Opcode) (bool, error) {
	rc := C.vb_data_in_order(q.qp, C.int(op))
	if rc < 0 {
		return false, unsupported("ibv_query_qp_data_in_order", q.describe())
	}
	return rc != 0, nil
}

func (q *QP) describe() string { return q.dev.info.Name + " " + q.name() }

// Close destroys the queue pair. Requests that were in flight complete no more.
func (q *QP) Close() error {
	return q.close("ibv_destroy_qp", func() error {
		if err := code("ibv_destroy_qp", q.describe(), int(C.vb_destroy_qp(q.qp)), "it is still attached to a multicast group"); err != nil {
			return err
		}
		q.qp, q.ex = nil, nil
		return nil
	})
}
