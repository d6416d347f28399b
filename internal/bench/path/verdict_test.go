package path

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
)

// made is a report of figures that were made up: a way has a rate at most, GB/s, and
// a time for each copy, us.
func made(ways map[Way][2]float64, change func(*Report)) *Report {
	node := 0
	r := &Report{Schema: Schema, GPUs: [2]GPU{
		{Name: "cuda:0", Model: "NVIDIA H200", Address: "0000:1b:00.0", Node: &node, Link: 63, Engines: 3},
		{Name: "cuda:1", Model: "NVIDIA H200", Address: "0000:43:00.0", Node: &node, Link: 63, Engines: 3},
	}, Access: Access{First: ways[PeerWrite][0] > 0, Second: ways[PeerWrite][0] > 0, Rank: &node},
		PCI: &Between{Class: "NODE", Reason: "different root complexes, pci0000:15 and pci0000:37, of NUMA node 0", Path: []string{"0000:1b:00.0", "0000:43:00.0"},
			Turns: "host bridge", Why: "no bridge is above both"},
		Conditions: Conditions{CUDA: "13.0", Chunk: 2 << 20, Buffers: 2, Depth: 16, Rounds: 5, Seconds: 0.02, Verified: 123 << 30, Nodes: []int{0}, Pinned: [2]*int{&node, &node}, CPUs: 32, Arch: "amd64"}}
	o := Options{GPUs: [2]int{0, 1}}
	if err := o.defaults(); err != nil {
		panic(err)
	}
	for _, w := range Ways() {
		if ways[w][0] == 0 {
			continue
		}
		there := r.directions()
		for i, d := range []string{there[0], there[1], Both} {
			for _, size := range o.sizes() {
				us := ways[w][1] + float64(size)/ways[w][0]/1e3
				v := float64(size) / (us * 1e3) * []float64{1, 0.99, 1.8}[i]
				row := Row{Way: w, Direction: d, Size: size, Rate: Value{v, 0.97 * v, 1.01 * v}, Copies: o.depth(size)}
				if d != Both {
					row.Alone = &Value{us + 5, us + 4, us + 9}
				}
				r.Rows = append(r.Rows, row)
			}
		}
	}
	if change != nil {
		change(r)
	}
	r.Verdict = verdict(r)
	return r
}

// nodesCompared adds rows of two nodes, the second carrying so much of the first.
func nodesCompared(r *Report, part float64) {
	one := 1
	r.GPUs[1].Node = &one
	r.Conditions.Nodes = []int{0, 1}
	nodes := []int{0, 1}
	for _, row := range append([]Row{}, r.Rows...) {
		if row.Way != Piped || row.Direction == Both {
			continue
		}
		for i := range nodes {
			row.Node = &nodes[i]
			row.Rate.Median *= math.Pow(part, float64(i))
			r.Rows = append(r.Rows, row)
		}
	}
}

var (
	linked  = map[Way][2]float64{PeerWrite: {390, 6}, PeerRead: {388, 7}, NoAccess: {30, 25}, Piped: {52, 14}, Plain: {27, 13}, Pageable: {8, 20}}
	staged  = map[Way][2]float64{NoAccess: {20, 9}, Piped: {24, 14}, Plain: {12.4, 14}, Pageable: {5, 22}}
	express = map[Way][2]float64{PeerWrite: {26, 6}, PeerRead: {12, 6}, NoAccess: {26, 6}, Piped: {24, 15}}
)

