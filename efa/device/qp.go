package device

import (
	"sync/atomic"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// rnrForever is the count of RNR retries that means no limit.
const rnrForever = 7

// QPOptions are CREATE_QP's, see wire.CreateQP. A ring of size 0 is none.
type QPOptions struct {
	wire.CreateQP
	Keep any // holds on to the receive ring; see ProcessMemory
}

type queuePair struct {
	index   uint16
	number  uint16
	pd, uar uint16
	typ     wire.QPType
	flags   wire.CreateQPFlags
	sl      uint8
	sendCQ  *completionQueue
	recvCQ  *completionQueue
	sendSub uint16
	recvSub uint16
	keep    any

	// Changed by control operations, which hold the device's lock alone. state is
	// atomic for doorbells.
	state    atomic.Uint32
	dead     bool
	qkey     uint32
	psn      uint32
	rnrRetry uint8
	notify   bool // tell when drained
	attached []attachment

	// The send ring, in device memory. A slot is free for the user again once a
	// completion of it or a later one shows, so entries are copied when fetched.
	ring       []byte
	llqOffset  uint32
	entry      uint32 // bytes in an entry
	depth      uint32 // entries
	sqProducer atomic.Uint32
	sqConsumer uint16
	queued     bool // in the worker's run queue
	inFlight   uint32
	seq        uint64 // requests fetched, ever
	lastDone   uint64 // the latest request that completed
	first      *message

	rq receiveQueue
}

func (qp *queuePair) in(states ...wire.QPState) bool {
	s := wire.QPState(qp.state.Load())
	for _, x := range states {
		if s == x {
			return true
		}
	}
	return false
}

// CreateQP makes a queue pair in state RESET. What it answers tells where the send
// ring lies in LLQ, which doorbells to ring and which sub-CQs completions go to. An
// entry of the send ring has SQRingSize/SQDepth bytes.
func (d *Device) CreateQP(o QPOptions) (wire.CreateQPResp, error) {
	const op = "create QP"
	var none wire.CreateQPResp
	rqEntries := o.RQRingSize / wire.SizeRxDesc
	known := wire.CreateQPFlags(0)
	if d.opts.Caps&wire.CapUnsolicitedWriteRecv != 0 {
		known |= wire.QPUnsolicitedWriteRecv
	}
	if d.opts.Caps&wire.CapSQReqID64 != 0 {
		known |= wire.QPSQReqID64
	}
	switch {
	case o.Flags&(wire.QPSQVirt|wire.QPRQVirt) != 0:
		return none, unsupported(op, "a ring at a virtual address")
	case o.Flags&^known != 0:
		return none, illegal(op, "flags %#x, the device supports %#x", o.Flags, known)
	case o.Type != wire.QPTypeUD && o.Type != wire.QPTypeSRD:
		return none, illegal(op, "type %d", o.Type)
	case o.SQRingSize != 0 && (!powerOfTwo(o.SQDepth) || int(o.SQDepth) > d.opts.MaxSQDepth):
		return none, illegal(op, "send queue depth %d is not a power of two up to %d", o.SQDepth, d.opts.MaxSQDepth)
	case o.SQRingSize != 0 && o.SQRingSize != o.SQDepth*entrySize && o.SQRingSize != o.SQDepth*wideEntry:
		return none, illegal(op, "a send ring of %d bytes for %d entries", o.SQRingSize, o.SQDepth)
	case o.SQRingSize > d.Attr().Queue1.MaxLLQSize:
		return none, illegal(op, "a send ring of %d bytes, the most is %d", o.SQRingSize, d.Attr().Queue1.MaxLLQSize)
	case o.RQRingSize%wire.SizeRxDesc != 0 || o.RQRingSize != 0 && (!powerOfTwo(rqEntries) || int(rqEntries) > d.opts.MaxRQDepth):
		return none, illegal(op, "a receive ring of %d bytes; it must have a power of two of 16-byte entries up to %d", o.RQRingSize, d.opts.MaxRQDepth)
	case o.RQRingSize != 0 && (o.RQBaseAddr == 0 || o.RQBaseAddr%8 != 0):
		return none, illegal(op, "the receive ring at %#x is not aligned to 8 bytes", o.RQBaseAddr)
	}
	if err := d.control(op); err != nil {
		return none, err
	}
	defer d.done()
	pd, uar := d.pds.get(uint32(o.PD)), d.uars.get(uint32(o.UAR))
	scq, rcq := d.cq(o.SendCQ), d.cq(o.RecvCQ)
	switch {
	case pd == nil:
		return none, illegal(op, "no PD %d", o.PD)
	case uar == nil:
		return none, illegal(op, "no UAR %d", o.UAR)
	case scq == nil:
		return none, illegal(op, "no CQ %d", o.SendCQ)
	case rcq == nil:
		return none, illegal(op, "no CQ %d", o.RecvCQ)
	case o.Flags&wire.QPSQReqID64 != 0 && scq.flags&wire.CQReqID64 == 0:
		return none, illegal(op, "64-bit request ids, but CQ %d was made without", o.SendCQ)
	}
	i, ok := d.qpFree.take()
	if !ok {
		return none, exhausted(op, "all %d queue pairs are in use", d.opts.MaxQPs)
	}
	page, ok := d.takeLLQ(o.SQRingSize)
	if !ok {
		d.qpFree.give(i)
		return none, exhausted(op, "no %d bytes of device memory left for the send ring", o.SQRingSize)
	}
	// The low byte is unique among queue pairs, as the driver wants; the high one
	// tells a new queue pair from the last with that index, and is never 0.
	d.qpGen[i]++
	if d.qpGen[i] == 0 {
		d.qpGen[i] = 1
	}
	qp := &queuePair{
		index: uint16(i), number: uint16(d.qpGen[i])<<8 | uint16(i), pd: o.PD, uar: o.UAR,
		typ: o.Type, flags: o.Flags, sl: o.ServiceLevel, sendCQ: scq, recvCQ: rcq, keep: o.Keep,
		sendSub: uint16(d.qpMade % scq.subs), recvSub: uint16((d.qpMade + 1) % rcq.subs),
		rnrRetry: rnrForever, llqOffset: uint32(page) * llqPage,
	}
	if o.SQRingSize > 0 {
		qp.depth, qp.entry = o.SQDepth, o.SQRingSize/o.SQDepth
		qp.ring = d.llq[qp.llqOffset:][:o.SQRingSize:o.SQRingSize]
	}
	qp.rq.base, qp.rq.depth = o.RQBaseAddr, rqEntries
	d.qpMade++
	pd.uses++
	uar.uses++
	scq.uses++
	rcq.uses++
	d.qps[i].Store(qp)
	db := uint32(o.UAR)*DoorbellPage + i*8
	return wire.CreateQPResp{
		Handle: uint32(qp.number), QPNum: qp.number, SendSubCQ: qp.sendSub, RecvSubCQ: qp.recvSub,
		SQDB: db, RQDB: db + 4, LLQ: qp.llqOffset,
	}, nil
}

// takeLLQ finds pages of device memory for a ring: whole pages, so that a process
// that maps its ring sees no other's.
func (d *Device) takeLLQ(size uint32) (int, bool) {
	n := int(size+llqPage-1) / llqPage
	for i, run := 0, 0; i < len(d.llqPages) && n > 0; i++ {
		if run++; d.llqPages[i] {
			run = 0
		}
		if run == n {
			first := i + 1 - n
			for j := range n {
				d.llqPages[first+j] = true
			}
			return first, true
		}
	}
	return 0, n == 0
}

// qp finds a queue pair by its handle, which is its number. d.mu is held.
func (d *Device) qp(handle uint32) *queuePair {
	if qp := d.qps[handle%maxQPs].Load(); qp != nil && uint32(qp.number) == handle {
		return qp
	}
	return nil
}

// DestroyQP removes a queue pair. What it still had to do is dropped without
// completions: the user's library knows the queue pair no more and would take them
// for errors (rdma-core 65, efa_poll_sub_cq). Who wants them moves it to ERR first.
func (d *Device) DestroyQP(handle uint32) error {
	const op = "destroy QP"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	qp := d.qp(handle)
	if qp == nil {
		return illegal(op, "no queue pair with handle %#x", handle)
	}
	d.dropQP(qp)
	return nil
}

// dropQP removes a queue pair. d.mu is held alone.
func (d *Device) dropQP(qp *queuePair) {
	d.w.dropAll(qp)
	d.w.unqueue(qp)
	qp.dead = true
	for _, a := range qp.attached {
		a.counter.uses--
	}
	qp.sendCQ.uses--
	qp.recvCQ.uses--
	d.pds.get(uint32(qp.pd)).uses--
	d.uars.get(uint32(qp.uar)).uses--
	first := int(qp.llqOffset / llqPage)
	for i := range (len(qp.ring) + llqPage - 1) / llqPage {
		d.llqPages[first+i] = false
	}
	clear(qp.ring)
	d.qps[qp.index].Store(nil)
	d.qpFree.give(uint32(qp.index))
}

// transitions has, for each state, those that MODIFY_QP may go to. SQE is left
// only: a device that supports no unsignaled work has no use for it, and errors of
// single requests leave queue pairs of EFA in RTS. Source: efa_verbs.c, the table
// for SRD, which for UD is the same.
var transitions = [...]uint{
	wire.QPStateReset: 1<<wire.QPStateReset | 1<<wire.QPStateInit,
	wire.QPStateInit:  1<<wire.QPStateReset | 1<<wire.QPStateErr | 1<<wire.QPStateInit | 1<<wire.QPStateRTR,
	wire.QPStateRTR:   1<<wire.QPStateReset | 1<<wire.QPStateErr | 1<<wire.QPStateRTS,
	wire.QPStateRTS:   1<<wire.QPStateReset | 1<<wire.QPStateErr | 1<<wire.QPStateRTS | 1<<wire.QPStateSQD,
	wire.QPStateSQD:   1<<wire.QPStateReset | 1<<wire.QPStateErr | 1<<wire.QPStateRTS | 1<<wire.QPStateSQD,
	wire.QPStateSQE:   1<<wire.QPStateReset | 1<<wire.QPStateErr | 1<<wire.QPStateRTS,
	wire.QPStateErr:   1<<wire.QPStateReset | 1<<wire.QPStateErr,
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
	case m.Mask&wire.ModifyState != 0 && m.State > wire.QPStateErr:
		return illegal(op, "state %d", m.State)
	case m.Mask&wire.ModifyCurState != 0 && m.CurState > wire.QPStateErr:
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
	case wire.QPStateErr:
		if cur != wire.QPStateErr {
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

// pendingSends is how many entries were posted and not fetched. The producer counts
// modulo 2^16; a count beyond the ring's depth makes no sense and counts as nothing
// until the doorbell is rung again.
func (qp *queuePair) pendingSends(d *Device) uint32 {
	n := uint32(uint16(qp.sqProducer.Load()) - qp.sqConsumer)
	if n > qp.depth {
		d.stats.badDoorbells.Add(1)
		return 0
	}
	return n
}

// nextEntry gives the next entry of the send ring and moves on.
func (qp *queuePair) nextEntry() []byte {
	off := uint32(qp.sqConsumer) & (qp.depth - 1) * qp.entry
	qp.sqConsumer++
	return qp.ring[off:][:qp.entry]
}
