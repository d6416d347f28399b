package nldev

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Link is a port of a device, what the rdma tool calls link.
type Link struct {
	Device      string
	DeviceIndex uint32
	Port        uint32
	State       PortState
	PhysState   PhysState
	// Netdev is the network device of a RoCE or iWARP port, "" and 0 where there
	// is none or it lives in another network namespace.
	Netdev      string
	NetdevIndex uint32
	// IB is of ports that speak InfiniBand, Omni-Path included.
	IB Opt[IBLink]
}

// IBLink is what only an InfiniBand port has.
type IBLink struct {
	LID          uint32 // 16 bits, 32 on Omni-Path
	SMLID        uint32
	LMC          uint8 // the port answers to 2^LMC LIDs
	SubnetPrefix GUID  // the upper half of the port's GIDs
	Caps         PortCaps
}

// Name is the link's name in the rdma tool: rxe0/1.
func (l Link) Name() string { return fmt.Sprintf("%s/%d", l.Device, l.Port) }

func (l *Link) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			l.DeviceIndex = r.uint32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			l.Device = r.text()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			l.Port = r.uint32()
		case abi.RDMA_NLDEV_ATTR_PORT_STATE:
			l.State = PortState(r.uint8())
		case abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE:
			l.PhysState = PhysState(r.uint8())
		case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
			l.NetdevIndex = r.uint32()
		case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
			l.Netdev = r.text()
		case abi.RDMA_NLDEV_ATTR_CAP_FLAGS:
			l.IB.OK, l.IB.V.Caps = true, PortCaps(r.uint64())
		case abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX:
			l.IB.OK, l.IB.V.SubnetPrefix = true, GUID(r.uint64())
		case abi.RDMA_NLDEV_ATTR_LID:
			l.IB.OK, l.IB.V.LID = true, r.uint32()
		case abi.RDMA_NLDEV_ATTR_SM_LID:
			l.IB.OK, l.IB.V.SMLID = true, r.uint32()
		case abi.RDMA_NLDEV_ATTR_LMC:
			l.IB.OK, l.IB.V.LMC = true, r.uint8()
		}
	}
}

// Links lists the ports of a device, or of every device if device is "". Where
// a driver cannot answer for a port, the others are returned with the error.
func (c *Client) Links(ctx context.Context, device string) ([]Link, error) {
	const op = "list links"
	var (
		links  []Link
		failed []error
	)
	err := c.forEach(ctx, op, device, func(d Device) error {
		some, err := c.linksOf(ctx, op, d)
		links = append(links, some...)
		if err == nil || errors.Is(err, ErrNoDevice) || ctx.Err() != nil {
			return err
		}
		failed = append(failed, err)
		return nil
	})
	return links, errors.Join(append(failed, err)...)
}

// linksOf asks port by port, since a dump leaves out, silently, the port that a
// driver cannot query and every later one.
func (c *Client) linksOf(ctx context.Context, op string, d Device) (links []Link, err error) {
	first, last := uint32(1), d.Ports
	if d.NodeType == NodeSwitch {
		first, last = 0, 0
	}
	for port := first; port <= last && ctx.Err() == nil; port++ {
		l, failed := c.link(ctx, op, d, port)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		links = append(links, l)
	}
	return links, err
}

func (c *Client) link(ctx context.Context, op string, d Device, port uint32) (Link, error) {
	bodies, err := c.ask(ctx, request{
		op: op, device: d, command: abi.RDMA_NLDEV_CMD_PORT_GET,
		attrs:   d.handle().uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, port),
		invalid: fmt.Sprintf("it has no port %d", port),
	})
	if err != nil {
		return Link{}, err
	}
	var l Link
	for _, body := range bodies {
		if err := decode(op, d.Name, body, l.decode); err != nil {
			return Link{}, err
		}
	}
	return l, nil
}

// AddLink makes a software device called name, of a kind such as rxe or siw, on
// a network device. The kernel loads the kind's module if it can. It needs
// CAP_NET_ADMIN.
func (c *Client) AddLink(ctx context.Context, name, kind, netdev string) error {
	err := c.tell(ctx, request{
		op: "add the link", device: Device{Name: name}, command: abi.RDMA_NLDEV_CMD_NEWLINK,
		attrs: attrs(nil).
			text(abi.RDMA_NLDEV_ATTR_DEV_NAME, name).
			text(abi.RDMA_NLDEV_ATTR_LINK_TYPE, kind).
			text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, netdev),
	})
	var failure *Error
	if !errors.As(err, &failure) || failure.Reason != "" {
		return err
	}
	switch failure.Errno {
	case unix.ENODEV:
		failure.Reason = "there is no network device " + netdev
		failure.Remedy = "see: ip link"
	case unix.EINVAL:
		failure.Reason = "the kernel has no kind " + kind + ", or refuses the name"
		failure.Remedy = "load the kind: modprobe rdma_rxe, or siw"
	case unix.EEXIST, unix.ENFILE:
		failure.Reason = "the name is taken, or " + netdev + " has such a link"
		failure.Remedy = "see: rdma link"
	}
	return err
}

// DelLink removes a software device. The kernel waits for the device's users to
// let go of it; a context ends our wait, not the kernel's. It needs
// CAP_NET_ADMIN.
func (c *Client) DelLink(ctx context.Context, name string) error {
	const op = "delete the link"
	d, err := c.device(ctx, op, name)
	if err != nil {
		return err
	}
	err = c.tell(ctx, request{op: op, device: d, command: abi.RDMA_NLDEV_CMD_DELLINK, attrs: d.handle()})
	var failure *Error
	if !errors.As(err, &failure) {
		return err
	}
	switch failure.Errno {
	case unix.EINVAL:
		failure.Reason = "it is not a software device"
		failure.Remedy = "only links that were added can be deleted: unbind the driver of others"
	case unix.ETIMEDOUT:
		failure.Reason = "the kernel goes on, waiting for the device's users"
		failure.Remedy = "end the processes that have it open"
	}
	return err
}
