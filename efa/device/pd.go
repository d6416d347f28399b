package device

import "math/bits"

// protectionDomain counts what is in it: regions, queue pairs, address handles.
type protectionDomain struct{ uses int }

// uarPage is a page of the doorbell BAR, and counts the queues rung through it.
type uarPage struct{ uses int }

// AllocPD makes a protection domain and gives its number.
func (d *Device) AllocPD() (uint16, error) {
	const op = "alloc PD"
	if err := d.control(op); err != nil {
		return 0, err
	}
	defer d.done()
	n, ok := d.pds.put(&protectionDomain{})
	if !ok {
		return 0, exhausted(op, "all %d protection domains are in use", d.opts.MaxPDs)
	}
	return uint16(n), nil
}

// DeallocPD removes a protection domain, which must be empty.
func (d *Device) DeallocPD(pd uint16) error {
	const op = "dealloc PD"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	p := d.pds.get(uint32(pd))
	if p == nil {
		return illegal(op, "no PD %d", pd)
	}
	if p.uses > 0 {
		return busy(op, "%d objects are in PD %d; destroy them first", p.uses, pd)
	}
	d.pds.remove(uint32(pd))
	return nil
}

// AllocUAR makes a page of doorbells and gives its number.
func (d *Device) AllocUAR() (uint16, error) {
	const op = "alloc UAR"
	if err := d.control(op); err != nil {
		return 0, err
	}
	defer d.done()
	n, ok := d.uars.put(&uarPage{})
	if !ok {
		return 0, exhausted(op, "all %d doorbell pages are in use", MaxUARs)
	}
	return uint16(n), nil
}

// DeallocUAR removes a page of doorbells, which no queue may use any more.
func (d *Device) DeallocUAR(uar uint16) error {
	const op = "dealloc UAR"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	u := d.uars.get(uint32(uar))
	if u == nil {
		return illegal(op, "no UAR %d", uar)
	}
	if u.uses > 0 {
		return busy(op, "%d queues use UAR %d; destroy them first", u.uses, uar)
	}
	d.uars.remove(uint32(uar))
	return nil
}

// numbers hands out the numbers below a limit, each again only after all others.
type numbers struct{ free []uint32 }

func newNumbers(limit int) numbers {
	n := numbers{free: make([]uint32, limit)}
	for i := range n.free {
		n.free[i] = uint32(i)
	}
	return n
}

func (n *numbers) take() (uint32, bool) {
	if len(n.free) == 0 {
		return 0, false
	}
	x := n.free[0]
	n.free = n.free[1:]
	return x, true
}

func (n *numbers) give(x uint32) { n.free = append(n.free, x) }

func trailing(set uint64) int { return bits.TrailingZeros64(set) }

func powerOfTwo(n uint32) bool { return n != 0 && n&(n-1) == 0 }
