package hwlocxml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/peerdirect/peerdirect/pci"
)

// maxNode bounds a node's number; kernels are built for 1,024 at most.
const maxNode = 4095

// node is a NUMA node with what is not in pci.Node.
type node struct {
	*pci.Node
	line int
	near []int // processors that are near to its memory; nil is unknown
}

// area is what an I/O tree hangs on.
type area struct {
	cpus  pci.CPUs // nil is unknown
	nodes []int    // numbers, those that this file leaves out too; nil is unknown
}

func (r *reader) startNode(o *object) {
	number, err := strconv.ParseUint(attribute(o.e, "os_index"), 10, 32)
	switch {
	case err != nil || number > maxNode:
		err = fmt.Errorf("%q is no number of a NUMA node", clip(attribute(o.e, "os_index")))
	case r.nodeAt[int(number)] != nil:
		err = fmt.Errorf("node %d is at line %d too; this one is left out", number, r.nodeAt[int(number)].line)
	}
	if err != nil {
		r.fail(o.line, "NUMANode", err)
		return
	}
	n := &node{&pci.Node{Number: int(number), Present: true, Memory: -1}, o.line, r.set(o, "cpuset")}
	if n.near != nil && len(n.near) == 0 && len(r.set(o, "complete_cpuset")) > 0 {
		n.near = nil // it has some, but hwloc's process might not use them
	}
	if text := attribute(o.e, "local_memory"); text != "" {
		if v, err := strconv.ParseInt(text, 10, 64); err == nil && v >= 0 {
			n.Memory = v
		} else {
			r.fail(o.line, fmt.Sprintf("NUMANode %d", number), fmt.Errorf("%q are no bytes of memory", clip(text)))
		}
	}
	r.nodeAt[n.Number] = n
	r.nodes = append(r.nodes, n)
	r.t.Nodes = append(r.t.Nodes, n.Node)
}

// set reads a set of an object; nil is unknown.
func (r *reader) set(o *object, name string) []int {
	text := attribute(o.e, name)
	if text == "" {
		return nil
	}
	set, err := parseSet(text)
	if err != nil {
		r.fail(o.line, o.typ+"'s "+name, err)
	}
	return set
}

// areaOf tells where an object that has processors is.
func (r *reader) areaOf(o *object) *area {
	if o.area != nil {
		return o.area
	}
	o.area = &area{cpus: r.set(o, "cpuset"), nodes: r.set(o, "complete_nodeset")}
	if o.area.nodes == nil {
		o.area.nodes = r.set(o, "nodeset")
	}
	// Early files have no sets of nodes, but in all the nodes are above what is in them.
	for i := len(r.stack) - 1; i >= 0 && o.area.nodes == nil; i-- {
		if up := r.stack[i]; up.typ == "NUMANode" {
			if number, err := strconv.Atoi(attribute(up.e, "os_index")); err == nil {
				o.area.nodes = []int{number}
			}
		}
	}
	return o.area
}

// placeNodes gives each node its own processors. Since hwloc 2 a node without any
// has those that are near, which are another's: a processor is of the node with the
// fewest and, of equal ones, of the first, as hwloc's Linux backend puts the nodes
// without processors last (look_sysfsnode).
func (r *reader) placeNodes() {
	byFewest := slices.Clone(r.nodes)
	slices.SortStableFunc(byFewest, func(a, b *node) int { return cmp.Compare(len(a.near), len(b.near)) })
	taken := make([]bool, maxSet)
	for _, n := range byFewest {
		if n.near == nil {
			continue
		}
		n.CPUs = pci.CPUs{}
		for _, c := range n.near {
			if !taken[c] {
				taken[c] = true
				n.CPUs = append(n.CPUs, c)
			}
		}
	}
}

// nodeOf gives the only node an I/O tree can be of; nil is unknown. What is near to
// processors is of their node, not of one that has memory only.
func (r *reader) nodeOf(a *area) *pci.Node {
	if a == nil {
		return nil
	}
	var found *pci.Node
	for _, number := range a.nodes {
		n := r.nodeAt[number]
		switch {
		case n == nil:
			return nil // one that hwloc's process might not use
		case len(a.nodes) > 1 && n.CPUs != nil && len(n.CPUs) == 0:
		case found != nil:
			return nil
		default:
			found = n.Node
		}
	}
	return found
}
