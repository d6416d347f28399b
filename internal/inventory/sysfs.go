package inventory

import (
	"errors"
	"io/fs"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/peerdirect/peerdirect/verbs"
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

func (p *Port) sysfs(s dir, iw bool) {
	if n := s.code("state"); n != nil {
		p.State = new(nldev.PortState(*n).String())
	}
	if n := s.code("phys_state"); n != nil {
		p.PhysicalState = new(nldev.PhysState(*n).String())
	}
	p.LinkLayer = s.text("link_layer")
	p.LID = s.hex("lid", 4)
	p.SMLID = s.hex("sm_lid", 4)
	p.LMC = s.int("lid_mask_count")
	p.SMSL = s.int("sm_sl")
	if n := s.number("cap_mask"); n != nil {
		p.Capabilities = portCaps(uint32(*n))
	}
	p.rate(s.text("rate"))
	gids := s.list("gids")
	p.GIDTable = new(len(gids))
	p.gids(s, iw)
	pkeys := s.list("pkeys")
	p.PKeyTable = new(len(pkeys))
	p.PKeys = []PKey{}
	for _, name := range pkeys {
		index, err := strconv.Atoi(name)
		if k := s.hex("pkeys/"+name, 4); k != nil && err == nil && k.Value != 0 {
			p.PKeys = append(p.PKeys, PKey{Index: index, PKey: *k})
		}
	}
}

// iwarp is the node type whose GIDs are only names.
const iwarp = "rnic"

// gids reads the used entries of the port's GID table.
func (p *Port) gids(s dir, iw bool) {
	p.GIDs = []GID{}
	for _, name := range s.list("gids") {
		index, err := strconv.Atoi(name)
		text := s.text("gids/" + name)
		if err != nil || text == nil {
			continue
		}
		addr, err := netip.ParseAddr(*text)
		if err != nil || addr == netip.IPv6Unspecified() {
			continue
		}
		g := newGID(index, addr)
		g.Netdev = s.text("gid_attrs/ndevs/" + name)
		// The kernel has one word for IB and RoCE v1; the link layer decides.
		if t := s.text("gid_attrs/types/" + name); t != nil {
			switch {
			case iw: // the kernel says IB/RoCE v1 of what is neither
			case *t == "IB/RoCE v1" && p.LinkLayer != nil && *p.LinkLayer == "InfiniBand":
				g.Type = new("IB")
			case *t == "IB/RoCE v1" && p.LinkLayer != nil && *p.LinkLayer == "Ethernet":
				g.Type = new("RoCE v1")
			default:
				g.Type = t
			}
		}
		p.GIDs = append(p.GIDs, g)
	}
	if p.Netdev == nil && len(p.GIDs) > 0 {
		p.Netdev = p.GIDs[0].Netdev
	}
}

// rate reads "100 Gb/sec (4X EDR)".
func (p *Port) rate(s *string) {
	if s == nil {
		return
	}
	number, rest, _ := strings.Cut(*s, " ")
	if gbps, err := strconv.ParseFloat(number, 64); err == nil && gbps > 0 {
		p.Rate = new(int(gbps * 1000))
	}
	if _, how, ok := strings.Cut(rest, "("); ok {
		width, speed, _ := strings.Cut(strings.TrimSuffix(how, ")"), " ")
		if n, err := strconv.Atoi(strings.TrimSuffix(width, "X")); err == nil {
			p.Width = &n
		}
		if speed != "" {
			p.SpeedName = &speed
		}
	}
	if p.Rate != nil && p.Width != nil && *p.Width > 0 {
		p.LaneRate = new(*p.Rate / *p.Width)
	}
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

func portCaps(v uint32) *Flags { return flags(uint64(v), 8, verbs.PortCaps(v).String()) }
