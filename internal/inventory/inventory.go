// Package inventory gathers what a machine knows of its RDMA devices: sysfs,
// the RDMA netlink and libibverbs, each of which tells what the others do not.
//
// A value that no source told is nil, and null in JSON: zero is always a zero
// that was reported. A source that fails for one device costs that device's
// values only, and is named under Problems.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/uname"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// Schema names the form of an Inventory in JSON; it changes when a field does.
const Schema = "peerdirect.devices/1"

// Classes of errors, for errors.Is.
var (
	ErrNoDevice = error(syscall.ENODEV)
	// ErrNoPort: the devices that were asked for lack the port.
	ErrNoPort = errors.New("no such port")
	// ErrNoLibrary: rdma-core is not installed. The inventory that comes with it
	// holds what the kernel tells.
	ErrNoLibrary = errors.New("rdma-core is not installed")
)

// Error is a part of the inventory that could not be had.
type Error struct {
	Part   string // sysfs, netlink, verbs
	Device string // "" where no single device is concerned
	Port   int    // 0 where no single port is
	Err    error
}

func (e *Error) Error() string {
	where := ""
	if e.Device != "" {
		where = e.Device
		if e.Port != 0 {
			where += fmt.Sprintf("/%d", e.Port)
		}
		where += ": "
	}
	return fmt.Sprintf("%s%s: %v", where, e.Part, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Options choose what is gathered. The zero value is everything of this
// machine.
type Options struct {
	Device string // a device's name; "" is every device
	Port   int    // a port's number; 0 is every port
	// Root is a captured system to read instead of this machine: then sysfs is
	// the only source.
	Root fs.FS
	// Brief leaves out the lists of objects (queue pairs and the like).
	Brief bool
}

// Collect gathers. The inventory holds whatever could be had, the error joins
// what could not; without any device, or without the one asked for, it is
// ErrNoDevice.
func Collect(ctx context.Context, o Options) (Inventory, error) {
	inv := Inventory{Schema: Schema, Devices: []Device{}, Problems: []Problem{}}
	c := &collector{options: o, root: o.Root}
	defer c.close()
	if o.Root == nil {
		c.root = os.DirFS("/")
		c.live = true
		if release := uname.Release(); release != "" {
			inv.Kernel = &release
		}
	}
	c.open(ctx, &inv)
	names, err := c.names(ctx)
	if err != nil {
		return inv, err
	}
	if len(names) == 0 {
		return inv, c.nothing()
	}
	if o.Device != "" {
		if !slices.Contains(names, o.Device) {
			return inv, &missing{name: o.Device, there: names}
		}
		names = []string{o.Device}
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return inv, err
		}
		if d, ok := c.device(ctx, name); ok {
			inv.Devices = append(inv.Devices, d)
		}
	}
	if err := inv.keepPort(o.Port); err != nil {
		return inv, err
	}
	failed := make([]error, 0, len(c.failed))
	for _, e := range c.failed {
		inv.Problems = append(inv.Problems, e.problem())
		failed = append(failed, e)
	}
	return inv, errors.Join(failed...)
}

// keepPort drops every port but one; devices that lack it are dropped whole.
func (inv *Inventory) keepPort(port int) error {
	if port == 0 {
		return nil
	}
	var kept []Device
	var ranges []string
	for _, d := range inv.Devices {
		i := slices.IndexFunc(d.Ports, func(p Port) bool { return p.Number == port })
		if i >= 0 {
			d.Ports = d.Ports[i : i+1]
			d.Resources.keepPort(port)
			kept = append(kept, d)
		} else if n := len(d.Ports); n > 0 {
			ranges = append(ranges, fmt.Sprintf("%s has %s", d.Name, portRange(d.Ports[0].Number, d.Ports[n-1].Number)))
		} else {
			ranges = append(ranges, d.Name+" has no ports")
		}
	}
	if len(kept) == 0 {
		inv.Devices = []Device{}
		return fmt.Errorf("%w %d: %s", ErrNoPort, port, strings.Join(ranges, ", "))
	}
	inv.Devices = kept
	return nil
}

func portRange(first, last int) string {
	if first == last {
		return fmt.Sprintf("port %d", first)
	}
	return fmt.Sprintf("ports %d to %d", first, last)
}

// collector holds the sources while they are asked.
type collector struct {
	options Options
	root    fs.FS
	live    bool
	netlink *nldev.Client
	library bool // libibverbs is there
	listed  map[string]nldev.Device
	seen    map[string]verbs.DeviceInfo
	noRDMA  error // why the kernel has none
	failed  []*Error
}

func (c *collector) fail(part, device string, port int, err error) {
	c.failed = append(c.failed, &Error{Part: part, Device: device, Port: port, Err: err})
}

func (c *collector) open(ctx context.Context, inv *Inventory) {
	if !c.live {
		return
	}
	client, err := nldev.Open()
	if err == nil {
		c.netlink = client
		if s, err := client.System(ctx); err == nil {
			inv.System = &System{
				SharedNamespaces: s.SharedNamespaces, CopyOnFork: s.CopyOnFork,
				PrivilegedQKey: s.PrivilegedQKey, Monitor: s.Monitor,
			}
		} else {
			c.fail("netlink", "", 0, err)
		}
	} else {
		c.noRDMA = err
	}
	path, err := verbs.Library()
	if err != nil {
		c.fail("verbs", "", 0, noLibrary(err))
		return
	}
	c.library = true
	inv.Library = &path
}

// noLibrary tells a missing libibverbs from one that cannot be used.
func noLibrary(err error) error {
	if !errors.Is(err, ErrNoDevice) {
		return err
	}
	return fmt.Errorf("%w (no libibverbs.so.1): install libibverbs1 and ibverbs-providers%w", ErrNoLibrary, quiet{err})
}

func (c *collector) close() {
	if c.netlink != nil {
		c.netlink.Close()
	}
}

// device gathers one device; false is a device that has gone meanwhile.
func (c *collector) device(ctx context.Context, name string) (Device, bool) {
	d := Device{Name: name, Netdevs: []Netdev{}, Ports: []Port{}}
	there := c.sysfs(&d)
	if c.netlink != nil {
		there = c.fromNetlink(ctx, &d) || there
	}
	if info, ok := c.seen[name]; ok {
		there = true
		c.fromVerbs(&d, info)
	}
	for i := range d.Ports {
		d.Ports[i].choose()
	}
	return d, there
}

// Split takes the error of Collect apart.
func Split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
