package pci

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// P2PSource is what the answers of P2P were read from.
const P2PSource = "drivers/pci/p2pdma.c of Debian's linux-source-7.3 7.3.4-1~bpo13+1 and linux-source-6.12 6.12.117-1"

// P2P is whether the kernel lets one device reach another's memory.
type P2P struct {
	Allowed   Tri
	Through   Way
	Bridge    *Device   // the lowest one above both; nil is none
	Redirects []*Device // on the path: their access control sends requests or completions up to the root
	Reason    string    // a sentence without its stop
}

// Way is what peer-to-peer traffic goes through.
type Way string

const (
	WayUnknown    Way = ""
	WayFunction   Way = "function"    // the two are one
	WayBridge     Way = "bridge"      // it turns at a bridge above both
	WayHostBridge Way = "host bridge" // it goes up to the root complex, at the least
)

// P2P tells whether the kernel's peer-to-peer DMA would let client reach memory of
// provider, as P2PSource decides. A kernel built without CONFIG_PCI_P2PDMA lets none
// (Debian has it off in 6.1 and 6.12); where Platform.P2PDMA is unknown a yes is one
// if the kernel has it, and Reason says so. A driver that does not ask the kernel is
// not bound by it. Kernels before 7.3 are judged by 6.12, later ones by 7.3.
//
// A bridge above both will do unless access control redirects on the path, at the
// devices themselves, at that bridge or between. Otherwise the processor has to be
// AMD's of family 17h or later, or the host bridges of a list.
func (t *Topology) P2P(provider, client *Device) P2P {
	if provider == nil || client == nil {
		return P2P{Reason: "there are no two devices"}
	}
	p := t.peers(provider, client)
	const option = "CONFIG_PCI_P2PDMA"
	switch {
	case t.Platform.P2PDMA == No:
		p.Allowed, p.Reason = No, "the kernel is built without "+option+"; besides, "+p.Reason
	case t.Platform.P2PDMA == Unknown && p.Allowed == Yes:
		p.Reason += ", if the kernel is built with " + option
	}
	return p
}

// peers is P2P for a kernel that has it.
func (t *Topology) peers(provider, client *Device) P2P {
	path, bridge := between(provider, client)
	p := P2P{Bridge: bridge}
	if bridge == nil {
		p.Through = WayHostBridge
		var why string
		p.Allowed, why = t.hostAllows(provider, client)
		p.Reason = "no bridge is above both, and " + why
		return p
	}
	var dark []*Device
	for _, d := range path {
		if d.ACS != nil && d.ACS.Control&(ACSRequestRedirect|ACSCompletionRedirect|ACSEgressControl) != 0 {
			p.Redirects = append(p.Redirects, d)
		} else if d.ACS == nil && !d.ACSKnown {
			dark = append(dark, d)
		}
	}
	turn := "bridge " + bridge.Address.String() + " is above both"
	p.Through = WayBridge
	if provider == client {
		turn, p.Through, p.Bridge = "they are one function", WayFunction, nil
	}
	switch {
	case len(p.Redirects) > 0:
		host, why := t.hostAllows(provider, client)
		p.Allowed, p.Through = host, WayHostBridge
		p.Reason = "access control redirects to the root at " + addresses(p.Redirects) + ", and " + why
	case len(dark) > 0:
		p.Reason = turn + ", and whether access control redirects could not be read at " + addresses(dark)
		p.Through = WayUnknown
		if host, why := t.hostAllows(provider, client); host == Yes {
			p.Allowed, p.Reason = Yes, p.Reason+"; either way, "+why
		}
	default:
		p.Allowed, p.Reason = Yes, turn+" and nothing on the path redirects"
	}
	return p
}

// between gives the functions from provider up to the lowest that client is at or
// below, and from client up to just beneath that; without one, nil.
func between(provider, client *Device) (path []*Device, bridge *Device) {
	up, down := upwards(provider), upwards(client)
	for i, a := range up {
		for j, b := range down {
			if a == b {
				return slices.Concat(up[:i+1], down[:j]), a
			}
		}
	}
	return nil, nil
}

// upwards gives a function and the bridges above it. A virtual function is where its
// physical one is.
func upwards(d *Device) (path []*Device) {
	const deepest = 256 // there are no more buses; a made up tree might have a loop
	for d != nil && len(path) < deepest {
		path = append(path, d)
		if d.PF != nil {
			d = d.PF
		}
		d = d.Parent
	}
	return path
}

