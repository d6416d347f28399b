package device

import (
	"github.com/peerdirect/peerdirect/efa/wire"
)

// transitions has, for each state, those that MODIFY_QP may go to. SQE is left
// only: a device that supports no unsignaled work has no use for it, and errors of
// single requests leave queue pairs of EFA in RTS. Source: efa_verbs.c, the table
// for SRD, which for UD is the same.
var transitions = [...]uint{
	wire.QPStateReset: 1<<wire.QPStateReset | 1<<wire.QPStateInit,
	wire.QPStateInit:  1<<wire.QPStateReset | 1<<wire.QPStateError | 1<<wire.QPStateInit | 1<<wire.QPStateRTR,
	wire.QPStateRTR:   1<<wire.QPStateReset | 1<<wire.QPStateError | 1<<wire.QPStateRTS,
	wire.QPStateRTS:   1<<wire.QPStateReset | 1<<wire.QPStateError | 1<<wire.QPStateRTS | 1<<wire.QPStateSQD,
	wire.QPStateSQD:   1<<wire.QPStateReset | 1<<wire.QPStateError | 1<<wire.QPStateRTS | 1<<wire.QPStateSQD,
	wire.QPStateSQE:   1<<wire.QPStateReset | 1<<wire.QPStateError | 1<<wire.QPStateRTS,
	wire.QPStateError: 1<<wire.QPStateReset | 1<<wire.QPStateError,
}

// ModifyQP changes a queue pair's state or attributes, all or nothing. The state it
// starts from is the real one: CurState must be a state, but the driver's idea of
// it may be outdated.
func (d *Device) ModifyQP(m wire.ModifyQP) error {
	const op = "modify QP"
	const known = wire.ModifyState | wire.ModifyCurState | wire.ModifyQKey | wire.ModifySQPSN |
		wire.ModifySQDrainedAsyncNotify | wire.ModifyRNRRetry
	switch {
	case m.Mask&^known != 0:
		return illegal(op, "mask %#x", m.Mask)
	case m.Mask&wire.ModifyState != 0 && m.State > wire.QPStateError:
		return illegal(op, "state %d", m.State)
	case m.Mask&wire.ModifyCurState != 0 && m.CurState > wire.QPStateError:
		return illegal(op, "current state %d", m.CurState)
	}
	if err := d.control(op); err != nil {
		return err
	}
	var drained bool
	defer func() {
		d.done()
		if drained {
			d.tell(Event{Kind: EventDrained, QP: uint16(m.Handle)})
		}
	}()
	qp := d.qp(m.Handle)
	if qp == nil {
		return illegal(op, "no queue pair with handle %#x", m.Handle)
	}
	cur := wire.QPState(qp.state.Load())
	next := cur
	if m.Mask&wire.ModifyState != 0 {
		next = m.State
	}
	switch {
	case transitions[cur]&(1<<next) == 0:
		return illegal(op, "queue pair %d cannot go from %v to %v", qp.number, cur, next)
	case m.Mask&wire.ModifySQPSN != 0 && (cur != wire.QPStateRTR || next != wire.QPStateRTS):
		return illegal(op, "a PSN is set from RTR to RTS only, not from %v to %v", cur, next)
	case m.Mask&wire.ModifySQDrainedAsyncNotify != 0 && next != wire.QPStateSQD:
		return illegal(op, "drain notification goes with SQD only, not %v", next)
	}
	if m.Mask&wire.ModifyRNRRetry != 0 {
		switch {
		case d.opts.Caps&wire.CapRNRRetry == 0 || qp.typ != wire.QPTypeSRD:
			return illegal(op, "queue pair %d of type %v has no RNR retry count", qp.number, qp.typ)
		case cur != wire.QPStateRTR || next != wire.QPStateRTS:
			return illegal(op, "an RNR retry count is set from RTR to RTS only, not from %v to %v", cur, next)
		case m.RNRRetry > rnrForever:
			return illegal(op, "%d RNR retries, the most is %d", m.RNRRetry, rnrForever)
		}
		qp.rnrRetry = m.RNRRetry
	}
	if m.Mask&wire.ModifyQKey != 0 {
		qp.qkey = m.QKey
	}
	if m.Mask&wire.ModifySQPSN != 0 {
		qp.psn = m.SQPSN
	}
	if m.Mask&wire.ModifySQDrainedAsyncNotify != 0 {
		qp.notify = m.SQDrainedAsyncNotify != 0
	}
	qp.state.Store(uint32(next))
	switch next {
	case wire.QPStateReset:
		d.w.dropAll(qp)
		qp.sqProducer.Store(0)
		qp.sqConsumer = 0
		qp.rq.producer.Store(0)
		qp.rq.consumer = 0
		qp.notify, qp.rnrRetry = false, rnrForever
	case wire.QPStateError:
		if cur != wire.QPStateError {
			d.opts.Memory.Lock()
			d.flush(qp)
			d.opts.Memory.Unlock()
		}
	case wire.QPStateRTS:
		d.rung[qp.index/64].Or(1 << (qp.index % 64))
		d.wake()
	case wire.QPStateSQD:
		drained = qp.notify && qp.inFlight == 0 && cur != wire.QPStateSQD
	}
	return nil
}

// QueryQP tells a queue pair's state and attributes.
func (d *Device) QueryQP(handle uint32) (wire.QueryQPResp, error) {
	const op = "query QP"
	if err := d.control(op); err != nil {
		return wire.QueryQPResp{}, err
	}
	defer d.done()
	qp := d.qp(handle)
	if qp == nil {
		return wire.QueryQPResp{}, illegal(op, "no queue pair with handle %#x", handle)
	}
	r := wire.QueryQPResp{
		State: wire.QPState(qp.state.Load()), QKey: qp.qkey, SQPSN: qp.psn, RNRRetry: qp.rnrRetry,
	}
	if r.State == wire.QPStateSQD && qp.inFlight > 0 {
		r.SQDraining = 1
	}
	return r, nil
}

// flush completes as flushed everything that was posted: what is in flight, what was
// not yet fetched, and the receives. d.mu is held alone, or shared by the worker;
// the memory is held.
func (d *Device) flush(qp *queuePair) {
	for qp.first != nil {
		d.w.complete(qp.first, wire.CompFlushed)
	}
	for n := qp.pendingSends(d); n > 0; n-- {
		e := (*wire.TxEntry)(qp.nextEntry())
		qp.sendCQ.completeSend(d, qp, e.ReqID64(), wire.CompFlushed, e.Op()&wire.IOOp(wire.CQEOpMask>>4))
		qp.count(d, sendEvent(e.Op(), wire.CompFlushed))
	}
	qp.rq.mu.Lock()
	defer qp.rq.mu.Unlock()
	var r receive
	for qp.rq.take(d, &r) {
		done := received{reqID: r.reqID, status: wire.CompFlushed, ah: wire.UnknownAH}
		qp.recvCQ.completeRecv(d, qp, &done)
		qp.count(d, wire.CountRecvErr)
	}
}
