package nldev

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Opt is a value that the kernel may leave out; OK says whether it did not.
type Opt[T any] struct {
	V  T
	OK bool
}

// Some is a value that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, OK: true} }

// GUID is a 64-bit identifier in host byte order. Its text is the form of
// sysfs, 5054:00ff:fe12:3456, most significant byte first.
type GUID uint64

func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// Device is an RDMA device, what the rdma tool calls dev.
type Device struct {
	Index    uint32 // the kernel's number for it, unique in this boot
	Name     string // rxe0, efa_0, mlx5_0
	Ports    uint32 // ports are 1 to Ports; a switch has the one port 0
	NodeType NodeType
	Protocol string // of the first port: ib, roce, iw, opa, usnic; "" where it is none of these
	Firmware string // "" if there is none
	// NodeGUID and SysImageGUID are as in sysfs, files node_guid and
	// sys_image_guid.
	NodeGUID     GUID
	SysImageGUID GUID
	Caps         DeviceCaps
	// AdaptiveModeration: the driver moderates completion events dynamically
	// (DIM).
	AdaptiveModeration Opt[bool]
	// Type and Parent are of a device that hangs on another, and 0 and "" of
	// every other. Not in Linux 6.1, in 6.12.
	Type   DeviceType
	Parent string
	// NamedByUser: the name was given, not chosen by the kernel. Not in Linux
	// 6.1, in 6.12.
	NamedByUser Opt[bool]
}

func (d *Device) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			d.Index = r.uint32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			d.Name = r.text()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			d.Ports = r.uint32()
		case abi.RDMA_NLDEV_ATTR_CAP_FLAGS:
			d.Caps = DeviceCaps(r.uint64())
		case abi.RDMA_NLDEV_ATTR_FW_VERSION:
			d.Firmware = r.text()
		case abi.RDMA_NLDEV_ATTR_NODE_GUID:
			d.NodeGUID = GUID(r.uint64())
		case abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID:
			d.SysImageGUID = GUID(r.uint64())
		case abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE:
			d.NodeType = NodeType(r.uint8())
		case abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL:
			d.Protocol = r.text()
		case abi.RDMA_NLDEV_ATTR_DEV_DIM:
			d.AdaptiveModeration = Some(r.bool())
		case abi.RDMA_NLDEV_ATTR_DEV_TYPE:
			d.Type = DeviceType(r.uint8())
		case abi.RDMA_NLDEV_ATTR_PARENT_NAME:
			d.Parent = r.text()
		case abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE:
			d.NamedByUser = Some(r.uint8() == abi.RDMA_NAME_ASSIGN_TYPE_USER)
		}
	}
}

// handle is the attribute by which the kernel knows the device.
func (d Device) handle() attrs {
	return attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, d.Index)
}

// Devices lists the devices that this network namespace sees, in the kernel's
// order. None is no error.
func (c *Client) Devices(ctx context.Context) ([]Device, error) {
	return c.devices(ctx, "list devices")
}

func (c *Client) devices(ctx context.Context, op string) ([]Device, error) {
	bodies, err := c.ask(ctx, request{op: op, command: abi.RDMA_NLDEV_CMD_GET, dump: true})
	if err != nil {
		return nil, err
	}
	var devices []Device
	for _, body := range bodies {
		var d Device
		if err := decode(op, "", body, d.decode); err != nil {
			return nil, err
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Device gives one device by its name. The error is ErrNoDevice if there is
// none of that name.
func (c *Client) Device(ctx context.Context, name string) (Device, error) {
	return c.device(ctx, "read the state", name)
}

func (c *Client) device(ctx context.Context, op, name string) (Device, error) {
	devices, err := c.devices(ctx, op)
	if err != nil {
		return Device{}, err
	}
	names := make([]string, 0, len(devices))
	for _, d := range devices {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	failure := &Error{Op: op, Device: name, Errno: unix.ENODEV}
	if len(names) > 0 {
		failure.Remedy = "there are: " + strings.Join(names, ", ")
	} else {
		failure.Remedy = "this network namespace has no RDMA device: load the driver of one, or add a software one: rdma link add rxe0 type rxe netdev eth0"
	}
	return Device{}, failure
}

// forEach calls fn for the device of that name, or for every device if name is
// "", and passes over those of the latter that have gone in the meantime.
func (c *Client) forEach(ctx context.Context, op, name string, fn func(Device) error) error {
	if name != "" {
		d, err := c.device(ctx, op, name)
		if err != nil {
			return err
		}
		return fn(d)
	}
	devices, err := c.devices(ctx, op)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := fn(d); err != nil && !errors.Is(err, ErrNoDevice) {
			return err
		}
	}
	return nil
}

// RenameDevice gives a device another name. It needs CAP_NET_ADMIN.
func (c *Client) RenameDevice(ctx context.Context, name, newName string) error {
	return c.setDevice(ctx, "change the name", name, attrs(nil).text(abi.RDMA_NLDEV_ATTR_DEV_NAME, newName))
}

// SetAdaptiveModeration turns the dynamic moderation of completion events on or
// off, for completion queues created from then on. It needs CAP_NET_ADMIN.
func (c *Client) SetAdaptiveModeration(ctx context.Context, name string, on bool) error {
	return c.setDevice(ctx, "set adaptive moderation", name, attrs(nil).uint8(abi.RDMA_NLDEV_ATTR_DEV_DIM, flag(on)))
}

// SetNamespace moves a device into the network namespace that fd is open on, a
// file of /run/netns or /proc/PID/ns/net. It needs CAP_NET_ADMIN in both, and
// the exclusive mode: see System.SharedNamespaces.
func (c *Client) SetNamespace(ctx context.Context, name string, fd int) error {
	return c.setDevice(ctx, "change the network namespace", name, attrs(nil).uint32(abi.RDMA_NLDEV_NET_NS_FD, uint32(fd)))
}

func (c *Client) setDevice(ctx context.Context, op, name string, change attrs) error {
	d, err := c.device(ctx, op, name)
	if err != nil {
		return err
	}
	return c.tell(ctx, request{op: op, device: d, command: abi.RDMA_NLDEV_CMD_SET, attrs: append(d.handle(), change...)})
}

// decode runs one decoder over one answer.
func decode(op, device string, body []byte, into func(*attrReader)) error {
	r := attrReader{rest: body}
	into(&r)
	if r.err != nil {
		return newError(op, device, r.err)
	}
	return nil
}

func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}
