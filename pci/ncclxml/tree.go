package ncclxml

import (
	"cmp"
	"slices"

	"github.com/peerdirect/peerdirect/pci"
)

// NCCL has 256 elements in all (NCCL_TOPO_XML_MAX_NODES, topo.h), and its reader
// stops when none is left for the next closing tag.
const (
	maxElements = 255
	ownElements = 12 // what a process adds for its GPU, with its links, and for the system
	nicElements = 2  // and for a NIC: <nic> and <net>
)

// branch is a <pci> to be, with those inside.
type branch struct {
	d    *pci.Device
	subs []*branch
}

// plan chooses the functions that are written, and gives the trees they are in by
// NUMA node, -1 where it is unknown. What has no room is counted: NCCL finds it by
// itself.
func plan(t *pci.Topology) (cpus map[int][]*branch, left int) {
	var chosen []*pci.Device
	above := map[*pci.Device]bool{} // bridges that a place is kept for
	nodes := map[int]bool{}
	home := homes(t)
	used := ownElements
	for _, d := range wanted(t) {
		cost := 1
		if d.Kind != pci.Accelerator {
			cost += nicElements
		}
		if !nodes[home(d)] {
			cost++
		}
		for up := d.Parent; up != nil && !above[up]; up = up.Parent {
			if !within(up) {
				cost++
			}
		}
		if used+cost > maxElements {
			left++
			continue
		}
		used += cost
		nodes[home(d)] = true
		chosen = append(chosen, d)
		for up := d.Parent; up != nil && !above[up]; up = up.Parent {
			above[up] = true
		}
	}
	cpus = map[int][]*branch{}
	for _, top := range grow(chosen) {
		n := home(top.d)
		cpus[n] = append(cpus[n], top)
	}
	return cpus, left
}

// wanted are the functions that NCCL cares for, and those of which it is unknown,
// the most important first.
func wanted(t *pci.Topology) (found []*pci.Device) {
	rank := func(d *pci.Device) int {
		switch {
		case d.Kind == pci.Accelerator:
			return 0
		case d.PF != nil:
			return 4
		case d.Kind == pci.RDMANIC:
			return 1
		case d.Kind == pci.OtherNIC:
			return 2
		}
		return 3
	}
	for _, d := range t.Devices {
		switch {
		case d.Kind == pci.Accelerator, d.Kind == pci.RDMANIC, d.Kind == pci.OtherNIC,
			d.Kind == pci.Other && d.Class == 0 && d.Vendor == 0 && len(d.Children) == 0:
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(a, b *pci.Device) int { return cmp.Compare(rank(a), rank(b)) })
	return found
}

// within tells a downstream port, which is no element: its switch is.
func within(d *pci.Device) bool { return d.Switch != nil && d.Switch.Upstream != d }

// grow makes the trees that the functions are in, in order of address.
func grow(chosen []*pci.Device) (tops []*branch) {
	at := map[*pci.Device]*branch{}
	for _, d := range chosen {
		if at[d] != nil { // another is below it
			continue
		}
		b := &branch{d: d}
		at[d] = b
		for {
			up := b.d.Parent
			for up != nil && within(up) {
				up = up.Parent
			}
			if up == nil {
				tops = append(tops, b)
				break
			}
			over := at[up]
			if over != nil {
				over.subs = append(over.subs, b)
				break
			}
			over = &branch{d: up, subs: []*branch{b}}
			at[up] = over
			b = over
		}
	}
	order := func(a, b *branch) int { return a.d.Address.Compare(b.d.Address) }
	for _, b := range at {
		slices.SortFunc(b.subs, order)
	}
	var crowns []*branch
	for _, top := range tops {
		crowns = append(crowns, crown(top)...)
	}
	slices.SortFunc(crowns, order)
	return crowns
}

// crown leaves out a root port, as NCCL does, unless an accelerator meets another
// device there: then it is a bridge like others.
func crown(top *branch) []*branch {
	bridge := top.d.Kind == pci.Bridge && top.d.Switch == nil && top.d.Port != pci.UpstreamPort
	meets := slices.ContainsFunc(top.subs, func(b *branch) bool { return len(b.subs) > 0 || b.d.Kind == pci.Accelerator })
	if bridge && (len(top.subs) == 1 || !meets) {
		return top.subs
	}
	return []*branch{top}
}

// homes tells the NUMA node of a function's root complex: devices of one root
// complex meet there, whatever node each of them names.
func homes(t *pci.Topology) func(*pci.Device) int {
	listed := slices.ContainsFunc(t.Nodes, func(n *pci.Node) bool { return n.Present })
	useful := func(n *pci.Node) bool { // as Topology.Distance takes them
		return n != nil && (n.Present || !listed) && (n.CPUs == nil || len(n.CPUs) > 0)
	}
	known := map[*pci.Root]int{}
	for _, r := range t.Roots {
		known[r] = -1
		if useful(r.Node) {
			known[r] = r.Node.Number
		}
	}
	// A root complex that names none, or whose devices differ, is where its first
	// device is.
	for _, d := range t.Devices {
		if n, ok := known[d.Root]; ok && n < 0 && useful(d.Node) {
			known[d.Root] = d.Node.Number
		}
	}
	return func(d *pci.Device) int {
		if n, ok := known[d.Root]; ok {
			return n
		}
		for ; d != nil; d = d.Parent {
			if useful(d.Node) {
				return d.Node.Number
			}
		}
		return -1
	}
}
