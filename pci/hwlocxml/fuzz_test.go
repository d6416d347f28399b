package hwlocxml

import (
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

func FuzzRead(f *testing.F) {
	// Short: the fuzzer tries first of all to shorten them.
	f.Add(`<topology version="2.0"><object type="Machine" cpuset="0xf...f" complete_nodeset="0x3"><object type="NUMANode" os_index="0" cpuset="0x1,,0x3"/>`)
	f.Add(`<topology version="3.0"><object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-01]"><object type="PCIDev" pci_busid="0000:00:01.0" pci_type="0604 [0:0] [0:0] ff"/>`)
	f.Add(`<topology><object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330] [0:0] a1"><object type="OSDev" name="mlx5_0" osdev_type="3"><info name="Port1State" value="4"/>`)
	f.Add(`<topology><object type="Bridge" bridge_type="1-1" pci_busid="1:0.0" bridge_pci="0:[1-2]"><object type="PCIDev" pci_busid="2:0.0" pci_type="0207 [0:0] [0:0] 00"/>`)
	f.Add(`<topology><object type="System"><object type="Machine"><distances nbobjs="1" latency_base="10"><latency value="1"/></distances><object type="NUMANode" os_index="3">`)
	f.Add(`<topology version="2.0"><object type="NUMANode" os_index="3"/><distances2 type="NUMANode" nbobjs="1" kind="5" indexing="os"><indexes>3</indexes><u64values>10</u64values></distances2>`)
	f.Fuzz(func(t *testing.T, text string) {
		topo, err := Read(strings.NewReader(text))
		if topo == nil {
			if err == nil {
				t.Fatal("nothing, and no error")
			}
			return
		}
		seen := map[pci.Address]bool{}
		for _, d := range topo.Devices {
			if seen[d.Address] || d.Root == nil || !slices.Contains(topo.Roots, d.Root) {
				t.Fatalf("%v is there twice or without a root", d.Address)
			}
			seen[d.Address] = true
			n := 0
			for up := d; up != nil; up = up.Parent {
				if n++; n > len(topo.Devices) || up.Root != d.Root {
					t.Fatalf("%v has no end above, or two roots", d.Address)
				}
			}
			if d.Node != nil && !slices.Contains(topo.Nodes, d.Node) {
				t.Fatalf("%v is of a node that is none of the machine's", d.Address)
			}
			_ = topo.Name(d)
		}
		for i, n := range topo.Nodes {
			if i > 0 && topo.Nodes[i-1].Number >= n.Number || n.Distances != nil && len(n.Distances) != len(topo.Nodes) || !slices.IsSorted(n.CPUs) {
				t.Fatalf("node %d: %+v", i, *n)
			}
		}
		if _, err := topo.Pair(pci.PairOptions{}); err != nil {
			t.Fatal(err)
		}
		topo.Findings()
	})
}
