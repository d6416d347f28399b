package pci

import "fmt"

// Class is how far two devices are apart, in the words of nvidia-smi topo -m. A
// greater class is farther, but ClassUnknown, which is neither near nor far.
type Class uint8

const (
	ClassUnknown Class = iota // different root complexes, and a NUMA node is unknown
	Same                      // one and the same device
	PIX                       // the same bridge above, or two downstream ports of one switch
	PXB                       // any other common bridge
	PHB                       // the same root complex and no common bridge
	C2C                       // different root complexes of one node, the last stretch over a chip-to-chip link
	NODE                      // different root complexes of one NUMA node
	SYS                       // different NUMA nodes
)

// String gives the class as nvidia-smi spells it.
func (c Class) String() string {
	names := [...]string{"unknown", "X", "PIX", "PXB", "PHB", "C2C", "NODE", "SYS"}
	if int(c) >= len(names) {
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
	return names[c]
}

// MarshalText spells the class in JSON.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Distance is how far two devices are apart, and why.
type Distance struct {
	Class  Class
	Reason string
	// Path goes from the first device to the second over the bridges between;
	// without a bridge in common over those that lead to their root complexes. Nil
	// if there is no such device.
	Path []*Device
}

// deepest bounds a walk up: no domain has more buses, so a longer one is a cycle.
const deepest = 256

// Distance tells how far two devices are apart.
func (t *Topology) Distance(a, b *Device) Distance {
	if a == nil || b == nil {
		return Distance{Reason: "there is no such device"}
	}
	r := t.relate(a, b)
	return Distance{Class: r.class, Reason: r.reason(t), Path: r.path()}
}

// relation is what relate finds; it is small, for there are many pairs.
type relation struct {
	a, b     *Device
	class    Class
	common   *Device // the lowest bridge above both, or one of the two
	up, down int     // bridges from a, and from b, to common; or to the root complex
}

func (t *Topology) relate(a, b *Device) relation {
	r := relation{a: a, b: b}
	if a == b {
		r.class, r.common = Same, a
		return r
	}
	r.up, r.down = depth(a), depth(b)
	x, y := a, b
	nx, ny := r.up, r.down
	for ; nx > ny; nx-- {
		x = x.Parent
	}
	for ; ny > nx; ny-- {
		y = y.Parent
	}
	for x != y && nx > 0 {
		x, y, nx = x.Parent, y.Parent, nx-1
	}
	if x == y {
		r.common, r.up, r.down = x, r.up-nx, r.down-nx
		r.class = PXB
		if near := max(r.up, r.down); near == 1 || near == 2 && min(r.up, r.down) != 1 && upstream(x) &&
			(r.up == 0 || downstream(a.Parent)) && (r.down == 0 || downstream(b.Parent)) {
			r.class = PIX
		}
		return r
	}
	switch na, nb := t.affinity(a), t.affinity(b); {
	case a.Root != nil && a.Root == b.Root:
		r.class = PHB
	case na == nil || nb == nil:
		r.class = ClassUnknown
	case na != nb && na.Number != nb.Number:
		r.class = SYS
	case t.chipLink(a) || t.chipLink(b):
		r.class = C2C
	default:
		r.class = NODE
	}
	return r
}

// depth is how many bridges are above.
func depth(d *Device) (n int) {
	for d.Parent != nil && n < deepest {
		d, n = d.Parent, n+1
	}
	return n
}

// upstream tells whether a bridge is the upstream port of a switch. Where config
// space cannot be read, its place tells: below another bridge it is none of the
// root complex's ports.
func upstream(d *Device) bool {
	if d.Port == PortUnknown {
		return d.Parent != nil
	}
	return d.Port == UpstreamPort
}

// downstream tells whether a bridge below an upstream port can be a port of the same
// switch: where ports are left out, as in files of NCCL, it is the next switch.
func downstream(d *Device) bool { return d.Port == PortUnknown || d.Port == DownstreamPort }

// affinity is the NUMA node of a device: its own, or what is above it has; nil is
// unknown.
func (t *Topology) affinity(d *Device) *Node {
	n, _ := t.nodeOf(d)
	return n
}

// nodeOf gives the node with its reason if there is none. A node that the kernel
// does not list beside others, and one without processors, place nothing.
func (t *Topology) nodeOf(d *Device) (*Node, string) {
	why := "no NUMA node is known"
	for up, n := d, 0; up != nil && n <= deepest; up, n = up.Parent, n+1 {
		if up.Node == nil {
			continue
		}
		if why = t.useless(up.Node); why == "" {
			return up.Node, ""
		}
		return nil, why
	}
	if d.Root != nil && d.Root.Node != nil {
		if why = t.useless(d.Root.Node); why == "" {
			return d.Root.Node, ""
		}
	}
	return nil, why
}

// useless tells why a node places nothing; "" if it does.
func (t *Topology) useless(n *Node) string {
	if !n.Present {
		for _, other := range t.Nodes {
			if other.Present {
				return fmt.Sprintf("the kernel lists no NUMA node %d", n.Number)
			}
		}
	}
	if n.CPUs != nil && len(n.CPUs) == 0 {
		return fmt.Sprintf("the NUMA node, %d, has no processors", n.Number)
	}
	return ""
}

// chipLinked are NVIDIA's devices with a coherent link to the processor beside
// them, by product (Linux 7.3, drivers/vfio/pci/nvgrace-gpu/main.c).
var chipLinked = map[uint16]bool{0x2342: true, 0x2345: true, 0x2348: true, 0x2941: true, 0x31c2: true}

// chipLink tells whether memory of a device is reached over a chip-to-chip link.
func (t *Topology) chipLink(d *Device) bool {
	return d.Kind == Accelerator && d.Vendor == nvidia && chipLinked[d.Product] &&
		(t.Platform.Arch == "aarch64" || t.Platform.Arch == "arm64")
}

// path lists the devices from a to b.
func (r *relation) path() []*Device {
	path := make([]*Device, 0, r.up+r.down+2)
	d := r.a
	for range r.up {
		path = append(path, d)
		d = d.Parent
	}
	path = append(path, d)
	at := len(path)
	if r.common == nil {
		at += r.down + 1
	} else {
		at += r.down
	}
	path = path[:at]
	for i, d := at-1, r.b; i >= r.up+1; i, d = i-1, d.Parent {
		path[i] = d
	}
	return path
}

func (r *relation) reason(t *Topology) string {
	switch r.class {
	case Same:
		return "the same device"
	case PIX:
		switch {
		case max(r.up, r.down) == 2 && min(r.up, r.down) == 0:
			return fmt.Sprintf("%s is the upstream port of the switch above", r.common.Address)
		case r.common == r.a || r.common == r.b:
			return fmt.Sprintf("%s is directly above", r.common.Address)
		case r.up == 1:
			return fmt.Sprintf("the same bridge above, %s", r.common.Address)
		}
		return fmt.Sprintf("one switch, upstream port %s", r.common.Address)
	case PXB:
		if r.common == r.a || r.common == r.b {
			return fmt.Sprintf("%s is above, over more than one bridge", r.common.Address)
		}
		return fmt.Sprintf("more than one bridge, the lowest in common %s", r.common.Address)
	case PHB:
		return fmt.Sprintf("the same root complex, %s, and no bridge in common", r.a.Root.Name)
	}
	roots := "different root complexes" + r.roots()
	na, whyA := t.nodeOf(r.a)
	nb, whyB := t.nodeOf(r.b)
	switch r.class {
	case C2C:
		return fmt.Sprintf("%s, of NUMA node %d, whose processor reaches the accelerator's memory over a chip-to-chip link", roots, na.Number)
	case NODE:
		return fmt.Sprintf("%s, of NUMA node %d", roots, na.Number)
	case SYS:
		text := fmt.Sprintf("NUMA nodes %d and %d", na.Number, nb.Number)
		if far := t.apart(na, nb); far > 0 {
			text += fmt.Sprintf(", %d apart where 10 is local", far)
		}
		return text
	}
	switch {
	case whyA == whyB:
		return fmt.Sprintf("%s; of both %s", roots, whyA)
	case whyA == "":
		return fmt.Sprintf("%s; of %s %s", roots, r.b.Address, whyB)
	}
	return fmt.Sprintf("%s; of %s %s", roots, r.a.Address, whyA)
}

// roots names both root complexes.
func (r *relation) roots() string {
	if r.a.Root == nil || r.b.Root == nil {
		return ""
	}
	return ", " + r.a.Root.Name + " and " + r.b.Root.Name
}

// apart is the firmware's distance of two nodes; 0 is unknown.
func (t *Topology) apart(a, b *Node) int {
	for i, n := range t.Nodes {
		if n.Number == b.Number && i < len(a.Distances) {
			return a.Distances[i]
		}
	}
	return 0
}
