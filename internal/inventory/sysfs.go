package inventory

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

const (
	classDir  = "sys/class/infiniband"
	uverbsDir = "sys/class/infiniband_verbs"
	netDir    = "sys/class/net"
)

// dir is a directory of sysfs. Attributes that are absent, or that the kernel
// refuses to read because they do not apply (EINVAL, ENODEV …), are nil; the
// first that we may not read is remembered.
type dir struct {
	root fs.FS
	path string
	err  *error
}

func (d dir) sub(name string) dir { return dir{d.root, path.Join(d.path, name), d.err} }

func (d dir) text(name string) *string {
	b, err := fs.ReadFile(d.root, path.Join(d.path, name))
	if err != nil {
		if errors.Is(err, fs.ErrPermission) && *d.err == nil {
			*d.err = err
		}
		return nil
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return nil
	}
	return &s
}

// number reads a number in any base that it is prefixed for.
func (d dir) number(name string) *int64 {
	s := d.text(name)
	if s == nil {
		return nil
	}
	n, err := strconv.ParseInt(*s, 0, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (d dir) int(name string) *int {
	n := d.number(name)
	if n == nil {
		return nil
	}
	return new(int(*n))
}

func (d dir) hex(name string, width int) *Hex {
	n := d.number(name)
	if n == nil {
		return nil
	}
	return hex(uint64(*n), width)
}

// code reads the number of "4: ACTIVE".
func (d dir) code(name string) *uint8 {
	s := d.text(name)
	if s == nil {
		return nil
	}
	digits, _, _ := strings.Cut(*s, ":")
	n, err := strconv.ParseUint(digits, 10, 8)
	if err != nil {
		return nil
	}
	return new(uint8(n))
}

func (d dir) link(name string) *string {
	target, err := fs.ReadLink(d.root, path.Join(d.path, name))
	if err != nil {
		return nil
	}
	return new(path.Base(target))
}

func (d dir) list(name string) []string {
	entries, err := fs.ReadDir(d.root, path.Join(d.path, name))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.SortFunc(names, natural)
	return names
}

// deviceNames lists the devices that have a directory; the error is one of
// permission, since a machine without RDMA lacks the class.
func deviceNames(root fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(root, classDir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		// A captured tree may hold a link whose target was not captured.
		if info, err := fs.Stat(root, path.Join(classDir, e.Name())); err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// sysfs reads what the kernel tells in files; false is a device without any.
func (c *collector) sysfs(d *Device) bool {
	var unreadable error
	s := dir{c.root, path.Join(classDir, d.Name), &unreadable}
	if _, err := fs.Stat(c.root, s.path); err != nil {
		return false
	}
	defer func() {
		if unreadable != nil {
			c.fail("sysfs", d.Name, 0, unreadable)
		}
	}()
	if n := s.code("node_type"); n != nil {
		d.NodeType = new(nldev.NodeType(*n).String())
	}
	d.NodeDesc = s.text("node_desc")
	d.NodeGUID = s.text("node_guid")
	d.SystemGUID = s.text("sys_image_guid")
	d.Firmware = s.text("fw_ver")
	d.BoardID = s.text("board_id")
	d.HCAType = s.text("hca_type")
	d.uverbs(c.root, &unreadable)
	d.function(s)
	for _, name := range s.list("ports") {
		if n, err := strconv.Atoi(name); err == nil {
			d.portOf(n).sysfs(s.sub("ports/"+name), or(d.NodeType, "") == iwarp)
		}
	}
	if n := len(d.Ports); n > 0 {
		d.PortCount = &n
	}
	d.interfaces(s)
	return true
}

// uverbs finds the device's user verbs device.
func (d *Device) uverbs(root fs.FS, unreadable *error) {
	class := dir{root, uverbsDir, unreadable}
	for _, name := range class.list("") {
		s := class.sub(name)
		if dev := s.text("ibdev"); dev != nil && *dev == d.Name {
			d.CharDevice = new("/dev/infiniband/" + name)
			d.UverbsABI = s.int("abi_version")
		}
	}
}

// pciAddress is compiled when it is first needed: every command would wait for it.
var pciAddress = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
})

// functionOf finds the PCI function above a class entry, "" without one: the
// entry is a link into the tree of devices, or in some captures a directory
// with a device link.
func functionOf(s dir) (address string, at dir) {
	for _, link := range []string{s.path, path.Join(s.path, "device")} {
		target, err := fs.ReadLink(s.root, link)
		if err != nil {
			continue
		}
		real := path.Join(path.Dir(link), target)
		for p := real; p != "." && p != "/"; p = path.Dir(p) {
			if pciAddress().MatchString(path.Base(p)) {
				return path.Base(p), dir{s.root, p, s.err}
			}
		}
	}
	device := s.sub("device")
	if uevent := device.text("uevent"); uevent != nil {
		for line := range strings.Lines(*uevent) {
			if a, ok := strings.CutPrefix(strings.TrimSpace(line), "PCI_SLOT_NAME="); ok {
				return a, device
			}
		}
	}
	return "", dir{}
}

func (d *Device) function(s dir) {
	address, f := functionOf(s)
	if address == "" {
		if target, err := fs.ReadLink(s.root, s.path); err == nil && strings.Contains(target, "/devices/virtual/") {
			d.Software = new(true)
		}
		return
	}
	d.Software = new(false)
	// A captured class link may point to a function that was not captured.
	if _, err := fs.Stat(f.root, f.path); err != nil {
		f = s.sub("device")
	}
	d.PCI = &PCI{
		Address:         address,
		Driver:          f.link("driver"),
		VendorID:        f.hex("vendor", 4),
		DeviceID:        f.hex("device", 4),
		SubsystemVendor: f.hex("subsystem_vendor", 4),
		SubsystemDevice: f.hex("subsystem_device", 4),
		Revision:        f.hex("revision", 2),
		Class:           f.hex("class", 6),
		LinkSpeed:       f.text("current_link_speed"),
		MaxLinkSpeed:    f.text("max_link_speed"),
		LinkWidth:       lanes(f.int("current_link_width")),
		MaxLinkWidth:    lanes(f.int("max_link_width")),
	}
	d.Driver = d.PCI.Driver
	d.Module = f.sub("driver").link("module")
	if n := f.int("numa_node"); n != nil && *n >= 0 {
		d.NUMANode = n
	}
}

// lanes drops the widths that mean that there is none to read.
func lanes(n *int) *int {
	if n == nil || *n == 0 || *n == 255 {
		return nil
	}
	return n
}

// interfaces are those that share the device's function, and those that its
// ports run on.
func (d *Device) interfaces(s dir) {
	var names []string
	if d.PCI != nil {
		names = s.list("device/net")
	}
	for _, p := range d.Ports {
		if p.Netdev != nil && !slices.Contains(names, *p.Netdev) {
			names = append(names, *p.Netdev)
		}
	}
	for _, name := range names {
		d.netdev(name).sysfs(s.root, s.err)
	}
	// The interfaces of a function number its ports from 0; the GID table of an
	// InfiniBand port names none.
	for i := range d.Ports {
		p := &d.Ports[i]
		for j := range d.Netdevs {
			n := &d.Netdevs[j]
			port := dir{s.root, path.Join(netDir, n.Name), s.err}.int("dev_port")
			switch {
			case p.Netdev != nil && *p.Netdev == n.Name, p.Netdev == nil && port != nil && *port == p.Number-1:
				n.Port = &p.Number
			}
		}
	}
}

func (n *Netdev) sysfs(root fs.FS, unreadable *error) {
	s := dir{root, path.Join(netDir, n.Name), unreadable}
	n.Index = s.int("ifindex")
	n.State = s.text("operstate")
	n.MTU = s.int("mtu")
	n.MAC = s.text("address")
	if v := s.int("speed"); v != nil && *v > 0 {
		n.Speed = v
	}
	if address, _ := functionOf(s); address != "" {
		n.PCIAddress = &address
	}
}
