//go:build lab

package pci

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hwlocObject is an element of the XML that lstopo writes (hwloc2.dtd).
type hwlocObject struct {
	Type     string        `xml:"type,attr"`
	Index    int           `xml:"os_index,attr"`
	Name     string        `xml:"name,attr"`
	OSDev    string        `xml:"osdev_type,attr"`
	BusID    string        `xml:"pci_busid,attr"`
	Identity string        `xml:"pci_type,attr"`
	Speed    float64       `xml:"pci_link_speed,attr"`
	CPUs     string        `xml:"cpuset,attr"`
	Nodes    string        `xml:"nodeset,attr"`
	Memory   int64         `xml:"local_memory,attr"`
	Objects  []hwlocObject `xml:"object"`
}

// Kinds of what hangs on a device.
const hwlocNet, hwlocOpenFabrics = "2", "3"

// located is what lstopo tells of a function.
type located struct {
	Parent   string // "" on a root bus
	Identity string // class, ids and revision
	Nodes    string // the NUMA nodes that it is near to, as a mask
	RDMA     []string
	Net      []string
	Speed    float64 // of its link, GB/s
}

// lstopo asks for the whole machine.
func lstopo(t *testing.T) (machine hwlocObject, functions map[Address]*located) {
	t.Helper()
	var document struct {
		Object hwlocObject `xml:"object"`
	}
	if err := xml.Unmarshal([]byte(tool(t, "lstopo", "--of", "xml", "--filter", "io:all")), &document); err != nil {
		t.Fatal(err)
	}
	functions = map[Address]*located{}
	document.Object.functions(t, functions, "", nil, "")
	return document.Object, functions
}

func (o *hwlocObject) functions(t *testing.T, all map[Address]*located, parent string, above *located, nodes string) {
	switch {
	case o.BusID != "":
		above = &located{Parent: parent, Identity: o.Identity, Nodes: nodes, Speed: o.Speed}
		parent = o.BusID
		all[address(t, o.BusID)] = above
	case o.OSDev == hwlocOpenFabrics && above != nil:
		above.RDMA = append(above.RDMA, o.Name)
	case o.OSDev == hwlocNet && above != nil:
		above.Net = append(above.Net, o.Name)
	}
	if o.Nodes != "" {
		nodes = o.Nodes // I/O has none: it is near to what the object above is near to
	}
	for i := range o.Objects {
		o.Objects[i].functions(t, all, parent, above, nodes)
	}
}

// of gives the objects of a type at and below one.
func (o *hwlocObject) of(kind string) (found []*hwlocObject) {
	if o.Type == kind {
		found = append(found, o)
	}
	for i := range o.Objects {
		found = append(found, o.Objects[i].of(kind)...)
	}
	return found
}

func mask(bits ...int) string {
	m := uint32(0)
	for _, b := range bits {
		m |= 1 << b
	}
	return fmt.Sprintf("0x%08x", m)
}

// asLocated is what this package tells of a device.
func asLocated(topo *Topology, d *Device) *located {
	l := &located{
		Identity: fmt.Sprintf("%04x [%04x:%04x] [%04x:%04x] %02x", d.Class>>8, d.Vendor, d.Product, d.SubVendor, d.SubProduct, d.Revision),
		Net:      d.Net, Speed: d.Link.Bandwidth(),
	}
	if d.Parent != nil {
		l.Parent = d.Parent.Address.String()
	}
	if d.Node != nil {
		l.Nodes = mask(d.Node.Number)
	} else { // anywhere
		var all []int
		for _, n := range topo.Nodes {
			all = append(all, n.Number)
		}
		l.Nodes = mask(all...)
	}
	for _, r := range d.RDMA {
		l.RDMA = append(l.RDMA, r.Name)
	}
	return l
}

// lstopo computes with 32 bits, and rounds.
var rounded = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-3 })

func TestTopologyAgreesWithLstopo(t *testing.T) {
	topo, _ := labMachine(t)
	machine, theirs := lstopo(t)
	if len(theirs) != len(topo.Devices) {
		t.Errorf("lstopo shows %d functions, we %d", len(theirs), len(topo.Devices))
	}
	named := 0
	for _, d := range topo.Devices {
		their := theirs[d.Address]
		if their == nil {
			t.Errorf("lstopo does not show %s", d.Address)
			continue
		}
		our := asLocated(topo, d)
		named += len(our.RDMA) + len(our.Net)
		if diff := cmp.Diff(their, our, rounded); diff != "" {
			t.Errorf("%s: -lstopo +ours\n%s", d.Address, diff)
		}
	}
	nodes := machine.of("NUMANode")
	slices.SortFunc(nodes, func(a, b *hwlocObject) int { return a.Index - b.Index })
	if len(nodes) != len(topo.Nodes) {
		t.Fatalf("lstopo shows %d NUMA nodes, we %d", len(nodes), len(topo.Nodes))
	}
	for i, n := range topo.Nodes {
		their := fmt.Sprint(nodes[i].Index, strings.TrimSpace(nodes[i].CPUs), nodes[i].Memory)
		if our := fmt.Sprint(n.Number, mask(n.CPUs...), n.Memory); our != their {
			t.Errorf("node: lstopo says %s, we %s", their, our)
		}
	}
	t.Logf("lstopo %s: %d functions with %d names, %d NUMA nodes: equal", strings.TrimSpace(tool(t, "lstopo", "--version")), len(theirs), named, len(nodes))
}
