package report

import "github.com/peerdirect/peerdirect/pci"

// item is what gets a line of the tree: a device, a bridge or a switch.
type item struct {
	chain  []*pci.Device // bridges above that lead to nothing else, in the same line
	d      *pci.Device
	sw     *pci.Switch // d is its upstream port
	below  []*item
	hidden hidden // below d
	beside hidden // below the chain
}

// hidden counts what is left out.
type hidden struct {
	functions int
	bridges   int // with nothing below that is shown
}

func (h *hidden) add(o hidden) {
	h.functions += o.functions
	h.bridges += o.bridges
}

func (h hidden) String() string {
	functions, bridges := plural(h.functions, "other function", "other functions"), plural(h.bridges, "bridge", "bridges")
	switch {
	case h.bridges == 0:
		return functions
	case h.functions == 0:
		return bridges + " with nothing below"
	}
	return functions + ", " + bridges
}

// nodeGroup is a NUMA node with the root complexes at it; nil is unknown.
type nodeGroup struct {
	node *pci.Node
	tops []*top
	bare int // root complexes without anything that is shown
	rest hidden
}

// top is a root complex; nil holds what hangs on none.
type top struct {
	root   *pci.Root
	items  []*item
	hidden hidden
}

// treeBuilder chooses what of a topology is shown, and where.
type treeBuilder struct {
	t       *pci.Topology
	all     bool
	pairs   map[*pci.Device]*pci.Pair
	rails   map[*pci.Device]bool
	visited map[*pci.Device]bool
}

func newTreeBuilder(t *pci.Topology, o Options) *treeBuilder {
	b := &treeBuilder{t: t, all: o.All, pairs: map[*pci.Device]*pci.Pair{}, rails: map[*pci.Device]bool{},
		visited: make(map[*pci.Device]bool, len(t.Devices))}
	if o.Pairing != nil {
		for i := range o.Pairing.Pairs {
			pair := &o.Pairing.Pairs[i]
			b.pairs[pair.Accelerator] = pair
			for _, r := range pair.Rails {
				b.rails[r] = true
			}
		}
	}
	return b
}

// groups sorts root complexes by NUMA node, the unknown ones last.
func (b *treeBuilder) groups() []*nodeGroup {
	var all []*nodeGroup
	at := map[*pci.Node]*nodeGroup{}
	for _, n := range b.t.Nodes {
		at[n] = &nodeGroup{node: n}
		all = append(all, at[n])
	}
	unknown := &nodeGroup{}
	for _, r := range b.t.Roots {
		to := at[nodeAt(r)]
		if to == nil {
			to = unknown
		}
		to.add(b.top(r, r.Children), b.all)
	}
	// What no root complex leads to is printed all the same.
	var loose []*pci.Device
	for _, d := range b.t.Devices {
		if d.Parent == nil && !b.visited[d] {
			loose = append(loose, d)
		}
	}
	if len(loose) > 0 {
		unknown.add(b.top(nil, loose), b.all)
	}
	if len(unknown.tops) > 0 || unknown.bare > 0 {
		all = append(all, unknown)
	}
	return all
}

func (b *treeBuilder) top(r *pci.Root, devices []*pci.Device) *top {
	items, hidden := b.items(devices)
	return &top{r, items, hidden}
}

func (g *nodeGroup) add(k *top, all bool) {
	if len(k.items) > 0 || all {
		g.tops = append(g.tops, k)
		return
	}
	g.bare++
	g.rest.add(k.hidden)
}

// nodeAt is a root complex's node, or that of everything on its bus; nil is unknown.
func nodeAt(r *pci.Root) *pci.Node {
	if r.Node != nil || len(r.Children) == 0 {
		return r.Node
	}
	node := r.Children[0].Node
	for _, d := range r.Children {
		if d.Node != node {
			return nil
		}
	}
	return node
}

// items gives the lines for some devices below one bridge.
func (b *treeBuilder) items(devices []*pci.Device) (items []*item, rest hidden) {
	for _, d := range devices {
		if b.visited[d] {
			continue
		}
		b.visited[d] = true
		if d.Kind != pci.Bridge && len(d.Children) == 0 {
			switch {
			case b.shown(d):
				items = append(items, &item{d: d})
			case d.PF == nil || d.PF.Kind == pci.Other: // else the physical function counts it
				rest.functions++
			}
			continue
		}
		it := &item{d: d}
		below := d.Children
		if d.Switch != nil && d.Switch.Upstream == d {
			it.sw = d.Switch
			if !b.all {
				below = b.through(d)
			}
		}
		it.below, it.hidden = b.items(below)
		switch {
		case it.sw == nil && len(it.below) == 1 && it.hidden.bridges == 0:
			only := it.below[0]
			only.chain = append([]*pci.Device{d}, only.chain...)
			only.beside.add(it.hidden)
			items = append(items, only)
		case b.all || len(it.below) > 0:
			items = append(items, it)
		default:
			rest.add(it.hidden)
			rest.bridges++
		}
	}
	return items, rest
}

// through gives what is below a switch's ports in place of the ports.
func (b *treeBuilder) through(upstream *pci.Device) (below []*pci.Device) {
	for _, c := range upstream.Children {
		if c.Switch == upstream.Switch {
			b.visited[c] = true
			below = append(below, c.Children...)
		} else {
			below = append(below, c)
		}
	}
	return below
}

// shown tells whether a device gets a line.
func (b *treeBuilder) shown(d *pci.Device) bool {
	return b.all || b.rails[d] || d.Kind != pci.Other && d.PF == nil
}
