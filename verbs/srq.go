package verbs

/*
#include "shim.h"

static struct ibv_srq *vb_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr_ex *a)
{
	errno = 0;
	// The classic structure is the extended one's beginning.
	return vb.ibv_create_srq(pd, (struct ibv_srq_init_attr *)a);
}

static struct ibv_srq *vb_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a)
{
	struct verbs_context *v = VB_OP(c, create_srq_ex);

	if (!v)
		return NULL;
	errno = 0;
	return v->create_srq_ex(c, a);
}

static int vb_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	struct verbs_context *v = VB_OP(srq->context, get_srq_num);

	return v ? vb_rc(v->get_srq_num(srq, num)) : EOPNOTSUPP;
}

static int vb_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *a, int mask)
{
	errno = 0;
	return vb_rc(vb.ibv_modify_srq(srq, a, mask));
}

static int vb_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *a)
{
	errno = 0;
	return vb_rc(vb.ibv_query_srq(srq, a));
}

static int vb_destroy_srq(struct ibv_srq *srq) { return vb_rc(vb.ibv_destroy_srq(srq)); }
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// SRQType is what a shared receive queue serves (enum ibv_srq_type).
type SRQType uint32

const (
	SRQBasic       SRQType = iota
	SRQXRC                 // receives of XRC, named by its number
	SRQTagMatching         // receives matched by tag
)

func (t SRQType) String() string {
	names := [...]string{"BASIC", "XRC", "TM"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// SRQOptions size a shared receive queue.
type SRQOptions struct {
	Type  SRQType
	Max   int // receives; default 128
	SGE   int // buffers a receive; default 1
	Limit int // see SRQ.SetLimit

	XRCD *XRCD // XRC: the domain
	CQ   *CQ   // XRC and tag matching: completions of the receives

	MaxTags   uint32 // tag matching: buffers in the list
	MaxTagOps uint32 // and operations on it in flight
}

// SRQ is a shared receive queue: queue pairs take receives from it in place of
// their own queues.
type SRQ struct {
	object
	dev *Device
	srq *C.struct_ibv_srq
	max int
	sge int
}

// CreateSRQ makes a shared receive queue.
func (pd *PD) CreateSRQ(o SRQOptions) (*SRQ, error) {
	if o.Max == 0 {
		o.Max = 128
	}
	if o.SGE == 0 {
		o.SGE = 1
	}
	if o.Type == SRQXRC && (o.XRCD == nil || o.CQ == nil) || o.Type == SRQTagMatching && o.CQ == nil {
		return nil, &Error{Verb: "ibv_create_srq", Object: pd.describe(), Err: syscall.EINVAL,
			Detail: fmt.Sprintf("a shared receive queue of type %v needs a completion queue, and for XRC a domain", o.Type)}
	}
	s := &SRQ{dev: pd.dev}
	parents := []*object{&pd.object}
	if o.XRCD != nil {
		parents = append(parents, &o.XRCD.object)
	}
	if o.CQ != nil {
		parents = append(parents, &o.CQ.object)
	}
	if err := s.attach("ibv_create_srq", "srq", parents...); err != nil {
		return nil, err
	}
	p, a, err := s.create(pd, o)
	if p == nil {
		s.detach()
		return nil, s.createError(o, err)
	}
	s.srq, s.max, s.sge = p, int(a.max_wr), int(a.max_sge)
	s.rename("%d", uint32(p.handle))
	return s, nil
}

func (s *SRQ) create(pd *PD, o SRQOptions) (*C.struct_ibv_srq, C.struct_ibv_srq_attr, error) {
	var a C.struct_ibv_srq_init_attr_ex
	a.attr.max_wr = C.uint32_t(o.Max)
	a.attr.max_sge = C.uint32_t(o.SGE)
	a.attr.srq_limit = C.uint32_t(o.Limit)
	if o.Type == SRQBasic {
		p, err := C.vb_create_srq(pd.pd, &a)
		return p, a.attr, err
	}
	a.pd = pd.pd
	a.srq_type = uint32(o.Type)
	a.comp_mask = C.IBV_SRQ_INIT_ATTR_TYPE | C.IBV_SRQ_INIT_ATTR_PD
	if o.XRCD != nil {
		a.xrcd = o.XRCD.xrcd
		a.comp_mask |= C.IBV_SRQ_INIT_ATTR_XRCD
	}
	if o.CQ != nil {
		a.cq = o.CQ.cq
		a.comp_mask |= C.IBV_SRQ_INIT_ATTR_CQ
	}
	if o.Type == SRQTagMatching {
		a.tm_cap.max_num_tags = C.uint32_t(o.MaxTags)
		a.tm_cap.max_ops = C.uint32_t(o.MaxTagOps)
		a.comp_mask |= C.IBV_SRQ_INIT_ATTR_TM
	}
	p, err := C.vb_create_srq_ex(pd.dev.ctx, &a)
	return p, a.attr, err
}

func (s *SRQ) createError(o SRQOptions, err error) error {
	object := fmt.Sprintf("%s, %v, %d receives of %d buffers", s.dev.info.Name, o.Type, o.Max, o.SGE)
	detail := ""
	if a, aerr := s.dev.Attr(); aerr == nil {
		switch {
		case a.MaxSRQ == 0 || errors.Is(err, ErrUnsupported):
			detail = fmt.Sprintf("the device has no shared receive queue of type %v", o.Type)
		case o.Max > a.MaxSRQWR:
			detail = fmt.Sprintf("the device's limit on receives (max_srq_wr) is %d", a.MaxSRQWR)
		case o.SGE > a.MaxSRQSGE:
			detail = fmt.Sprintf("the device's limit on buffers (max_srq_sge) is %d", a.MaxSRQSGE)
		}
	}
	return failed("ibv_create_srq", object, err, detail)
}

// Number is how peers name the queue, for XRC.
func (s *SRQ) Number() (uint32, error) {
	if s.srq == nil {
		return 0, &Error{Verb: "ibv_get_srq_num", Object: s.describe(), Err: ErrClosed}
	}
	var num C.uint32_t
	rc := C.vb_srq_num(s.srq, &num)
	return uint32(num), code("ibv_get_srq_num", s.describe(), int(rc), "only XRC and tag-matching queues have a number")
}

// Max is the number of receives that the queue holds.
func (s *SRQ) Max() int { return s.max }

// SetLimit asks for one EventSRQLimitReached when fewer receives than that are
// left; it must be asked for again after each.
func (s *SRQ) SetLimit(limit int) error {
	return s.modify(C.struct_ibv_srq_attr{srq_limit: C.uint32_t(limit)}, C.IBV_SRQ_LIMIT)
}

// Resize changes the number of receives that the queue holds, where the device
// has SRQ_RESIZE. Batches made before keep their size.
func (s *SRQ) Resize(receives int) error {
	if err := s.modify(C.struct_ibv_srq_attr{max_wr: C.uint32_t(receives)}, C.IBV_SRQ_MAX_WR); err != nil {
		return err
	}
	a, err := s.Query()
	if err == nil {
		s.max = a.Max
	}
	return err
}

func (s *SRQ) modify(a C.struct_ibv_srq_attr, mask C.int) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.srq == nil {
		return &Error{Verb: "ibv_modify_srq", Object: s.describe(), Err: ErrClosed}
	}
	return code("ibv_modify_srq", s.describe(), int(C.vb_modify_srq(s.srq, &a, mask)), "")
}

// SRQAttr are a shared receive queue's attributes.
type SRQAttr struct {
	Max, SGE, Limit int
}

// Query reads the queue's attributes.
func (s *SRQ) Query() (SRQAttr, error) {
	if s.srq == nil {
		return SRQAttr{}, &Error{Verb: "ibv_query_srq", Object: s.describe(), Err: ErrClosed}
	}
	var a C.struct_ibv_srq_attr
	rc := C.vb_query_srq(s.srq, &a)
	return SRQAttr{Max: int(a.max_wr), SGE: int(a.max_sge), Limit: int(a.srq_limit)},
		code("ibv_query_srq", s.describe(), int(rc), "")
}

// RecvBatch makes a batch of receives of up to the queue's size.
func (s *SRQ) RecvBatch() *RecvBatch {
	return newRecvBatch(&RecvBatch{srq: s}, s.max, max(s.sge, 1))
}

// Handle is the struct ibv_srq, nil once the queue is closed.
func (s *SRQ) Handle() unsafe.Pointer { return unsafe.Pointer(s.srq) }

func (s *SRQ) describe() string { return s.dev.info.Name + " " + s.name() }

// Close destroys the queue; what is posted to it is forgotten. It is ErrBusy
// while queue pairs use it.
func (s *SRQ) Close() error {
	return s.close("ibv_destroy_srq", func() error {
		if err := code("ibv_destroy_srq", s.describe(), int(C.vb_destroy_srq(s.srq)), ""); err != nil {
			return err
		}
		s.srq = nil
		return nil
	})
}
