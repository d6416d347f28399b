package pci

import (
	"slices"
	"strings"
	"testing"
)

// two is a machine of two nodes with a function on a root bus.
func two() machine {
	return newMachine().
		file(nodesDir+"/online", "0-1\n").
		file(nodesDir+"/node0/cpulist", "0-3\n").
		file(nodesDir+"/node0/distance", "10 21\n").
		file(nodesDir+"/node0/meminfo", "\nNode 0 MemTotal:       16747124 kB\nNode 0 MemFree:        15794148 kB\n").
		file(nodesDir+"/node1/cpulist", "4-7\n").
		file(nodesDir+"/node1/distance", "21 10\n").
		device("pci0000:00/0000:00:01.0", "020000", "15b3:1017")
}

const lone = sysDevices + "/pci0000:00/0000:00:01.0"

func read(t *testing.T, m machine) (*Topology, error) {
	t.Helper()
	topo, err := Read(m)
	if topo == nil {
		t.Fatal(err)
	}
	return topo, err
}

func TestNodes(t *testing.T) {
	topo, err := read(t, two().file(lone+"/numa_node", "1\n").file(lone+"/local_cpulist", "4-7\n"))
	if err != nil {
		t.Error(err)
	}
	if len(topo.Nodes) != 2 {
		t.Fatalf("%d nodes", len(topo.Nodes))
	}
	first, second := topo.Nodes[0], topo.Nodes[1]
	if !first.Present || first.CPUs.String() != "0-3" || first.Memory != 16747124<<10 || !slices.Equal(first.Distances, []int{10, 21}) {
		t.Errorf("node 0 is %+v", first)
	}
	if second.Memory != -1 {
		t.Errorf("memory that nothing tells is %d", second.Memory)
	}
	d := topo.Devices[0]
	if d.Node != second || d.CPUs.String() != "4-7" {
		t.Errorf("the device is on %+v, near %v", d.Node, d.CPUs)
	}
	if topo.Roots[0].Node != second {
		t.Errorf("all functions of the bus are on node 1, the root complex on %+v", topo.Roots[0].Node)
	}
}

func TestNodesThatMislead(t *testing.T) {
	for _, c := range []struct {
		name  string
		m     machine
		node  int    // of the device; -1 is unknown
		nodes string // the numbers of all, + if the kernel lists it, and their CPUs
		err   string // part of it; "" is none
	}{
		{"-1", two().file(lone+"/numa_node", "-1\n"), -1, "0+[0-3] 1+[4-7]", ""},
		{"no file", two(), -1, "0+[0-3] 1+[4-7]", ""},
		{"an empty file", two().file(lone+"/numa_node", ""), -1, "0+[0-3] 1+[4-7]", ""},
		{"no number", two().file(lone+"/numa_node", "zero\n"), -1, "0+[0-3] 1+[4-7]", `"zero" is no NUMA node`},
		{"beyond any machine", two().file(lone+"/numa_node", "2147483647\n"), -1, "0+[0-3] 1+[4-7]", "no NUMA node"},
		{"a node that is not there", two().file(lone+"/numa_node", "2\n").file(lone+"/local_cpulist", "0-7\n"), 2, "0+[0-3] 1+[4-7] 2?", ""},
		{"a list with strides", two().file(nodesDir+"/node0/cpulist", "0,2,4-8,100-102\n"), -1, "0+[0,2,4-8,100-102] 1+[4-7]", ""},
		{"a node without CPUs", two().file(nodesDir+"/node1/cpulist", "\n"), -1, "0+[0-3] 1+[]", ""},
		{"a folder that is missing", two().file(nodesDir+"/online", "0-2\n"), -1, "0+[0-3] 1+[4-7] 2+?", "machine has 3 nodes"},
		{"a list of nodes that is none", two().file(nodesDir+"/online", "all\n"), -1, "0+[0-3] 1+[4-7]", "online"},
		{"CPUs that are none", two().file(nodesDir+"/node1/cpulist", "4-\n"), -1, "0+[0-3] 1+?", "no list of CPUs"},
		{"no nodes", newMachine().device("pci0000:00/0000:00:01.0", "020000", "15b3:1017").file(lone+"/numa_node", "0\n"), 0, "0?", ""},
	} {
		topo, err := read(t, c.m)
		var nodes []string
		for _, n := range topo.Nodes {
			s := string(rune('0' + n.Number))
			if n.Present {
				s += "+"
			}
			if n.CPUs == nil {
				s += "?"
			} else {
				s += "[" + n.CPUs.String() + "]"
			}
			nodes = append(nodes, s)
		}
		if got := strings.Join(nodes, " "); got != c.nodes {
			t.Errorf("%s: nodes %s, want %s", c.name, got, c.nodes)
		}
		got := -1
		if n := topo.Devices[0].Node; n != nil {
			got = n.Number
		}
		if got != c.node {
			t.Errorf("%s: the device is on %d, want %d", c.name, got, c.node)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

func TestDistancesStayInTheOrderOfTheNodes(t *testing.T) {
	m := two().file(nodesDir+"/online", "0,2\n").file(nodesDir+"/node2/distance", "21 10\n").file(lone+"/numa_node", "1\n")
	topo, err := read(t, m)
	if err != nil {
		t.Error(err)
	}
	for i, want := range [][]int{{10, 0, 21}, nil, {21, 0, 10}} {
		if got := topo.Nodes[i].Distances; !slices.Equal(got, want) {
			t.Errorf("from node %d: %v, want %v", topo.Nodes[i].Number, got, want)
		}
	}
	for _, bad := range []string{"10", "10 21 31", "10 x", "10 -1"} {
		topo, err := read(t, two().file(nodesDir+"/node0/distance", bad))
		if err == nil || topo.Nodes[0].Distances != nil || topo.Nodes[1].Distances == nil {
			t.Errorf("%q: %v, %v", bad, topo.Nodes[0].Distances, err)
		}
	}
}

// A root complex whose functions disagree, or do not tell, has no node.
func TestTheNodeOfARootComplex(t *testing.T) {
	for _, second := range []string{"0", "-1"} {
		m := two().device("pci0000:00/0000:00:02.0", "020000", "15b3:1017").
			file(lone+"/numa_node", "1").file(sysDevices+"/pci0000:00/0000:00:02.0/numa_node", second)
		topo, _ := read(t, m)
		if n := topo.Roots[0].Node; n != nil {
			t.Errorf("nodes 1 and %s make %+v", second, n)
		}
	}
}

func FuzzNode(f *testing.F) {
	f.Add("10 21", "1", "Node 0 MemTotal: 5 kB", 2)
	f.Add("", "-1", "", 0)
	f.Fuzz(func(t *testing.T, distances, number, memory string, nodes int) {
		if row, err := parseDistances(distances, nodes); err == nil && len(row) != nodes {
			t.Errorf("%q: %v for %d nodes", distances, row, nodes)
		}
		if n, err := parseNodeNumber(number); n < -1 || n > maxNode || err != nil && n != -1 {
			t.Errorf("%q: %d, %v", number, n, err)
		}
		if bytes := parseMemTotal(memory); bytes < -1 {
			t.Errorf("%q: %d bytes", memory, bytes)
		}
	})
}
