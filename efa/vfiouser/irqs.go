package vfiouser

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Flags of vfio_irq_info.
const (
	irqEventFD  = 1
	irqNoResize = 8
)

func (c *session) irqInfo() error {
	if len(c.body) != irqInfoSize || le.Uint32(c.body) < irqInfoSize || len(c.fds) > 0 {
		return syscall.EINVAL
	}
	index := le.Uint32(c.body[8:])
	if index >= numInterrupts {
		return syscall.EINVAL
	}
	count := c.device.Interrupts(int(index))
	var flags uint32
	if count > 0 {
		// Clients of the kernel's VFIO set vectors up as a whole; told so
		// (NORESIZE), QEMU disables them all before it adds one.
		flags = irqEventFD | irqNoResize
	}
	c.out = le.AppendUint32(c.out, irqInfoSize)
	c.out = le.AppendUint32(c.out, flags)
	c.out = le.AppendUint32(c.out, index)
	c.out = le.AppendUint32(c.out, uint32(count))
	return nil
}

// Flags of vfio_irq_set: one that tells the data, one that tells the action.
const (
	irqDataNone      = 1 << 0
	irqDataBool      = 1 << 1
	irqDataEventFD   = 1 << 2
	irqActionTrigger = 1 << 5
)

func (c *session) setIRQs() error {
	if len(c.body) < setIRQsSize || le.Uint32(c.body) < setIRQsSize {
		return syscall.EINVAL
	}
	flags, index := le.Uint32(c.body[4:]), le.Uint32(c.body[8:])
	start, count := le.Uint32(c.body[12:]), le.Uint32(c.body[16:])
	data := c.body[setIRQsSize:]
	if index >= numInterrupts {
		return syscall.EINVAL
	}
	total := c.device.Interrupts(int(index))
	if uint64(start)+uint64(count) > uint64(total) {
		return syscall.EINVAL
	}
	table := &c.server.interrupts
	switch flags {
	case irqDataNone | irqActionTrigger:
		if len(data) > 0 || len(c.fds) > 0 {
			return syscall.EINVAL
		}
		if count == 0 {
			table.clear(int(index))
			return nil
		}
		for v := range count {
			table.fire(int(index), int(start+v))
		}
	case irqDataBool | irqActionTrigger:
		if uint64(len(data)) != uint64(count) || len(c.fds) > 0 {
			return syscall.EINVAL
		}
		for v, want := range data {
			if want != 0 {
				table.fire(int(index), int(start)+v)
			}
		}
	case irqDataEventFD | irqActionTrigger:
		return c.assignIRQs(int(index), total, int(start), int(count), len(data))
	default:
		// Masks are not offered: the client masks MSI-X itself.
		return syscall.EINVAL
	}
	return nil
}

// assignIRQs gives count vectors the eventfds of the message, or, if it brought
// none, takes theirs away.
func (c *session) assignIRQs(index, total, start, count, data int) error {
	if data > 0 || (len(c.fds) != count && len(c.fds) != 0) {
		return syscall.EINVAL
	}
	fds := make([]int, count)
	for i := range fds {
		fds[i] = -1
	}
	for i, fd := range c.fds {
		// The device must never wait for its client.
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		fds[i] = fd
	}
	c.fds = c.fds[:0] // the table's now
	c.server.interrupts.assign(index, total, start, fds)
	return nil
}
