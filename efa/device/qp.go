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
