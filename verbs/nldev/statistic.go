package nldev

import (
	"context"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Counter is a counter that the driver keeps, under the driver's name for it.
// The values of ports are those of sysfs, directory hw_counters.
type Counter struct {
	Name  string
	Value uint64
}

func decodeCounters(into *[]Counter) func(*attrReader) {
	return func(r *attrReader) {
		var one Counter
		for r.next() {
			switch r.kind {
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:
				one.Name = r.text()
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE:
				one.Value = r.uint64()
			}
		}
		*into = append(*into, one)
	}
}

// Counters gives the hardware counters of a port, in the driver's order, without
// optional ones that are off. They include what queue pairs bound to counters
// of their own have counted. The error is ErrUnsupported if the driver has no
// such counters.
func (c *Client) Counters(ctx context.Context, device string, port uint32) ([]Counter, error) {
	const op = "read the counters"
	var counters []Counter
	err := c.askPort(ctx, op, abi.RDMA_NLDEV_CMD_STAT_GET, device, port, nil, func(r *attrReader) {
		if r.kind == abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS {
			r.each(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, decodeCounters(&counters))
		}
	})
	return counters, err
}

// CounterStatus is what can be done with a hardware counter of a port.
type CounterStatus struct {
	Name  string
	Index uint32
	// Enabled is of optional counters, which cost something while they are on.
	Enabled Opt[bool]
}

// CounterStatuses lists all hardware counters of a port, also optional ones that
// are off.
func (c *Client) CounterStatuses(ctx context.Context, device string, port uint32) ([]CounterStatus, error) {
	const op = "read the states of counters"
	var all []CounterStatus
	entry := func(r *attrReader) {
		var one CounterStatus
		for r.next() {
			switch r.kind {
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:
				one.Name = r.text()
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX:
				one.Index = r.uint32()
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC:
				one.Enabled = Some(r.bool())
			}
		}
		all = append(all, one)
	}
	err := c.askPort(ctx, op, abi.RDMA_NLDEV_CMD_STAT_GET_STATUS, device, port, nil, func(r *attrReader) {
		if r.kind == abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS {
			r.each(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, entry)
		}
	})
	return all, err
}

// CounterBinding is how a port's queue pairs come by counters of their own.
type CounterBinding struct {
	Mode CounterMode
	// By is what makes queue pairs share a counter in the automatic mode.
	By CounterCriteria
	// Optional: counters bound automatically count optional counters too. Not in
	// Linux 6.12, in 7.2.
	Optional Opt[bool]
}

// CounterBinding tells how a port's queue pairs are bound to counters.
func (c *Client) CounterBinding(ctx context.Context, device string, port uint32) (CounterBinding, error) {
	const op = "read the counter mode"
	var b CounterBinding
	about := attrs(nil).
		uint32(abi.RDMA_NLDEV_ATTR_STAT_RES, abi.RDMA_NLDEV_ATTR_RES_QP).
		uint32(abi.RDMA_NLDEV_ATTR_STAT_MODE, 0) // that it is there is the question
	err := c.askPort(ctx, op, abi.RDMA_NLDEV_CMD_STAT_GET, device, port, about, func(r *attrReader) {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_STAT_MODE:
			b.Mode = CounterMode(r.uint32())
		case abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK:
			b.By = CounterCriteria(r.uint32())
		case abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED:
			b.Optional = Some(r.bool())
		}
	})
	return b, err
}

// askPort asks about one port and hands each attribute of the answer to attr.
func (c *Client) askPort(ctx context.Context, op string, command uint16, device string, port uint32, about attrs, attr func(*attrReader)) error {
	d, err := c.device(ctx, op, device)
	if err != nil {
		return err
	}
	if port > d.Ports || port == 0 && d.NodeType != NodeSwitch {
		return Filter{Device: device, Port: port}.noPort(op, d)
	}
	bodies, err := c.ask(ctx, request{
		op: op, device: d, command: command,
		attrs:   append(d.handle().uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, port), about...),
		invalid: "this driver has no such counters",
	})
	if err != nil {
		return err
	}
	for _, body := range bodies {
		err := decode(op, d.Name, body, func(r *attrReader) {
			for r.next() {
				attr(r)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// QPCounter is a set of counters of its own that queue pairs are bound to.
type QPCounter struct {
	Object // the owner is there where queue pairs are bound by process
	Port   uint32
	ID     uint32
	Mode   CounterMode
	// QPType is what the queue pairs have in common, where they are bound by type.
	QPType   Opt[QPType]
	QPs      []uint32 // local queue pair numbers
	Counters []Counter
}

func (q *QPCounter) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
		q.Port = r.uint32()
	case abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
		q.ID = r.uint32()
	case abi.RDMA_NLDEV_ATTR_STAT_MODE:
		q.Mode = CounterMode(r.uint32())
	case abi.RDMA_NLDEV_ATTR_RES_TYPE:
		q.QPType = Some(QPType(r.uint8()))
	case abi.RDMA_NLDEV_ATTR_RES_QP:
		r.each(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, func(r *attrReader) {
			for r.next() {
				if r.kind == abi.RDMA_NLDEV_ATTR_RES_LQPN {
					q.QPs = append(q.QPs, r.uint32())
				}
			}
		})
	case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
		r.each(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, decodeCounters(&q.Counters))
	}
}

// QPCounters lists the counters that queue pairs are bound to.
func (c *Client) QPCounters(ctx context.Context, f Filter) ([]QPCounter, error) {
	return list[QPCounter](ctx, c, kind{
		name: "queue pair counters", command: abi.RDMA_NLDEV_CMD_STAT_GET, about: abi.RDMA_NLDEV_ATTR_RES_QP,
		table: abi.RDMA_NLDEV_ATTR_STAT_COUNTER, entry: abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, id: abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
		perPort: true,
	}, f)
}

// MRCounters are the counters of one memory region: page faults and the like,
// of a driver that pages on demand. Others have none, which is no error.
type MRCounters struct {
	Object
	MRN      uint32
	Counters []Counter
}

func (m *MRCounters) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_RES_MRN:
		m.MRN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
		r.each(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, decodeCounters(&m.Counters))
	}
}

// MRCounters lists the counters of memory regions. The kernel does not name
// their owners here: MRs does, by MRN.
func (c *Client) MRCounters(ctx context.Context, f Filter) ([]MRCounters, error) {
	return list[MRCounters](ctx, c, kind{
		name: "memory region counters", command: abi.RDMA_NLDEV_CMD_STAT_GET, about: abi.RDMA_NLDEV_ATTR_RES_MR,
		table: abi.RDMA_NLDEV_ATTR_RES_MR, entry: abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_MRN,
	}, f)
}
