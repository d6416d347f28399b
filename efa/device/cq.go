package device

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// The doorbell of a completion queue: how many entries were consumed (bits 15:0,
// of all sub-CQs together), a sequence number that counts the user's events (bits
// 30:29), and whether to arm (bit 31). rdma-core's efa_io_regs_defs.h. The device
// has no need of the sequence number: a spurious event costs little, a lost one
// hangs its waiter, so it judges each request by the consumer count alone.
const (
	cqConsumer = 0xffff
	cqArm      = 1 << 31
)

// CQOptions are CREATE_CQ's, see wire.CreateCQ.
type CQOptions struct {
	wire.CreateCQ
	Keep any // holds on to the ring; see ProcessMemory
}

// completionQueue is a ring of completions in host memory, or two: sub-CQs that
// lie one after the other.
//
// The device does not look at how far the user has read, since the count it is
// told lags behind; as with the real device, the user must not have more requests
// posted than the ring has entries. If more complete, the oldest unread ones are
// overwritten and CQOverruns counts them, as far as doorbells let them be seen.
type completionQueue struct {
	index uint16
	uar   uint16
	wide  bool // 32-byte entries
	flags wire.CQFlags
	base  uint64
	size  uint64 // bytes in an entry
	depth uint32 // entries in a sub-CQ
	subs  uint32
	uses  int
	eq    *eventQueue // nil if polled only
	keep  any

	consumer   atomic.Uint32
	armRequest atomic.Uint32 // the last doorbell that armed; 0 when it was served

	mu       sync.Mutex
	producer [2]uint32
	total    uint32 // both producers together
	armed    bool
	waiting  bool // in eq.waiting, and guarded by its mutex
}

// CreateCQ makes a completion queue. Its doorbell is valid also without interrupts.
func (d *Device) CreateCQ(o CQOptions) (wire.CreateCQResp, error) {
	const op = "create CQ"
	var none wire.CreateCQResp
	switch {
	case o.Caps&wire.CQVirt != 0:
		return none, unsupported(op, "a ring at a virtual address")
	case o.Caps&^wire.CQInterruptMode != 0 || o.Flags&^(wire.CQSetSrcAddr|wire.CQReqID64) != 0:
		return none, illegal(op, "flags %#x and %#x", o.Caps, o.Flags)
	case o.EntryWords != 4 && o.EntryWords != 8:
		return none, illegal(op, "entries of %d words; 4 and 8 are supported", o.EntryWords)
	case o.Flags&wire.CQSetSrcAddr != 0 && o.EntryWords != 8:
		return none, illegal(op, "source addresses want entries of 8 words, not %d", o.EntryWords)
	case o.Flags&wire.CQReqID64 != 0 && d.opts.Caps&wire.CapSQReqID64 == 0:
		return none, illegal(op, "the device has no 64-bit request ids")
	case !powerOfTwo(uint32(o.SubCQDepth)) || int(o.SubCQDepth) > d.opts.MaxCQDepth:
		return none, illegal(op, "depth %d is not a power of two up to %d", o.SubCQDepth, d.opts.MaxCQDepth)
	case int(o.NumSubCQs) != d.opts.SubCQs:
		return none, illegal(op, "%d sub-CQs; the device has %d", o.NumSubCQs, d.opts.SubCQs)
	case o.BaseAddr == 0 || o.BaseAddr%8 != 0:
		return none, illegal(op, "the ring at %#x is not aligned to 8 bytes", o.BaseAddr)
	}
	if err := d.control(op); err != nil {
		return none, err
	}
	defer d.done()
	uar := d.uars.get(uint32(o.UAR))
	if uar == nil {
		return none, illegal(op, "no UAR %d", o.UAR)
	}
	cq := &completionQueue{
		uar: o.UAR, wide: o.EntryWords == 8, flags: o.Flags, base: o.BaseAddr, size: uint64(o.EntryWords) * 4,
		depth: uint32(o.SubCQDepth), subs: uint32(o.NumSubCQs), keep: o.Keep,
	}
	if o.Caps&wire.CQInterruptMode != 0 {
		if int(o.EQN) < len(d.eqs) {
			cq.eq = d.eqs[o.EQN].Load()
		}
		if cq.eq == nil {
			return none, illegal(op, "no EQ %d", o.EQN)
		}
	}
	n, ok := d.cqFree.take()
	if !ok {
		return none, exhausted(op, "all %d completion queues are in use", d.opts.MaxCQs)
	}
	cq.index = uint16(n)
	if cq.eq != nil {
		cq.eq.uses++
	}
	uar.uses++
	d.cqs[n].Store(cq)
	return wire.CreateCQResp{
		CQ: cq.index, SubCQDepth: o.SubCQDepth, Flags: wire.CQDBValid,
		DB: uint32(o.UAR)*DoorbellPage + cqDoorbell + n*4,
	}, nil
}

