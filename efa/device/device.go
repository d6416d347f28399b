package device

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Device is one EFA device: its objects, its doorbells, and a goroutine that
// carries out what its send queues hold. Control operations may be called from
// any goroutine and take effect before they return: after DeregisterMR, say, no
// byte of the region is touched any more.
type Device struct {
	fabric *Fabric
	id     uint64 // also the rank of mu among the devices'
	rank   uint64 // of opts.Memory among the fabric's
	opts   Options
	placer Placer // opts.Memory, if it is one
	mtu    int
	llq    []byte
	faults Faults
	stats  counters

	// mu is held shared by the data path, this device's and its peers', for a
	// bounded piece of work, and alone by control operations. A worker takes two
	// devices' in the order of their ids.
	mu       sync.RWMutex
	closed   bool
	fatal    bool
	pds      table[protectionDomain]
	uars     table[uarPage]
	mrs      table[memoryRegion]
	mrGen    []uint16 // of each region number, counted up at each registration
	ahs      table[addressHandle]
	ahByPeer map[peerKey]*addressHandle
	ahGen    uint64 // counts changes of ahByPeer
	cntrs    table[eventCounter]
	qpFree   numbers
	cqFree   numbers
	eqFree   numbers
	qpGen    [maxQPs]uint8
	qpMade   uint32
	llqPages []bool // in use

	// What doorbells reach without a lock.
	qps [maxQPs]atomic.Pointer[queuePair]
	cqs [maxCQs]atomic.Pointer[completionQueue]
	eqs [maxEQs]atomic.Pointer[eventQueue]

	rung    [maxQPs / 64]atomic.Uint64 // queue pairs whose doorbell was rung
	armedCQ [maxCQs / 64]atomic.Uint64
	armedEQ [maxEQs / 64]atomic.Uint64
	irqs    [4]atomic.Uint64 // vectors to raise once the locks are released
	anyIRQ  atomic.Bool
	link    atomic.Bool              // the link is up, as last told
	gone    atomic.Bool              // closed
	mail    atomic.Pointer[linkSlot] // a stack of slots that were answered

	// Line rate: when what was sent has left, and how long a byte takes.
	txFree   atomic.Int64 // in parts of a nanosecond (paceUnit)
	byteTime float64      // the same
	slack    int64        // how far it may be ahead, ns

	w worker
}

func newDevice(f *Fabric, id, rank uint64, o Options) *Device {
	d := &Device{
		fabric: f, id: id, rank: rank, opts: o, mtu: f.opts.MTU,
		pds:      newTable[protectionDomain](0, o.MaxPDs),
		uars:     newTable[uarPage](0, MaxUARs),
		mrs:      newTable[memoryRegion](1, o.MaxMRs+1),
		ahs:      newTable[addressHandle](0, o.MaxAHs),
		cntrs:    newTable[eventCounter](1, o.MaxCounters+1),
		ahByPeer: map[peerKey]*addressHandle{},
		qpFree:   newNumbers(o.MaxQPs),
		cqFree:   newNumbers(o.MaxCQs),
		eqFree:   newNumbers(o.MaxEQs),
		llqPages: make([]bool, o.LLQBytes/llqPage),
		llq:      o.LLQ,
	}
	d.placer, _ = o.Memory.(Placer)
	if d.llq == nil {
		d.llq = make([]byte, o.LLQBytes)
	}
	if o.LineRate > 0 {
		d.byteTime = 8 * paceUnit / o.LineRate
		d.slack = max(paceSlack, int64(pacePackets*float64(d.mtu)*8/o.LineRate))
	}
	d.link.Store(true)
	d.faults.onLink = d.linkChanged
	d.w.start(d)
	return d
}

// GID is the device's address.
func (d *Device) GID() wire.GID { return d.opts.GID }

// Name is what errors call the device.
func (d *Device) Name() string { return d.opts.Name }

// LLQ is the device memory behind BAR 2. Send rings lie in it, where CreateQP
// says.
func (d *Device) LLQ() []byte { return d.llq }

// Faults injects into everything that this device sends and receives.
func (d *Device) Faults() *Faults { return &d.faults }

