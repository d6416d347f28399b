package nldev

import (
	"context"
	"errors"
	"iter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Event is one change.
type Event struct {
	Type EventType
	// Device is not told of NetdevRenamed, and Device is "" then. Of
	// DeviceRenamed it is the new name.
	Device      string
	DeviceIndex uint32
	Port        uint32 // of NetdevAttached and NetdevDetached
	// Netdev is the network device, of events that concern one and where this
	// network namespace sees it.
	Netdev      string
	NetdevIndex uint32
}

func (e *Event) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_EVENT_TYPE:
			e.Type = EventType(r.uint8())
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			e.DeviceIndex = r.uint32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			e.Device = r.text()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			e.Port = r.uint32()
		case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
			e.NetdevIndex = r.uint32()
		case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
			e.Netdev = r.text()
		}
	}
}

const opMonitor = "follow changes"

// A Monitor receives the kernel's notifications, from the moment it is opened:
// open it before listing devices, and no change falls in between. One goroutine
// may use it; Close may be called from any.
type Monitor struct {
	transport Transport
	pending   []Event
}

// Monitor subscribes to notifications. The error is ErrUnsupported where the
// kernel sends none (Linux 6.1 does not, 6.12 does): see Watch.
func (c *Client) Monitor(ctx context.Context) (*Monitor, error) {
	// Joining the group succeeds on any kernel, so the kernel has to be asked.
	system, err := c.System(ctx)
	if err != nil {
		return nil, err
	}
	if !system.Monitor {
		return nil, &Error{
			Op: opMonitor, Errno: unix.EOPNOTSUPP, Reason: "this kernel sends no notifications of RDMA devices",
			Remedy: "Linux 6.12 does; before, list the devices at intervals",
		}
	}
	transport, err := c.options.dial(opMonitor, abi.RDMA_NL_GROUP_NOTIFY)
	if err != nil {
		return nil, err
	}
	return &Monitor{transport: transport}, nil
}

// Next waits for the next event. After an error with ENOBUFS events are lost,
// and Next goes on with those that follow: list the devices anew.
func (m *Monitor) Next(ctx context.Context) (Event, error) {
	for len(m.pending) == 0 {
		datagram, err := m.transport.Receive(ctx)
		if err != nil {
			return Event{}, newError(opMonitor, "", err)
		}
		messages, err := parseMessages(datagram)
		if err != nil {
			return Event{}, newError(opMonitor, "", err)
		}
		for _, msg := range messages {
			if msg.kind != abi.RDMA_NL_GET_TYPE(abi.RDMA_NL_NLDEV, abi.RDMA_NLDEV_CMD_MONITOR) {
				continue
			}
			var e Event
			if err := decode(opMonitor, "", msg.body, e.decode); err != nil {
				return Event{}, err
			}
			m.pending = append(m.pending, e)
		}
	}
	e := m.pending[0]
	m.pending = m.pending[1:]
	return e, nil
}

// Events gives events until the context ends, which ends the loop without an
// error. Lost events are an error after which the loop goes on; any other error
// is the last.
func (m *Monitor) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := m.Next(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			if !yield(e, err) || err != nil && !errors.Is(err, unix.ENOBUFS) {
				return
			}
		}
	}
}

// Close ends the subscription, and a Next that waits with ErrClosed.
func (m *Monitor) Close() error { return m.transport.Close() }

// WatchOptions are for kernels without notifications.
type WatchOptions struct {
	// Wait returns when something may have changed, or when the context ends; it
	// is where a caller with a better source of news than a clock hooks in. Nil
	// waits for Interval.
	Wait func(context.Context) error
	// Interval between two listings; 0 is one second.
	Interval time.Duration
}

// Watch gives events on any kernel, until the context ends: from a Monitor, or
// else by comparing listings, which misses what comes and goes between two of
// them.
func (c *Client) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		monitor, err := c.Monitor(ctx)
		switch {
		case err == nil:
			defer monitor.Close()
			monitor.Events(ctx)(yield)
		case errors.Is(err, ErrUnsupported):
			c.poll(ctx, o)(yield)
		case ctx.Err() == nil:
			yield(Event{}, err)
		}
	}
}

func (c *Client) poll(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Wait == nil {
		o.Wait = func(ctx context.Context) error {
			select {
			case <-time.After(o.Interval):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return func(yield func(Event, error) bool) {
		before, err := c.snapshot(ctx)
		for err == nil {
			if err = o.Wait(ctx); err != nil {
				break
			}
			var after snapshot
			if after, err = c.snapshot(ctx); err != nil {
				break
			}
			for _, e := range before.changes(after) {
				if !yield(e, nil) {
					return
				}
			}
			before = after
		}
		if ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// A snapshot is what events are about, as one listing found it.
type snapshot struct {
	devices []Device
	links   []Link
}

func (c *Client) snapshot(ctx context.Context) (s snapshot, err error) {
	if s.devices, err = c.devices(ctx, opMonitor); err != nil {
		return snapshot{}, err
	}
	for _, d := range s.devices {
		links, err := c.linksOf(ctx, opMonitor, d)
		// A port that cannot be queried is a port without a network device; a
		// device that has just gone is for the next snapshot.
		if err != nil && ctx.Err() != nil {
			return snapshot{}, err
		}
		s.links = append(s.links, links...)
	}
	return s, nil
}

// changes are the events that lead from one snapshot to the next. The kernel's
// index stays with a device, whatever its name.
func (before snapshot) changes(after snapshot) []Event {
	var events []Event
	was, is := map[uint32]Device{}, map[uint32]Device{}
	for _, d := range before.devices {
		was[d.Index] = d
	}
	for _, d := range after.devices {
		is[d.Index] = d
	}
	type port struct{ device, port uint32 }
	netdevs := map[port]Link{}
	for _, l := range before.links {
		netdevs[port{l.DeviceIndex, l.Port}] = l
	}
	// Removals first: the next device may have the same name.
	for _, d := range before.devices {
		if _, ok := is[d.Index]; !ok {
			events = append(events, Event{Type: DeviceRemoved, Device: d.Name, DeviceIndex: d.Index})
		}
	}
	for _, d := range after.devices {
		switch old, ok := was[d.Index]; {
		case !ok:
			events = append(events, Event{Type: DeviceAdded, Device: d.Name, DeviceIndex: d.Index})
		case old.Name != d.Name:
			events = append(events, Event{Type: DeviceRenamed, Device: d.Name, DeviceIndex: d.Index})
		}
	}
	for _, l := range after.links {
		old := netdevs[port{l.DeviceIndex, l.Port}]
		e := Event{Device: l.Device, DeviceIndex: l.DeviceIndex, Port: l.Port, Netdev: l.Netdev, NetdevIndex: l.NetdevIndex}
		switch {
		case old.NetdevIndex == l.NetdevIndex && old.Netdev == l.Netdev:
			continue
		case old.NetdevIndex == l.NetdevIndex:
			e = Event{Type: NetdevRenamed, Netdev: l.Netdev, NetdevIndex: l.NetdevIndex}
		case l.Netdev == "":
			e.Type, e.Netdev, e.NetdevIndex = NetdevDetached, old.Netdev, old.NetdevIndex
		default:
			e.Type = NetdevAttached
		}
		events = append(events, e)
	}
	return events
}
