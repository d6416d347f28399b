package path

import (
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// Between is what PCI topology says of the pair.
type Between struct {
	Class  string   `json:"class"`    // as nvidia-smi topo -mp has it
	Reason string   `json:"reason"`   //
	Path   []string `json:"path"`     // addresses, over the bridges between
	Turns  string   `json:"turns_at"` // what traffic from one to the other over PCI Express goes through: "bridge", "host bridge"; "" is not known
	Why    string   `json:"why"`      // of Turns
	Nodes  bool     `json:"different_numa_nodes"`
}

// device finds a GPU; nil if the topology has it not.
func device(t *pci.Topology, g GPU) *pci.Device {
	if t == nil {
		return nil
	}
	a, err := pci.ParseAddress(g.Address)
	if err != nil {
		return nil
	}
	return t.Device(a)
}

// placed adds to both GPUs what the topology knows.
func placed(t *pci.Topology, gpus *[2]GPU) {
	for i := range gpus {
		d := device(t, gpus[i])
		if d == nil {
			continue
		}
		// The link of an idle GPU is slow, and not when it copies: what it can counts.
		gpus[i].Link = d.Link.MaxBandwidth()
		gpus[i].Node = nodeNumber(d)
	}
}

// nodeNumber is the NUMA node of a device, or of what is above it; nil is unknown.
func nodeNumber(d *pci.Device) *int {
	for up := d; up != nil; up = up.Parent {
		if up.Node != nil {
			return &up.Node.Number
		}
	}
	if d.Root != nil && d.Root.Node != nil {
		return &d.Root.Node.Number
	}
	return nil
}

// memoryNodes are the NUMA nodes of the host's memory; nil is unknown. A node without
// processors is a GPU's, or far memory, which the kernel does not give by itself.
func memoryNodes(t *pci.Topology) (nodes []int) {
	if t == nil {
		return nil
	}
	for _, n := range t.Nodes {
		if n.Present && n.Memory != 0 && len(n.CPUs) > 0 {
			nodes = append(nodes, n.Number)
		}
	}
	return nodes
}

// between asks the topology; nil if it does not have both.
func between(t *pci.Topology, gpus [2]GPU) *Between {
	a, b := device(t, gpus[0]), device(t, gpus[1])
	if a == nil || b == nil {
		return nil
	}
	d, p := t.Distance(a, b), t.P2P(b, a)
	r := &Between{Class: d.Class.String(), Reason: d.Reason, Turns: string(p.Through), Why: turning(p), Path: []string{}, Nodes: d.Class == pci.SYS}
	for _, on := range d.Path {
		r.Path = append(r.Path, on.Address.String())
	}
	return r
}

// turning says why traffic turns where it does. Whether the kernel would allow it is no
// matter here: NVIDIA's driver does not ask.
func turning(p pci.P2P) string {
	var at []string
	for _, d := range p.Redirects {
		at = append(at, d.Address.String())
	}
	switch {
	case p.Through == pci.WayUnknown:
		return p.Reason
	case p.Bridge == nil:
		return "no bridge is above both"
	case len(at) > 0:
		return "access control redirects to the root at " + strings.Join(at, ", ")
	}
	return "bridge " + p.Bridge.Address.String() + " is above both"
}
