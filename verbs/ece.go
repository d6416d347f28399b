package verbs

/*
#include "shim.h"

static int vb_query_ece(struct ibv_qp *qp, struct ibv_ece *e) { return vb.ibv_query_ece ? vb_rc(vb.ibv_query_ece(qp, e)) : EOPNOTSUPP; }
static int vb_set_ece(struct ibv_qp *qp, struct ibv_ece *e) { return vb.ibv_set_ece ? vb_rc(vb.ibv_set_ece(qp, e)) : EOPNOTSUPP; }

static int vb_rate_limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst, uint16_t packet)
{
	struct ibv_qp_rate_limit_attr a = {.rate_limit = kbps, .max_burst_sz = burst, .typical_pkt_sz = packet};
	struct verbs_context *v = VB_OP(qp->context, modify_qp_rate_limit);

	return v ? vb_rc(v->modify_qp_rate_limit(qp, &a)) : EOPNOTSUPP;
}
*/
import "C"

// ECE is what two ends of a connection agree on beyond the standard (struct
// ibv_ece). The vendor's identity says how to read the options.
type ECE struct {
	VendorID uint32 `json:"vendor_id"`
	Options  uint32 `json:"options"`
}

// ECE reads what the queue pair offers, or, after the peer's options were set
// and the connection made, what was agreed on.
func (q *QP) ECE() (ECE, error) {
	if q.qp == nil {
		return ECE{}, &Error{Verb: "ibv_query_ece", Object: q.describe(), Err: ErrClosed}
	}
	var e C.struct_ibv_ece
	rc := C.vb_query_ece(q.qp, &e)
	return ECE{VendorID: uint32(e.vendor_id), Options: uint32(e.options)}, code("ibv_query_ece", q.describe(), int(rc), "")
}

// SetECE sets what the peer offers; before the queue pair goes to RTR.
func (q *QP) SetECE(e ECE) error {
	q.life.Lock()
	defer q.life.Unlock()
	if q.qp == nil {
		return &Error{Verb: "ibv_set_ece", Object: q.describe(), Err: ErrClosed}
	}
	c := C.struct_ibv_ece{vendor_id: C.uint32_t(e.VendorID), options: C.uint32_t(e.Options)}
	return code("ibv_set_ece", q.describe(), int(C.vb_set_ece(q.qp, &c)), "")
}

// RateLimit paces a queue pair; see PacketPacing of DeviceAttr.
type RateLimit struct {
	Kbps   uint32 // 0: no limit
	Burst  uint32 // bytes; 0: the device's choice
	Packet uint16 // typical packet in bytes; 0: the device's choice
}

// SetRateLimit paces the queue pair, which is in RTS.
func (q *QP) SetRateLimit(l RateLimit) error {
	q.life.Lock()
	defer q.life.Unlock()
	if q.qp == nil {
		return &Error{Verb: "ibv_modify_qp_rate_limit", Object: q.describe(), Err: ErrClosed}
	}
	rc := C.vb_rate_limit(q.qp, C.uint32_t(l.Kbps), C.uint32_t(l.Burst), C.uint16_t(l.Packet))
	return code("ibv_modify_qp_rate_limit", q.describe(), int(rc), "")
}