func TestFormats(t *testing.T) {
	for name, r := range map[string]*Report{
		"linked": made(linked, nil),
		"staged": made(staged, func(r *Report) {
			nodesCompared(r, 0.8)
			r.PCI.Class, r.PCI.Reason, r.PCI.Nodes = "SYS", "NUMA nodes 0 and 1, 21 apart where 10 is local", true
		}),
		"unknown": made(express, func(r *Report) {
			r.PCI, r.GPUs[0].Node, r.Conditions.Nodes, r.Conditions.Verified, r.GPUs[0].Link = nil, nil, nil, 0, 0
		}),
	} {
		var table, asJSON bytes.Buffer
		if err := Table(&table, r); err != nil {
			t.Fatal(err)
		}
		e := json.NewEncoder(&asJSON)
		e.SetIndent("", " ")
		if err := e.Encode(r); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name+".txt", table.Bytes())
		if name == "staged" {
			golden.Check(t, name+".json", asJSON.Bytes())
		}
		for line := range strings.Lines(table.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}

func find(r *Report, code string) string {
	for _, f := range r.Verdict {
		if f.Code == code {
			return f.Text
		}
	}
	return ""
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		r    *Report
		code string
		want []string // "" alone: no such finding
	}{
		"even ways, the first counts": {made(linked, nil), "best", []string{"peer write at every size"}},
		"by size":                     {made(map[Way][2]float64{PeerWrite: {10, 2}, Piped: {40, 50}}, nil), "best", []string{"peer write from 4 KiB to 256 KiB", "piped from 1 MiB to 256 MiB"}},
		"directions apart": {made(linked, func(r *Report) {
			for i := range r.Rows {
				if r.Rows[i].Direction == "cuda:1 to cuda:0" && r.Rows[i].Way == PeerWrite {
					r.Rows[i].Rate.Median /= 2
				}
			}
		}), "direction", []string{"peer write 387 and 191 GB/s"}},
		"best, directions apart": {made(linked, func(r *Report) {
			for i := range r.Rows {
				if r.Rows[i].Direction == "cuda:1 to cuda:0" && r.Rows[i].Way == PeerWrite {
					r.Rows[i].Rate.Median /= 2
				}
			}
		}), "best", []string{"from cuda:0 to cuda:1 is peer write at every size", "from cuda:1 to cuda:0 peer read at every size"}},
		"directions alike":    {made(linked, nil), "direction", []string{""}},
		"alone":               {made(linked, nil), "alone", []string{"One copy alone", "peer write"}},
		"the host's cost":     {made(linked, nil), "host", []string{"peer write carries 387 GB/s", "piped carries 51.9 GB/s, 13 % of it", "pageable carries 8.00 GB/s, 2.1 % of it", "takes 11.0 us by peer write, 19.1 us piped"}},
		"host alone":          {made(staged, nil), "host", []string{"piped carries 24.0 GB/s", "plain carries 12.4 GB/s, 52 %"}},
		"half":                {made(linked, nil), "half", []string{"peer write 4 MiB", "pageable 256 KiB"}},
		"access forgotten":    {made(linked, nil), "no-access", []string{"cuCtxEnablePeerAccess", "of peer write"}},
		"access no matter":    {made(express, nil), "no-access", []string{"carries as much"}},
		"no access":           {made(staged, nil), "access", []string{"not possible", "0): all that goes", "driver stages it: 20.0 GB/s"}},
		"access":              {made(linked, nil), "access", []string{""}},
		"access of one":       {made(linked, func(r *Report) { r.Access.Second = false }), "access", []string{"by cuda:0 only"}},
		"access of other":     {made(linked, func(r *Report) { r.Access.First = false }), "access", []string{"by cuda:1 only"}},
		"both":                {made(linked, nil), "both", []string{"peer write 1.80 times"}},
		"one node":            {made(linked, nil), "placement", []string{"one NUMA node, 0"}},
		"one node of a guest": {made(linked, func(r *Report) { r.Conditions.Virtual = true }), "placement", []string{"whether its host has one is not seen"}},
		"a guest's tree":      {made(linked, func(r *Report) { r.Conditions.Virtual = true }), "path", []string{"NODE in the tree that this virtual machine is shown"}},
		"half at once":        {made(map[Way][2]float64{PeerWrite: {10, 0.001}, Piped: {40, 50}}, nil), "half", []string{"from this size on, back to back: piped 4 MiB."}},
		"nodes matter":        {made(linked, func(r *Report) { nodesCompared(r, 0.5) }), "placement", []string{"matters.", "memory of node 0 carries 51.9 GB/s, of node 1 25.9", "cuda:1 is of node 1"}},
		"nodes do not":        {made(linked, func(r *Report) { nodesCompared(r, 0.99) }), "placement", []string{"does not matter"}},
		"nodes unknown":       {made(linked, func(r *Report) { r.Conditions.Nodes = nil }), "placement", []string{"not known"}},
		"nodes not asked":     {made(linked, func(r *Report) { r.Conditions.Nodes = []int{0, 1} }), "placement", []string{"takes the way pinned-piped"}},
		"another link":        {made(linked, nil), "path", []string{"more than a PCI Express link", "(63.0)", "which that way does not take", "would be a detour there"}},
		"over PCI Express":    {made(express, nil), "detour", []string{"Over PCI Express they are NODE", "is a detour there, up to the host bridge: no bridge is above both"}},
		"processors":          {made(express, func(r *Report) { r.PCI.Nodes = true }), "detour", []string{"from one processor to another"}},
		"a switch": {made(express, func(r *Report) {
			r.PCI.Turns, r.PCI.Class, r.PCI.Why = "bridge", "PIX", "bridge 0000:10:00.0 is above both"
		}),
			"path", []string{"PIX", "turns below the host"}},
		"turn unknown":  {made(express, func(r *Report) { r.PCI.Turns = "" }), "path", []string{"turns is not known"}},
		"link unknown":  {made(linked, func(r *Report) { r.GPUs[1].Link = 0 }), "detour", []string{"7.5 times what goes through the host", "not known here"}},
		"place unknown": {made(linked, func(r *Report) { r.PCI = nil }), "path", []string{"NVLink", "is not known"}},
		"spread":        {made(linked, nil), "spread", []string{"4.0 % of its median"}},
		"one round":     {made(linked, func(r *Report) { r.Conditions.Rounds = 1 }), "spread", []string{""}},
	} {
		text := find(c.r, c.code)
		for _, want := range c.want {
			if want == "" && text != "" || !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %q", name, want, text)
			}
		}
	}
}
