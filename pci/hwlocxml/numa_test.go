package hwlocxml

import (
	"fmt"
	"strings"
	"testing"
)

// TestNodes are files that tell less of the nodes than those of TestFormats, or
// tell it otherwise.
func TestNodes(t *testing.T) {
	const v1, v2, end = `<topology>`, `<topology version="2.0">`, `</object></topology>`
	const gpu = `<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[01-01]"><object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330] [0:0] a1"/></object>`
	const node0, node1 = `<object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1"/>`, `<object type="NUMANode" os_index="1" cpuset="0x2" nodeset="0x2"/>`
	machine := func(sets, objects string) string { return `<object type="Machine" ` + sets + `>` + objects }
	old := func(base string, values ...string) string {
		return `<distances nbobjs="2" relative_depth="1" latency_base="` + base + `"><latency value="` + strings.Join(values, `"/><latency value="`) + `"/></distances>`
	}
	matrix := func(kind, values string) string {
		return `<distances2 type="NUMANode" nbobjs="2" kind="` + kind + `" indexing="os"><indexes length="4">0 1 </indexes><u64values>` + values + `</u64values></distances2>`
	}
	for _, c := range []struct {
		name, text string
		want       string // the accelerator's node, then each node's processors and distances
		says       string
	}{
		{"the only one", v2 + machine(`nodeset="0x1" complete_nodeset="0x1"`, node0+gpu) + end, `0; "0" []`, ""},
		{"one of two", v2 + machine(`nodeset="0x3"`, node0+node1+gpu) + end, `none; "0" [] "1" []`, ""},
		{"the only one that hwloc's process might use", v2 + machine(`nodeset="0x1" complete_nodeset="0x3"`, node0+gpu) + end, `none; "0" []`, ""},
		{"one that is not in the file", v2 + machine(`nodeset="0x2"`, node0+gpu) + end, `none; "0" []`, ""},
		{"early files have no sets of nodes", v1 + machine("", `<object type="NUMANode" os_index="1" cpuset="0x2"><object type="Socket">`+gpu+`</object></object>`) + end, `1; "1" []`, ""},
		{"an unknown set", v2 + machine(`nodeset="0xf...f"`, node0+gpu) + end, `none; "0" []`, ""},
		{"processors that it might not use", v2 + machine(`nodeset="0x1"`, `<object type="NUMANode" os_index="0" cpuset="0x0" complete_cpuset="0x3"/>`+gpu) + end, `0; unknown []`, ""},
		{"memory for all", v2 + machine(`nodeset="0x7" cpuset="0x3"`, `<object type="NUMANode" os_index="2" cpuset="0x3"/>`+node0+node1+gpu) + end, `none; "0" [] "1" [] "" []`, ""},

		{"distances of hwloc 1", v1 + machine(`nodeset="0x3"`, old("10.0", "1.0", "2.1", "2.1", "1.0")+node0+node1+gpu) + end, `none; "0" [10 21] "1" [21 10]`, ""},
		{"beside those of sockets", v1 + machine(`nodeset="0x3"`, old("1.0", "1.0", "2.0", "2.0", "1.0")+old("1.0", "10", "21", "21", "10")+node0+node1+gpu) + end, `none; "0" [10 21] "1" [21 10]`, ""},
		{"of which cannot be told", v1 + machine(`nodeset="0x3"`, old("1.0", "10", "20", "20", "10")+old("1.0", "10", "21", "21", "10")+node0+node1+gpu) + end, `none; "0" [] "1" []`, ""},
		{"no distances of hwloc 1", v1 + machine(`nodeset="0x3"`, old("1.0", "10", "21", "x", "10")+node0+node1+gpu) + end, `none; "0" [] "1" []`, `"x"`},
		{"too few", v1 + machine(`nodeset="0x3"`, old("1.0", "10")+node0+node1+gpu) + end, `none; "0" [] "1" []`, "1 distances"},
		{"too many", v1 + machine(`nodeset="0x3"`, old("1.0", "10", "21", "21", "10", "10")+node0+node1+gpu) + end, `none; "0" [] "1" []`, "more than the 4"},
		{"no base", v1 + machine(`nodeset="0x3"`, old("", "10", "21", "21", "10")+node0+node1+gpu) + end, `none; "0" [] "1" []`, "base"},
		{"bandwidths, and a program's latencies", v2 + machine(`nodeset="0x3"`, node0+node1+gpu) + `</object>` + matrix("9", "1 2 3 4") + matrix("6", "1 2 3 4") + matrix("5", "10 32 32 10") + `</topology>`,
			`none; "0" [10 32] "1" [32 10]`, ""},
		{"of nodes that are not there", v2 + machine(`nodeset="0x1"`, node0+gpu) + `</object>` + matrix("5", "10 32 32 10") + `</topology>`, `0; "0" []`, "node 1"},
		{"of some nodes", v2 + machine(`nodeset="0x7"`, node0+node1+`<object type="NUMANode" os_index="2" cpuset="0x4"/>`+gpu) + `</object>` + matrix("5", "10 32 32 10") + `</topology>`,
			`none; "0" [10 32 0] "1" [32 10 0] "2" []`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(strings.NewReader(c.text))
			if topo == nil || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, %v; want %q", topo, err, c.says)
			}
			got := "none;"
			if n := at(t, topo, "0000:01:00.0").Node; n != nil {
				got = fmt.Sprintf("%d;", n.Number)
			}
			for _, n := range topo.Nodes {
				cpus := "unknown"
				if n.CPUs != nil {
					cpus = fmt.Sprintf("%q", n.CPUs)
				}
				got += fmt.Sprintf(" %s %v", cpus, n.Distances)
			}
			if got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

// TestCoprocessor: what hwloc takes for one is one, whatever its class.
func TestCoprocessor(t *testing.T) {
	topo, err := Read(strings.NewReader(`<topology version="2.0"><object type="Machine"><object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-00]">` +
		`<object type="PCIDev" pci_busid="0000:00:01.0" pci_type="ff00 [1234:0001] [0:0] 00"><object type="OSDev" name="opencl0d0" osdev_type="5"/></object></object></object></topology>`))
	if err != nil {
		t.Fatal(err)
	}
	if d := at(t, topo, "0000:00:01.0"); d.Kind.String() != "accelerator" || len(d.Dev) != 0 {
		t.Errorf("%v %v", d.Kind, d.Dev)
	}
}
