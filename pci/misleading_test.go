package pci

import (
	"slices"
	"strings"
	"testing"
)

// What the functions of a card say of their node, and a switch of -1, changes no
// place in the tree: nearer than any node is the bus.
func TestACardOfTwoNodes(t *testing.T) {
	m := server()
	for name := range m.MapFS {
		switch {
		case strings.HasSuffix(name, "0000:1a:00.1/numa_node"):
			m.file(name, "1\n")
		case strings.HasSuffix(name, "0000:19:00.0/numa_node"):
			m.file(name, "-1\n")
		}
	}
	m.file(sysDevices+"/pci0000:16/0000:16:01.0/numa_node", "-1\n").
		file(sysDevices+"/pci0000:16/0000:16:01.0/0000:17:00.0/numa_node", "-1\n")
	topo, err := read(t, m)
	if err != nil {
		t.Error(err)
	}
	first, second, accelerator := at(t, topo, "1a:00.0"), at(t, topo, "1a:00.1"), at(t, topo, "19:00.0")
	if first.Node == nil || first.Node.Number != 0 || second.Node == nil || second.Node.Number != 1 || accelerator.Node != nil {
		t.Errorf("nodes are %v, %v, %v", first.Node, second.Node, accelerator.Node)
	}
	if len(topo.Switches) != 1 || len(topo.Switches[0].Downstream) != 2 || first.Card == nil || first.Card != second.Card {
		t.Errorf("the switch, or the card, is split:\n%s", tree(topo))
	}
	for _, n := range []*Device{first, second} {
		if d := topo.Distance(accelerator, n); d.Class != PIX {
			t.Errorf("to %v: %v, %s", n.Address, d.Class, d.Reason)
		}
	}
	if rails := topo.Rails(accelerator); !slices.Equal(rails, []*Device{first, second}) {
		t.Errorf("%d rails", len(rails))
	}
}

// A guest whose NICs are of node -1, each on a root complex of its own: nothing is
// taken for node 0, and the pairing says that it does not know.
func TestAGuestThatTellsNoNodes(t *testing.T) {
	m := two()
	for i, f := range []struct{ place, class, id, node string }{
		{"pci0001:00/0001:00:00.0", gpu, h100, "0\n"}, {"pci0002:00/0002:00:00.0", gpu, h100, "1\n"},
		{"pci0101:00/0101:00:00.0", "020700", connect, "-1\n"}, {"pci0102:00/0102:00:00.0", "020700", connect, "-1\n"},
	} {
		m.device(f.place, f.class, f.id).file(sysDevices+"/"+f.place+"/numa_node", f.node)
		if i > 1 {
			m.named("infiniband", "mlx5_"+string(rune('0'+i-2)), f.place)
		}
	}
	topo, err := read(t, m)
	if err != nil {
		t.Error(err)
	}
	p, err := topo.Pair(PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range p.Pairs {
		if pair.Class != ClassUnknown || len(pair.Rails) != 1 || !strings.Contains(pair.Reason, "unknown") {
			t.Errorf("%v: %v, %d rails, %s", pair.Accelerator.Address, pair.Class, len(pair.Rails), pair.Reason)
		}
	}
	if len(p.Notes) == 0 || !strings.Contains(p.Notes[0], "Some distances are unknown") {
		t.Errorf("notes: %q", p.Notes)
	}
	if got := told(topo, topo.Findings()); !strings.Contains(got, "numa-unknown warning: mlx5_0 mlx5_1\n") {
		t.Errorf("findings:\n%s", got)
	}
}

// Nodes without a row of distances are different nodes all the same.
func TestNodesWithoutDistances(t *testing.T) {
	m := two().device("pci0000:80/0000:80:01.0", gpu, h100).file(sysDevices+"/pci0000:80/0000:80:01.0/numa_node", "1\n").
		file(lone+"/numa_node", "0\n")
	for i := range 2 {
		delete(m.MapFS, nodesDir+"/node"+string(rune('0'+i))+"/distance")
	}
	topo, err := read(t, m)
	if err != nil || topo.Nodes[0].Distances != nil {
		t.Errorf("%v, %v", topo.Nodes[0].Distances, err)
	}
	if d := topo.Distance(topo.Devices[0], topo.Devices[1]); d.Class != SYS || d.Reason != "NUMA nodes 0 and 1" {
		t.Errorf("%v, %s", d.Class, d.Reason)
	}
}

// One entry that is no address, and modalias files that are missing or nonsense,
// cost no device its place or its numbers, which names are found by.
func TestNumbersBesideAnEntryThatIsNone(t *testing.T) {
	m := server().link(busDevices+"/10001:80:01.x", "../../../devices/pci0000:16").
		device("pci10001:80/10001:80:01.0", "010802", "144d:a808").
		file(lone+"/modalias", "pci:nonsense\n")
	topo, err := read(t, m)
	if err == nil || !strings.Contains(err.Error(), "no PCI address") {
		t.Errorf("%v", err)
	}
	for address, want := range map[string][2]uint16{
		"0000:19:00.0": {0x10de, 0x2330}, "10001:80:01.0": {0x144d, 0xa808}, "0000:1a:00.0": {0x15b3, 0x1021},
	} {
		if d := placed(t, topo, address); d.Vendor != want[0] || d.Product != want[1] {
			t.Errorf("%s is %04x:%04x, want %04x", address, d.Vendor, d.Product, want)
		}
	}
}
