package pci

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const nodesDir = "sys/devices/system/node"

// maxNode bounds what a device may name; kernels are built for 1,024 at most.
const maxNode = 4095

// shared keeps what many devices have alike, so that 4,000 of them cost one. Its
// lock guards Topology.Nodes too while devices are read.
type shared struct {
	sync.Mutex
	cpus  map[string]CPUs
	types map[int]string // of IOMMU groups
}

// nodes reads the NUMA nodes that the kernel has.
func (r *reader) nodes() {
	online := nodeNumbers(r)
	for _, n := range online {
		r.t.Nodes = append(r.t.Nodes, &Node{Number: n, Present: true, Memory: -1})
	}
	for _, n := range r.t.Nodes {
		dir := nodesDir + "/node" + strconv.Itoa(n.Number)
		n.CPUs = r.cpus(dir + "/cpulist")
		if s, ok := r.text(dir + "/meminfo"); ok {
			n.Memory = parseMemTotal(s)
		}
		s, ok := r.text(dir + "/distance")
		if !ok || s == "" {
			continue
		}
		d, err := parseDistances(s, len(online))
		if err != nil {
			r.fail("read", dir+"/distance", err)
			continue
		}
		n.Distances = d
	}
}

// nodeNumbers gives the nodes that are online, and without that list those that
// have a folder.
func nodeNumbers(r *reader) (numbers []int) {
	if s, ok := r.text(nodesDir + "/online"); ok && s != "" {
		list, err := ParseCPUs(s) // the kernel prints nodes in the same form
		if err == nil && len(list) > 0 && list[len(list)-1] <= maxNode {
			return list
		}
		if err == nil {
			err = fmt.Errorf("%q names nodes beyond %d", clip(s), maxNode)
		}
		r.fail("read", nodesDir+"/online", err)
	}
	entries, _ := r.list(nodesDir)
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "node")
		if n, good := nodeNumber(digits); ok && good {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

func nodeNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n <= maxNode
}

// parseMemTotal reads a node's meminfo; bytes, -1 if it does not tell.
func parseMemTotal(s string) int64 {
	for line := range strings.SplitSeq(s, "\n") {
		_, value, ok := strings.Cut(line, "MemTotal:")
		if !ok {
			continue
		}
		f := strings.Fields(value)
		if len(f) != 2 || f[1] != "kB" {
			return -1
		}
		kb, err := strconv.ParseUint(f[0], 10, 53)
		if err != nil {
			return -1
		}
		return int64(kb) << 10
	}
	return -1
}

// parseDistances reads a row of the SLIT, which has an entry for each node online.
func parseDistances(s string, nodes int) ([]int, error) {
	var row []int
	for f := range strings.FieldsSeq(s) {
		v, err := strconv.ParseUint(f, 10, 16)
		if err != nil || len(row) == nodes {
			return nil, fmt.Errorf("%q is no row of distances to %d nodes", clip(s), nodes)
		}
		row = append(row, int(v))
	}
	if len(row) != nodes {
		return nil, fmt.Errorf("%q has %d distances, and the machine has %d nodes", clip(s), len(row), nodes)
	}
	return row, nil
}

// node gives the node of that number, and makes it if only a device names it.
func (r *reader) node(number int) *Node {
	r.shared.Lock()
	defer r.shared.Unlock()
	i, ok := slices.BinarySearchFunc(r.t.Nodes, number, func(n *Node, number int) int { return cmp.Compare(n.Number, number) })
	if !ok {
		// Rows are in the order of Topology.Nodes; nothing tells how far this one is.
		for _, n := range r.t.Nodes {
			if n.Distances != nil {
				n.Distances = slices.Insert(n.Distances, i, 0)
			}
		}
		r.t.Nodes = slices.Insert(r.t.Nodes, i, &Node{Number: number, Memory: -1})
	}
	return r.t.Nodes[i]
}

// rootNodes gives a root complex the node that every function on its bus names. One
// that names none, or another, leaves it unknown.
func (r *reader) rootNodes() {
	split := map[*Root]bool{}
	for _, d := range r.t.Devices {
		if d.Root == nil || d.Parent != nil || split[d.Root] {
			continue
		}
		if d.Node == nil || d.Root.Node != nil && d.Root.Node != d.Node {
			split[d.Root] = true
		}
		d.Root.Node = d.Node
	}
	for root := range split {
		root.Node = nil
	}
}

// locality reads where a device is.
func (r *reader) locality(d *Device, dir string) {
	if !r.t.Outline {
		d.CPUs = r.cpus(dir + "/local_cpulist")
	}
	s, ok := r.text(dir + "/numa_node")
	if !ok {
		return
	}
	number, err := parseNodeNumber(s)
	if err != nil {
		r.fail("read", dir+"/numa_node", err)
		return
	}
	if number >= 0 {
		d.Node = r.node(number)
	}
}

// parseNodeNumber reads numa_node; -1 is unknown.
func parseNodeNumber(s string) (int, error) {
	if s == "-1" || s == "" {
		return -1, nil
	}
	n, ok := nodeNumber(s)
	if !ok {
		return -1, fmt.Errorf("%q is no NUMA node", clip(s))
	}
	return n, nil
}

// cpus reads a list; nil if it is not there or cannot be understood. Nobody
// changes it: devices with the same text have the same.
func (r *reader) cpus(name string) CPUs {
	s, ok := r.text(name)
	if !ok {
		return nil
	}
	r.shared.Lock()
	c, ok := r.shared.cpus[s]
	r.shared.Unlock()
	if ok {
		return c
	}
	c, err := ParseCPUs(s)
	if err == nil && len(s) >= 4000 {
		err = errors.New("the list is longer than is read") // and may be cut in a number
	}
	if err != nil {
		r.fail("read", name, err)
		return nil
	}
	r.shared.Lock()
	defer r.shared.Unlock()
	if r.shared.cpus == nil {
		r.shared.cpus = map[string]CPUs{}
	}
	r.shared.cpus[s] = c
	return c
}
