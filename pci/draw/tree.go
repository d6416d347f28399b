package draw

import (
	"cmp"
	"slices"

	"github.com/peerdirect/peerdirect/pci"
)

// container is a root complex, a switch or a bridge, and what hangs below it.
type container struct {
	root   *pci.Root
	device *pci.Device // upstream port or bridge
	link   pci.Link
	groups []*group
	subs   []*container
	ports  int // downstream ports of a switch
	empty  int // ports with nothing below
}

// group is alike devices below one container, in order of address.
type group struct {
	kind    pci.Kind
	devices []*pci.Device
	links   []pci.Link // as the devices
	folded  bool       // one box for all
	caption float64    // its width, once known
}

// Alike devices beyond these numbers are one box.
const (
	foldAt   = 12
	foldVFAt = 4
)

// plan is what a topology's picture holds.
type plan struct {
	t       *pci.Topology
	p       *pci.Pairing
	pairs   map[*pci.Device][]int // an accelerator's or a rail's places in p.Pairs
	visited map[*pci.Device]bool
	bands   []*band
	domains bool // more than one: addresses are given whole
	names   map[*pci.Device]string
	least   map[alike]float64 // widths of boxes, once known
}

// band is a NUMA node and the root complexes at it.
type band struct {
	node  *pci.Node // nil is unknown
	roots []*container
}

func newPlan(t *pci.Topology, p *pci.Pairing) *plan {
	pl := &plan{t: t, p: p, pairs: map[*pci.Device][]int{}, visited: map[*pci.Device]bool{},
		names: map[*pci.Device]string{}, least: map[alike]float64{}}
	if p != nil {
		for i, pair := range p.Pairs {
			pl.pairs[pair.Accelerator] = append(pl.pairs[pair.Accelerator], i)
			for _, rail := range pair.Rails {
				pl.pairs[rail] = append(pl.pairs[rail], i)
			}
		}
	}
	for _, d := range t.Devices {
		pl.domains = pl.domains || d.Address.Domain != t.Devices[0].Address.Domain
	}
	known := map[*pci.Node]*band{}
	for _, n := range t.Nodes {
		b := &band{node: n}
		known[n] = b
		pl.bands = append(pl.bands, b)
	}
	unknown := &band{}
	add := func(c *container) {
		b := known[pl.nodeOf(c)]
		if b == nil {
			b = unknown
		}
		b.roots = append(b.roots, c)
	}
	for _, r := range t.Roots {
		c := &container{root: r}
		pl.fill(c, r.Children, nil)
		add(c)
	}
	// What no root complex leads to is drawn all the same.
	rest := &container{}
	for _, d := range t.Devices {
		if !pl.visited[d] && (d.Parent == nil || !slices.Contains(t.Devices, d.Parent)) {
			pl.fill(rest, []*pci.Device{d}, nil)
		}
	}
	for _, d := range t.Devices { // each other's parents
		if !pl.visited[d] {
			pl.fill(rest, []*pci.Device{d}, nil)
		}
	}
	if len(rest.groups)+len(rest.subs) > 0 {
		unknown.roots = append(unknown.roots, rest)
	}
	if len(unknown.roots) > 0 {
		pl.bands = append(pl.bands, unknown)
	}
	return pl
}

// nodeOf is the node of a root complex, or the one that all devices below it are of.
func (pl *plan) nodeOf(c *container) *pci.Node {
	if c.root == nil || c.root.Node != nil {
		return c.rootNode()
	}
	var node *pci.Node
	for _, d := range pl.t.Devices {
		if d.Root != c.root {
			continue
		}
		if d.Node == nil || node != nil && d.Node != node {
			return nil
		}
		node = d.Node
	}
	return node
}

func (c *container) rootNode() *pci.Node {
	if c.root == nil {
		return nil
	}
	return c.root.Node
}

// fill hangs devices below a container; above is the port that leads to them, nil on
// a root bus.
func (pl *plan) fill(c *container, devices []*pci.Device, above *pci.Device) {
	pl.hang(c, devices, above)
	c.arrange(pl)
}

