package verbs

/*
#include "shim.h"

static int vb_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_init_attr init;

	errno = 0;
	return vb_rc(vb.ibv_query_qp(qp, a, mask, &init));
}

static int vb_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	errno = 0;
	return vb_rc(vb.ibv_modify_qp(qp, a, mask));
}
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Query reads the queue pair's attributes; those outside the mask may or may
// not be filled.
func (q *QP) Query(mask AttrMask) (QPAttr, error) {
	if q.qp == nil {
		return QPAttr{}, &Error{Verb: "ibv_query_qp", Object: q.describe(), Err: ErrClosed}
	}
	var a C.struct_ibv_qp_attr
	if rc := C.vb_query_qp(q.qp, &a, C.int(mask)); rc != 0 {
		return QPAttr{}, code("ibv_query_qp", q.describe(), int(rc), "")
	}
	return QPAttr{
		State:           QPState(a.qp_state),
		CurState:        QPState(a.cur_qp_state),
		PathMTU:         MTU(a.path_mtu),
		PathMigState:    uint32(a.path_mig_state),
		QKey:            uint32(a.qkey),
		RQPSN:           uint32(a.rq_psn),
		SQPSN:           uint32(a.sq_psn),
		DestQPN:         uint32(a.dest_qp_num),
		Access:          Access(a.qp_access_flags),
		MaxSend:         int(a.cap.max_send_wr),
		MaxRecv:         int(a.cap.max_recv_wr),
		MaxSendSGE:      int(a.cap.max_send_sge),
		MaxRecvSGE:      int(a.cap.max_recv_sge),
		MaxInline:       int(a.cap.max_inline_data),
		Route:           routeFromC(&a.ah_attr),
		AltRoute:        routeFromC(&a.alt_ah_attr),
		PKeyIndex:       int(a.pkey_index),
		AltPKeyIndex:    int(a.alt_pkey_index),
		SQDAsyncNotify:  a.en_sqd_async_notify != 0,
		SQDraining:      a.sq_draining != 0,
		MaxRDAtomic:     uint8(a.max_rd_atomic),
		MaxDestRDAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer:     uint8(a.min_rnr_timer),
		Port:            int(a.port_num),
		Timeout:         uint8(a.timeout),
		RetryCount:      uint8(a.retry_cnt),
		RNRRetry:        uint8(a.rnr_retry),
		AltPort:         int(a.alt_port_num),
		AltTimeout:      uint8(a.alt_timeout),
		RateLimit:       uint32(a.rate_limit),
	}, nil
}

// State reads the queue pair's state from the device.
func (q *QP) State() (QPState, error) {
	a, err := q.Query(AttrState)
	return a.State, err
}

// Modify changes the attributes that the mask names. When the kernel refuses,
// the error names the bits that are missing or too many for the transition.
func (q *QP) Modify(attr QPAttr, mask AttrMask) error {
	q.life.Lock()
	defer q.life.Unlock()
	if q.qp == nil {
		return &Error{Verb: "ibv_modify_qp", Object: q.describe(), Err: ErrClosed}
	}
	a := attr.c()
	rc := C.vb_modify_qp(q.qp, &a, C.int(mask))
	if rc == 0 {
		return nil
	}
	err := syscall.Errno(rc)
	return failed("ibv_modify_qp", fmt.Sprintf("%s to %v", q.describe(), attr.State), err, q.explain(attr, mask, err))
}

// explain asks why a modification was refused: first by the rules of the
// state machine, then by the values that often are wrong.
func (q *QP) explain(attr QPAttr, mask AttrMask, err error) string {
	from := StateUnknown
	if now, qerr := q.Query(AttrState); qerr == nil {
		from = now.State
	}
	if q.dev.Transport() == TransportIWARP && attr.State != StateError && attr.State != StateInit {
		return "an iWARP queue pair is connected by the RDMA CM, not by ibv_modify_qp"
	}
	if text := explainMask(q.opts.Type, from, attr.State, mask); text != "" {
		return text
	}
	switch {
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Sprintf("no route or no neighbour for GID %v", attr.Route.DGID)
	case !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENODATA): // ENODATA: an unused GID
		return ""
	}
	if mask&AttrPort != 0 {
		if _, err := q.dev.Port(attr.Port); err != nil {
			return fmt.Sprintf("port %d does not exist", attr.Port)
		}
	}
	if mask&AttrAV != 0 {
		if _, err := q.dev.GIDAt(attr.Route.Port, attr.Route.SGIDIndex); err != nil {
			return fmt.Sprintf("source GID index %d: %v", attr.Route.SGIDIndex, err)
		}
	}
	if mask&AttrPathMTU != 0 {
		port := attr.Route.Port
		if p, err := q.dev.Port(port); err == nil && attr.PathMTU > p.ActiveMTU {
			return fmt.Sprintf("path MTU %d is over the port's active MTU %d", attr.PathMTU.Bytes(), p.ActiveMTU.Bytes())
		}
	}
	return fmt.Sprintf("the mask %v fits the transition from %v; a value is out of range for the device", mask, from)
}

func (r Route) c() C.struct_ibv_ah_attr {
	var a C.struct_ibv_ah_attr
	a.dlid = C.uint16_t(r.DLID)
	a.sl = C.uint8_t(r.SL)
	a.src_path_bits = C.uint8_t(r.SrcPathBits)
	a.static_rate = C.uint8_t(r.StaticRate)
	a.port_num = C.uint8_t(r.Port)
	if r.Global {
		a.is_global = 1
		*(*GID)(unsafe.Pointer(&a.grh.dgid)) = r.DGID
		a.grh.flow_label = C.uint32_t(r.FlowLabel)
		a.grh.sgid_index = C.uint8_t(r.SGIDIndex)
		a.grh.hop_limit = C.uint8_t(r.HopLimit)
		a.grh.traffic_class = C.uint8_t(r.TrafficClass)
	}
	return a
}

func routeFromC(a *C.struct_ibv_ah_attr) Route {
	return Route{
		Port:         int(a.port_num),
		DGID:         *(*GID)(unsafe.Pointer(&a.grh.dgid)),
		SGIDIndex:    int(a.grh.sgid_index),
		Global:       a.is_global != 0,
		FlowLabel:    uint32(a.grh.flow_label),
		HopLimit:     uint8(a.grh.hop_limit),
		TrafficClass: uint8(a.grh.traffic_class),
		DLID:         uint16(a.dlid),
		SL:           uint8(a.sl),
		SrcPathBits:  uint8(a.src_path_bits),
		StaticRate:   uint8(a.static_rate),
	}
}

func (a *QPAttr) c() C.struct_ibv_qp_attr {
	flag := func(b bool) C.uint8_t {
		if b {
			return 1
		}
		return 0
	}
	var c C.struct_ibv_qp_attr
	c.qp_state = uint32(a.State)
	c.cur_qp_state = uint32(a.CurState)
	c.path_mtu = uint32(a.PathMTU)
	c.path_mig_state = a.PathMigState
	c.qkey = C.uint32_t(a.QKey)
	c.rq_psn = C.uint32_t(a.RQPSN)
	c.sq_psn = C.uint32_t(a.SQPSN)
	c.dest_qp_num = C.uint32_t(a.DestQPN)
	c.qp_access_flags = C.uint(a.Access)
	c.cap.max_send_wr = C.uint32_t(a.MaxSend)
	c.cap.max_recv_wr = C.uint32_t(a.MaxRecv)
	c.cap.max_send_sge = C.uint32_t(a.MaxSendSGE)
	c.cap.max_recv_sge = C.uint32_t(a.MaxRecvSGE)
	c.cap.max_inline_data = C.uint32_t(a.MaxInline)
	c.ah_attr = a.Route.c()
	c.alt_ah_attr = a.AltRoute.c()
	c.pkey_index = C.uint16_t(a.PKeyIndex)
	c.alt_pkey_index = C.uint16_t(a.AltPKeyIndex)
	c.en_sqd_async_notify = flag(a.SQDAsyncNotify)
	c.max_rd_atomic = C.uint8_t(a.MaxRDAtomic)
	c.max_dest_rd_atomic = C.uint8_t(a.MaxDestRDAtomic)
	c.min_rnr_timer = C.uint8_t(a.MinRNRTimer)
	c.port_num = C.uint8_t(a.Port)
	c.timeout = C.uint8_t(a.Timeout)
	c.retry_cnt = C.uint8_t(a.RetryCount)
	c.rnr_retry = C.uint8_t(a.RNRRetry)
	c.alt_port_num = C.uint8_t(a.AltPort)
	c.alt_timeout = C.uint8_t(a.AltTimeout)
	c.rate_limit = C.uint32_t(a.RateLimit)
	return c
}