// addresses names some devices.
func addresses(devices []*Device) string {
	const most = 4
	var names []string
	for _, d := range devices[:min(len(devices), most)] {
		names = append(names, d.Address.String())
	}
	if more := len(devices) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// hostAllows tells whether the root complex is trusted to pass the traffic on.
func (t *Topology) hostAllows(a, b *Device) (Tri, string) {
	cpu := t.zen()
	if cpu == Yes {
		return Yes, "the kernel trusts AMD's processors of family 17h and later"
	}
	ra, rb := rootOf(a), rootOf(b)
	if ra == nil || rb == nil {
		return Unknown, "their root complex is unknown"
	}
	verdict, why := t.listed(ra, ra == rb)
	if ra != rb {
		// Both have to be on it: a no outweighs an unknown.
		if v, w := t.listed(rb, false); verdict == Yes || verdict == Unknown && v == No {
			verdict, why = v, w
		}
	}
	if verdict == No && cpu == Unknown {
		return Unknown, why + "; the processor is unknown"
	}
	return verdict, why
}

// zen tells whether the processor alone is enough.
func (t *Topology) zen() Tri {
	switch p := &t.Platform; {
	case p.CPU == "AuthenticAMD" && p.Family >= 0x17:
		return Yes
	case p.CPU == "AuthenticAMD" && p.Family == 0, p.CPU == "" && (p.Arch == "" || p.Arch == "x86_64"):
		return Unknown
	}
	return No
}

func rootOf(d *Device) *Root {
	if d.Root == nil && d.PF != nil {
		return d.PF.Root
	}
	return d.Root
}

// hostBridge is one that the kernel trusts.
type hostBridge struct {
	vendor, device uint16
	same           bool // only between devices below one and the same
	new            bool // 7.3 has it, 6.12 has not
}

// anyDevice is every one of the vendor.
const anyDevice = 0xffff

var hostBridges = []hostBridge{
	{vendor: 0x8086, device: 0x3c00, same: true},
	{vendor: 0x8086, device: 0x3c01, same: true},
	{vendor: 0x8086, device: 0x2f00, same: true},
	{vendor: 0x8086, device: 0x2f01, same: true},
	{vendor: 0x8086, device: 0x2020},
	{vendor: 0x8086, device: 0x2030},
	{vendor: 0x8086, device: 0x2031},
	{vendor: 0x8086, device: 0x2032},
	{vendor: 0x8086, device: 0x2033},
	{vendor: 0x8086, device: 0x09a2},
	{vendor: 0x8086, device: 0x0b25, new: true},
	{vendor: 0x8086, device: 0x0cfe, new: true},
	{vendor: 0x8086, device: 0x11fb, new: true},
	{vendor: 0x8086, device: 0x1212, new: true},
	{vendor: 0x8086, device: 0x1216, new: true},
	{vendor: 0x8086, device: 0x4940, new: true},
	{vendor: 0x8086, device: 0x4942, new: true},
	{vendor: 0x8086, device: 0x4944, new: true},
	{vendor: 0x8086, device: 0x4946, new: true},
	{vendor: 0x8086, device: 0x4948, new: true},
	{vendor: 0x1ae0, device: anyDevice, new: true},
	{vendor: 0x10de, device: 0x2f95, new: true},
	{vendor: 0x10de, device: 0x2f96, new: true},
	{vendor: 0x10de, device: 0x2f97, new: true},
	{vendor: 0x10de, device: 0x2f98, new: true},
}

// listed tells whether a root complex is trusted. What stands for it is the first
// function of its bus, if that is device 0 function 0 or a root port.
func (t *Topology) listed(root *Root, same bool) (Tri, string) {
	first := t.first(root)
	if root.Path == "" || first == nil {
		return Unknown, "what stands for root complex " + root.Name + " is not told"
	}
	name := fmt.Sprintf("%s (%04x:%04x)", first.Address, first.Vendor, first.Product)
	if first.Vendor == 0 && first.Product == 0 {
		return Unknown, "what " + first.Address.String() + " is could not be read"
	}
	i := slices.IndexFunc(hostBridges, func(h hostBridge) bool {
		return h.vendor == first.Vendor && (h.device == first.Product || h.device == anyDevice)
	})
	if i < 0 {
		return No, "host bridge " + name + " is not on the kernel's list"
	}
	if first.Address.Device != 0 || first.Address.Function != 0 {
		switch first.Port {
		case RootPort:
		case PortUnknown:
			return Unknown, name + " is on the kernel's list for host bridges, but may be no root port"
		default:
			return No, "the first function of root complex " + root.Name + " is neither at 00.0 nor a root port"
		}
	}
	h := hostBridges[i]
	if h.new {
		switch since := t.kernelHas(); since {
		case No:
			return No, "host bridge " + name + " is on the list of Linux 7.3, not of this kernel"
		case Unknown:
			return Unknown, "host bridge " + name + " is on the list of Linux 7.3 and not of 6.12; which this kernel has is unknown"
		}
	}
	if h.same && !same {
		return No, "host bridge " + name + " is on the kernel's list only for devices below one host bridge"
	}
	return Yes, "host bridge " + name + " is on the kernel's list"
}

// first gives the first function on a root's own bus.
func (t *Topology) first(root *Root) *Device {
	var first *Device
	for _, d := range root.Children {
		if d.Address.Domain == root.Domain && d.Address.Bus == root.Bus && d.PF == nil &&
			(first == nil || cmp.Less(order(d.Address), order(first.Address))) {
			first = d
		}
	}
	return first
}

func order(a Address) int { return int(a.Device)<<3 | int(a.Function) }

// kernelHas tells whether this kernel's list is that of 7.3: before 6.13 it is not,
// between the two nobody looked.
func (t *Topology) kernelHas() Tri {
	var major, minor int
	if n, _ := fmt.Sscanf(t.Platform.Kernel, "%d.%d", &major, &minor); n != 2 {
		return Unknown
	}
	switch {
	case major > 7 || major == 7 && minor >= 3:
		return Yes
	case major < 6 || major == 6 && minor <= 12:
		return No
	}
	return Unknown
}