// Ring is a write of a doorbell: an offset in the doorbell BAR, and the value. It
// takes no lock and does not allocate; if the device sleeps it is woken. Writes
// that make no sense are counted and ignored.
func (d *Device) Ring(offset, value uint32) {
	uar, local := offset/DoorbellPage, offset%DoorbellPage
	switch {
	case offset%4 != 0:
	case local < cqDoorbell:
		i := local / 8
		if qp := d.qps[i].Load(); qp != nil && uint32(qp.uar) == uar {
			if local%8 == 0 {
				qp.sqProducer.Store(value)
			} else {
				qp.rq.producer.Store(value)
				if wire.QPState(qp.state.Load()) != wire.QPStateError {
					return // nothing to do before something arrives
				}
			}
			d.rung[i/64].Or(1 << (i % 64))
			d.wake()
			return
		}
	default:
		i := (local - cqDoorbell) / 4
		if cq := d.cqs[i].Load(); cq != nil && uint32(cq.uar) == uar {
			if value&cqArm == 0 {
				cq.consumer.Store(value)
				return
			}
			// The request stays until it is served, whatever consumer counts
			// follow it, and it is judged by the count that came with it.
			cq.armRequest.Store(value)
			d.armedCQ[i/64].Or(1 << (i % 64))
			d.wake()
			return
		}
	}
	d.stats.badDoorbells.Add(1)
}

// RingEQ is a write of the register EQ_DB: an event queue's number, and whether to
// arm it.
func (d *Device) RingEQ(value uint32) {
	n := wire.EQDBEQN.Get(value)
	if n >= maxEQs || d.eqs[n].Load() == nil {
		d.stats.badDoorbells.Add(1)
		return
	}
	if wire.EQDBArm.Get(value) != 0 {
		d.armedEQ[n/64].Or(1 << (n % 64))
		d.wake()
	}
}

// control begins a control operation. If err is nil, end it with done.
func (d *Device) control(op string) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return &StatusError{op, wire.AdminUnknownError, "the device is closed"}
	}
	return nil
}

func (d *Device) done() {
	d.mu.Unlock()
	d.raise()
}

// interrupt notes a vector to be raised.
func (d *Device) interrupt(vector uint8) {
	d.irqs[vector/64].Or(1 << (vector % 64))
	d.anyIRQ.Store(true)
}

// raise raises the vectors that were noted. No lock may be held.
func (d *Device) raise() {
	if !d.anyIRQ.Load() || !d.anyIRQ.CompareAndSwap(true, false) {
		return
	}
	for i := range d.irqs {
		set := d.irqs[i].Swap(0)
		for ; set != 0; set &= set - 1 {
			if d.opts.Interrupt != nil {
				d.opts.Interrupt(i*64 + trailing(set))
			}
		}
	}
}

func (d *Device) tell(e Event) {
	if d.opts.Event != nil {
		d.opts.Event(e)
	}
}

// Reset removes all objects, without completing anything, and starts the device
// afresh; it also ends what Fail began. Peers see it as a peer whose queue pairs
// are gone.
func (d *Device) Reset() {
	d.mu.Lock()
	d.clear()
	d.fatal = false
	d.mu.Unlock()
	d.stats.resets.Add(1)
	d.tell(Event{Kind: EventReset})
}

// Fail stops the device as a fatal error would: it moves no data, and peers find
// it unresponsive, until Reset.
func (d *Device) Fail(reason string) {
	d.mu.Lock()
	was := d.fatal
	d.fatal = true
	d.mu.Unlock()
	if !was {
		d.stats.fatal.Add(1)
		d.tell(Event{Kind: EventFatal, Reason: reason})
	}
}

func (d *Device) linkChanged(up bool) {
	if d.link.Swap(up) == up {
		return
	}
	kind := EventLinkDown
	if up {
		kind = EventLinkUp
	}
	d.tell(Event{Kind: kind})
}

// clear removes all objects. d.mu is held alone.
func (d *Device) clear() {
	for i := range d.qps {
		if qp := d.qps[i].Load(); qp != nil {
			d.dropQP(qp)
		}
	}
	for i := range d.cqs {
		if d.cqs[i].Swap(nil) != nil {
			d.cqFree.give(uint32(i))
		}
	}
	for i := range d.eqs {
		if d.eqs[i].Swap(nil) != nil {
			d.eqFree.give(uint32(i))
		}
	}
	d.cntrs.clear()
	d.mrs.clear()
	for _, ah := range d.ahs.slots {
		if ah != nil {
			ah.dead = true
		}
	}
	d.ahs.clear()
	clear(d.ahByPeer)
	d.ahGen++
	d.uars.clear()
	d.pds.clear()
}

// Close stops the device. Nothing is completed and no memory touched after it
// returns, and its goroutine has ended. It may be called again, but not from
// Options.Interrupt or Options.Event.
func (d *Device) Close() error {
	d.mu.Lock()
	first := !d.closed
	if first {
		d.clear()
		d.closed = true
		d.gone.Store(true)
	}
	d.mu.Unlock()
	if first {
		d.fabric.leave(d)
		close(d.w.quit)
	}
	<-d.w.ended
	return nil
}

// since is the device's clock: nanoseconds from an arbitrary moment.
func since() int64 { return int64(time.Since(epoch)) }

var epoch = time.Now()