// DestroyCQ removes a completion queue that no queue pair uses.
func (d *Device) DestroyCQ(index uint16) error {
	const op = "destroy CQ"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	cq := d.cq(uint32(index))
	if cq == nil {
		return illegal(op, "no CQ %d", index)
	}
	if cq.uses > 0 {
		return busy(op, "%d queues report to CQ %d; destroy their queue pairs first", cq.uses, index)
	}
	if cq.eq != nil {
		cq.eq.uses--
		cq.eq.forget(cq)
	}
	d.uars.get(uint32(cq.uar)).uses--
	d.cqs[index].Store(nil)
	d.cqFree.give(uint32(index))
	return nil
}

func (d *Device) cq(index uint32) *completionQueue {
	if index >= maxCQs {
		return nil
	}
	return d.cqs[index].Load()
}

// slot gives the place of the next completion in a sub-CQ, nil if it is not mapped.
// cq.mu is held until push.
func (cq *completionQueue) slot(d *Device, sub uint16) []byte {
	i := cq.producer[sub] & (cq.depth - 1)
	at := cq.base + uint64(uint32(sub)*cq.depth+i)*cq.size
	b := d.opts.Memory.Bytes(at, int(cq.size))
	if len(b) < int(cq.size) {
		d.stats.ringFaults.Add(1)
		return nil
	}
	return b
}

// push publishes the completion in b, the slot, whose first word is still missing,
// and raises what event is due.
func (cq *completionQueue) push(d *Device, sub uint16, b []byte, reqID uint16, s wire.CompStatus, q wire.QueueType, op wire.IOOp, imm, unsolicited bool) {
	phase := cq.producer[sub]&cq.depth == 0
	storeFirst(b, uint32(wire.MakeCQEWord(reqID, s, wire.MakeCQEFlags(phase, q, op, imm, unsolicited))))
	cq.producer[sub]++
	cq.total++
	if c := cq.consumer.Load(); c != 0 && cq.total-c&cqConsumer&cqConsumer > cq.depth*cq.subs {
		d.stats.cqOverruns.Add(1)
	}
	if cq.armed {
		cq.armed = false
		cq.eq.event(d, cq)
	}
}

// completeSend posts the completion of a send queue's request.
func (cq *completionQueue) completeSend(d *Device, qp *queuePair, id uint64, s wire.CompStatus, op wire.IOOp) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	b := cq.slot(d, qp.sendSub)
	if b == nil {
		return
	}
	e := (*wire.CQE)(unsafe.Pointer(unsafe.SliceData(b)))
	if qp.flags&wire.QPSQReqID64 == 0 {
		id &= 0xffff
	}
	e.SetSend(qp.number, id)
	if cq.wide {
		clear(b[16:])
	}
	cq.push(d, qp.sendSub, b, uint16(id), s, wire.SendQueue, op, false, false)
}

// received is what a receive completion tells.
type received struct {
	reqID       uint16
	status      wire.CompStatus
	op          wire.IOOp
	length      uint32
	ah          uint16
	srcQP       uint16
	src         *wire.GID // nil with a flushed one
	hasImm      bool
	imm         uint32
	unsolicited bool
}

// completeRecv posts the completion of a receive, or of an unsolicited write.
func (cq *completionQueue) completeRecv(d *Device, qp *queuePair, r *received) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	b := cq.slot(d, qp.recvSub)
	if b == nil {
		return
	}
	e := (*wire.CQE)(unsafe.Pointer(unsafe.SliceData(b)))
	e.SetRecv(qp.number, uint16(r.length), r.ah, r.srcQP, r.imm)
	if cq.wide {
		w := (*wire.WideCQE)(unsafe.Pointer(unsafe.SliceData(b)))
		if r.ah == wire.UnknownAH && r.src != nil && cq.flags&wire.CQSetSrcAddr != 0 {
			w.SetSrcAddr(r.src)
		} else {
			w.SetLengthHi(uint16(r.length >> 16))
		}
	}
	cq.push(d, qp.recvSub, b, r.reqID, r.status, wire.RecvQueue, r.op, r.hasImm, r.unsolicited)
}

// arm serves the doorbell: if completions were written that the user had not
// consumed when it rang, the event is due at once.
func (cq *completionQueue) arm(d *Device) {
	request := cq.armRequest.Swap(0)
	if request == 0 || cq.eq == nil {
		return
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.total&cqConsumer != request&cqConsumer {
		cq.armed = false
		cq.eq.event(d, cq)
		return
	}
	cq.armed = true
}