func (pl *plan) hang(c *container, devices []*pci.Device, above *pci.Device) {
	for _, d := range devices {
		if pl.visited[d] {
			continue
		}
		pl.visited[d] = true
		switch {
		case d.Kind != pci.Bridge && len(d.Children) == 0:
			c.add(d, linkOf(d, above))
		case d.Switch != nil && d.Switch.Upstream == d:
			s := &container{device: d, link: linkOf(d, above)}
			for _, port := range d.Children {
				if port.Kind != pci.Bridge || pl.visited[port] {
					pl.hang(s, []*pci.Device{port}, d)
					continue
				}
				pl.visited[port] = true
				s.ports++
				pl.below(s, port)
			}
			s.arrange(pl)
			c.subs = append(c.subs, s)
		default:
			pl.below(c, d)
		}
	}
}

// below hangs what is below a bridge: at the container if the bridge only leads to one
// slot, else at a container of its own.
func (pl *plan) below(c *container, bridge *pci.Device) {
	if len(bridge.Children) == 0 {
		c.empty++
		return
	}
	first := bridge.Children[0].Address
	for _, d := range bridge.Children {
		if a := d.Address; a.Domain != first.Domain || a.Bus != first.Bus || a.Device != first.Device && d.PF == nil {
			own := &container{device: bridge, link: linkOf(bridge, nil)}
			pl.fill(own, bridge.Children, bridge)
			c.subs = append(c.subs, own)
			return
		}
	}
	pl.hang(c, bridge.Children, bridge)
}

// linkOf is a device's link, told by either end.
func linkOf(d, above *pci.Device) pci.Link {
	l := d.Link
	if above != nil && above.Kind == pci.Bridge && l.Width == 0 {
		l = above.Link
	}
	return l
}

// add puts a device to its like.
func (c *container) add(d *pci.Device, l pci.Link) {
	for _, g := range c.groups {
		f := g.devices[0]
		if g.kind == d.Kind && (g.kind == pci.Other || f.Vendor == d.Vendor && f.Product == d.Product && (f.PF == nil) == (d.PF == nil)) {
			g.devices, g.links = append(g.devices, d), append(g.links, l)
			return
		}
	}
	c.groups = append(c.groups, &group{kind: d.Kind, devices: []*pci.Device{d}, links: []pci.Link{l}})
}

// order of kinds below one container.
var order = [...]int{pci.Accelerator: 0, pci.RDMANIC: 1, pci.OtherNIC: 2, pci.NVMe: 3, pci.NVSwitch: 4, pci.BMC: 5, pci.Other: 6, pci.Bridge: 7}

func (c *container) arrange(pl *plan) {
	slices.SortStableFunc(c.groups, func(a, b *group) int { return cmp.Compare(order[a.kind], order[b.kind]) })
	for _, g := range c.groups {
		paired := slices.ContainsFunc(g.devices, func(d *pci.Device) bool { return len(pl.pairs[d]) > 0 })
		many := foldAt
		if g.devices[0].PF != nil {
			many = foldVFAt
		}
		g.folded = g.kind == pci.Other && len(g.devices) > 1 ||
			g.kind != pci.Accelerator && g.kind != pci.NVSwitch && !paired && len(g.devices) > many
	}
}

// quiet: nothing an engineer looks for is below.
func (c *container) quiet() bool {
	return !slices.ContainsFunc(c.groups, func(g *group) bool { return g.kind != pci.Other }) &&
		!slices.ContainsFunc(c.subs, func(s *container) bool { return !s.quiet() })
}

// count is the number of functions below.
func (c *container) count() (n int) {
	for _, g := range c.groups {
		n += len(g.devices)
	}
	for _, s := range c.subs {
		n += s.count()
	}
	return n
}

// big: it has a switch, an accelerator or a rail.
func (c *container) big(pl *plan) bool {
	return slices.ContainsFunc(c.subs, func(s *container) bool { return !s.quiet() }) ||
		slices.ContainsFunc(c.groups, func(g *group) bool { return g.kind == pci.Accelerator && len(c.groups) > 1 })
}
