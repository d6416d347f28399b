package nldev

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Filter chooses objects. The zero value chooses all that the kernel shows by
// default.
type Filter struct {
	// Device is a device's name; "" is every device.
	Device string
	// Port keeps the queue pairs, connection ids and queue pair counters of one
	// port; 0 keeps all, also those without a port. Other objects belong to no
	// port and pass.
	Port uint32
	// PID keeps the objects of a process, or of a thread; 0 keeps all.
	PID uint32
	// DriverDetails adds the objects that drivers make for their own needs. Not in
	// Linux 6.1, in 6.12.
	DriverDetails bool
}

// Object is what every object has.
type Object struct {
	Device      string
	DeviceIndex uint32
	Owner       Owner
	// Driver is what the driver adds, in the driver's words and order.
	Driver []DriverValue
}

// DriverValue is a value that only the driver can explain.
type DriverValue struct {
	Name  string
	Value any  // int32, uint32, int64, uint64 or string
	Hex   bool // best shown in hexadecimal
}

func (v DriverValue) String() string {
	if v.Hex {
		return fmt.Sprintf("%s 0x%x", v.Name, v.Value)
	}
	return fmt.Sprintf("%s %v", v.Name, v.Value)
}

// object makes what embeds an Object an object of list.
func (o *Object) object() *Object { return o }

// decodeAny reads an attribute that every object may have.
func (o *Object) decodeAny(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_RES_PID:
		o.Owner.TID = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_KERN_NAME:
		o.Owner.Kernel, o.Owner.Comm = true, r.text()
	case abi.RDMA_NLDEV_ATTR_DRIVER:
		r.nested(o.decodeDriver)
	}
}

// decodeDriver reads a driver's table. It is flat: a name, perhaps how to show
// the value, then the value. (The header also numbers an entry to wrap these in,
// which no driver uses.)
func (o *Object) decodeDriver(r *attrReader) {
	var (
		v     DriverValue
		named bool
	)
	value := func(x any) {
		if named {
			v.Value = x
			o.Driver = append(o.Driver, v)
		}
		v, named = DriverValue{}, false
	}
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_DRIVER_STRING:
			// A name, or after a name a value.
			if named {
				value(r.text())
			} else {
				v.Name, named = r.text(), true
			}
		case abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE:
			v.Hex = r.uint8() == abi.RDMA_NLDEV_PRINT_TYPE_HEX
		case abi.RDMA_NLDEV_ATTR_DRIVER_S32:
			value(int32(r.uint32()))
		case abi.RDMA_NLDEV_ATTR_DRIVER_U32:
			value(r.uint32())
		case abi.RDMA_NLDEV_ATTR_DRIVER_S64:
			value(int64(r.uint64()))
		case abi.RDMA_NLDEV_ATTR_DRIVER_U64:
			value(r.uint64())
		}
	}
}

// A kind is a sort of object: how to ask for it, and where it is in the answer.
type kind struct {
	name    string // plural
	command uint16
	about   uint32 // the sort, where the command has several: RDMA_NLDEV_ATTR_STAT_RES
	table   uint16
	entry   uint16
	id      uint16 // the attribute that every entry has
	perPort bool   // the kernel takes a port to filter by
	invalid string // see request.invalid; "" is that the kernel does not list them
}

// An object decodes the attributes of its kind one by one.
type object[T any] interface {
	*T
	decodeAttr(*attrReader)
	object() *Object
}

// list dumps all objects of a kind that the filter keeps.
func list[T any, P object[T]](ctx context.Context, c *Client, k kind, f Filter) ([]T, error) {
	op := "list " + k.name
	if k.invalid == "" {
		k.invalid = "this kernel does not list " + k.name
	}
	var found []T
	processes := owners{root: c.options.Root}
	err := c.forEach(ctx, op, f.Device, func(d Device) error {
		if f.Port > d.Ports {
			return f.noPort(op, d)
		}
		bodies, err := c.ask(ctx, request{op: op, device: d, command: k.command, dump: true, attrs: k.request(d, f), invalid: k.invalid})
		if err != nil {
			return err
		}
		entry := func(r *attrReader) {
			one := P(new(T))
			*one.object() = Object{Device: d.Name, DeviceIndex: d.Index}
			identified := false // the kernel leaves the entry of its own context empty
			for r.next() {
				identified = identified || r.kind == k.id
				one.object().decodeAny(r)
				one.decodeAttr(r)
			}
			owner := &one.object().Owner
			processes.complete(owner)
			if identified && (f.PID == 0 || f.PID == owner.PID || f.PID == owner.TID) {
				found = append(found, *one)
			}
		}
		for _, body := range bodies {
			err := decode(op, d.Name, body, func(r *attrReader) {
				for r.next() {
					if r.kind == k.table {
						r.each(k.entry, entry)
					}
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// noPort is an error where the filter names the device, and none where other
// devices may have the port.
func (f Filter) noPort(op string, d Device) error {
	if f.Device == "" {
		return nil
	}
	return &Error{
		Op: op, Device: d.Name, Errno: unix.EINVAL,
		Reason: fmt.Sprintf("it has no port %d", f.Port),
		Remedy: fmt.Sprintf("the last is %d", d.Ports),
	}
}

func (k kind) request(d Device, f Filter) attrs {
	a := d.handle()
	if k.about != 0 {
		a = a.uint32(abi.RDMA_NLDEV_ATTR_STAT_RES, k.about)
	}
	if k.perPort && f.Port != 0 {
		a = a.uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, f.Port)
	}
	if f.DriverDetails {
		a = a.uint8(abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, 1)
	}
	return a
}

// Summary is how many objects a device has, and how many it can have.
type Summary struct {
	Device      string
	DeviceIndex uint32
	Counts      []Count // in the kernel's order
}

// Count is of one kind of object: pd, cq, qp, cm_id, mr, ctx, srq, comp_cntr.
type Count struct {
	Kind string
	N    uint64
	// Max is the most that the device has room for, 0 where the kernel does not
	// say. Not in Linux 7.2, in 7.3.
	Max uint64
}

// Of gives the count of a kind, 0 for a kind that the kernel does not count.
func (s Summary) Of(kind string) uint64 {
	for _, c := range s.Counts {
		if c.Kind == kind {
			return c.N
		}
	}
	return 0
}

func (s *Summary) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			s.DeviceIndex = r.uint32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			s.Device = r.text()
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY:
			r.each(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, func(r *attrReader) {
				var n Count
				for r.next() {
					switch r.kind {
					case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:
						n.Kind = r.text()
					case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR:
						n.N = r.uint64()
					case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX:
						n.Max = r.uint64()
					}
				}
				s.Counts = append(s.Counts, n)
			})
		}
	}
}

// Summary counts the objects of a device, or of every device if device is "".
func (c *Client) Summary(ctx context.Context, device string) ([]Summary, error) {
	const op = "count objects"
	var summaries []Summary
	err := c.forEach(ctx, op, device, func(d Device) error {
		bodies, err := c.ask(ctx, request{op: op, device: d, command: abi.RDMA_NLDEV_CMD_RES_GET, attrs: d.handle(), invalid: "this kernel does not count objects"})
		if err != nil {
			return err
		}
		for _, body := range bodies {
			var s Summary
			if err := decode(op, d.Name, body, s.decode); err != nil {
				return err
			}
			summaries = append(summaries, s)
		}
		return nil
	})
	return summaries, err
}
