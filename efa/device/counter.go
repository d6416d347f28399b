package device

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// eventCounter is a 64-bit count that the device keeps at an address in host
// memory.
type eventCounter struct {
	uar  uint16
	addr uint64
	uses int

	mu    sync.Mutex
	value uint64
}

// attachment counts some of a queue pair's events.
type attachment struct {
	counter *eventCounter
	handle  uint32
	events  wire.CounterEvents
}

// CreateCounter makes an event counter of value 0 and gives its handle. The
// address is that of 8 bytes, aligned, which the device writes at each change.
func (d *Device) CreateCounter(uar uint16, addr uint64) (uint32, error) {
	const op = "create event counter"
	if d.opts.MaxCounters == 0 {
		return 0, unsupported(op, "the device has no event counters")
	}
	if addr == 0 || addr%8 != 0 {
		return 0, illegal(op, "address %#x is not aligned to 8 bytes", addr)
	}
	if err := d.control(op); err != nil {
		return 0, err
	}
	defer d.done()
	u := d.uars.get(uint32(uar))
	if u == nil {
		return 0, illegal(op, "no UAR %d", uar)
	}
	n, ok := d.cntrs.put(&eventCounter{uar: uar, addr: addr})
	if !ok {
		return 0, exhausted(op, "all %d event counters are in use", d.opts.MaxCounters)
	}
	u.uses++
	return n, nil
}

// DestroyCounter removes a counter that no queue pair has attached.
func (d *Device) DestroyCounter(handle uint32) error {
	const op = "destroy event counter"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	c := d.cntrs.get(handle)
	if c == nil {
		return illegal(op, "no event counter %d", handle)
	}
	if c.uses > 0 {
		return busy(op, "counter %d is attached to %d queue pairs; detach or destroy them first", handle, c.uses)
	}
	d.uars.get(uint32(c.uar)).uses--
	d.cntrs.remove(handle)
	return nil
}

// AttachCounter makes a counter count events of a queue pair, on top of those it
// counts already.
func (d *Device) AttachCounter(c wire.AttachEventCounter) error {
	const op = "attach event counter"
	return d.attachment(op, c, func(qp *queuePair, ctr *eventCounter) error {
		for i := range qp.attached {
			if qp.attached[i].counter == ctr {
				qp.attached[i].events |= c.Events
				return nil
			}
		}
		qp.attached = append(qp.attached, attachment{ctr, c.Handle, c.Events})
		ctr.uses++
		return nil
	})
}

// DetachCounter ends the counting of some of a queue pair's events.
func (d *Device) DetachCounter(c wire.AttachEventCounter) error {
	const op = "detach event counter"
	return d.attachment(op, c, func(qp *queuePair, ctr *eventCounter) error {
		for i := range qp.attached {
			a := &qp.attached[i]
			if a.counter != ctr {
				continue
			}
			if a.events &^= c.Events; a.events == 0 {
				qp.attached = append(qp.attached[:i], qp.attached[i+1:]...)
				ctr.uses--
			}
			return nil
		}
		return illegal(op, "counter %d is not attached to queue pair %d", c.Handle, qp.number)
	})
}

func (d *Device) attachment(op string, c wire.AttachEventCounter, change func(*queuePair, *eventCounter) error) error {
	if c.Type != wire.CounterAttachQPEvents || c.Events == 0 || c.Events&^allCounterEvents != 0 {
		return illegal(op, "type %d, events %#x", c.Type, c.Events)
	}
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	ctr := d.cntrs.get(c.Handle)
	if ctr == nil {
		return illegal(op, "no event counter %d", c.Handle)
	}
	qp := d.qp(c.QPHandle)
	if qp == nil {
		return illegal(op, "no queue pair with handle %#x", c.QPHandle)
	}
	return change(qp, ctr)
}

// ModifyCounter sets a counter, or adds to it.
func (d *Device) ModifyCounter(c wire.ModifyEventCounter) error {
	const op = "modify event counter"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	ctr := d.cntrs.get(c.Handle)
	if ctr == nil {
		return illegal(op, "no event counter %d", c.Handle)
	}
	d.opts.Memory.Lock()
	defer d.opts.Memory.Unlock()
	switch c.Operation {
	case wire.CounterSet:
		ctr.add(d, c.Value-ctr.value)
	case wire.CounterAdd:
		ctr.add(d, c.Value)
	default:
		return illegal(op, "operation %d", c.Operation)
	}
	return nil
}

// add adds and writes the new value. The memory is held.
func (c *eventCounter) add(d *Device, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value += n
	b := d.opts.Memory.Bytes(c.addr, 8)
	if len(b) < 8 {
		d.stats.ringFaults.Add(1)
		return
	}
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), c.value)
}

// count counts an event of the queue pair, after its completion was posted.
func (qp *queuePair) count(d *Device, e wire.CounterEvents) {
	for i := range qp.attached {
		if qp.attached[i].events&e != 0 {
			qp.attached[i].counter.add(d, 1)
		}
	}
}

// sendEvent and recvEvent name the event of a completion.
func sendEvent(op wire.IOOp, s wire.CompStatus) wire.CounterEvents {
	e := wire.CountSend
	switch op {
	case wire.IORDMARead:
		e = wire.CountRead
	case wire.IORDMAWrite:
		e = wire.CountWrite
	}
	if s != wire.CompOK {
		e <<= 1
	}
	return e
}

func recvEvent(s wire.CompStatus) wire.CounterEvents {
	if s != wire.CompOK {
		return wire.CountRecvErr
	}
	return wire.CountRecv
}
