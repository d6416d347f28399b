package report

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/pci"
)

func TestMatrix(t *testing.T) {
	topo := newServer(t)
	golden.Check(t, "matrix.txt", text(t, func(w io.Writer) error { return Matrix(w, topo) }))
	// Nodes that are no place, a NIC without an RDMA device, and none that is known.
	golden.Check(t, "matrix-unknown.txt", text(t, func(w io.Writer) error { return Matrix(w, sketch(t, dim)) }))
}

func TestMatrixWithoutNICs(t *testing.T) {
	got := string(text(t, func(w io.Writer) error {
		return Matrix(w, sketch(t, "node 0 cpus=0-3\nnode 1 cpus=\nroot 0000:00 node=0\n  00:01.0 gpu\n  00:02.0 gpu node=1\n"))
	}))
	want := "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n" +
		"GPU0     X      PHB     0-3             0               N/A\n" +
		"GPU1    PHB      X      ?               ?               N/A\n\nLegend:\n"
	if !strings.HasPrefix(got, want) || strings.Contains(got, "NIC Legend") {
		t.Errorf("%s; want\n%s", got, want)
	}
}

// TestMatrixAsNvidiaSMI compares a matrix with the one that nvidia-smi topo -m printed
// on the same machine.
func TestMatrixAsNvidiaSMI(t *testing.T) {
	folder := corpus(t)
	const machine = "puget-threadripper-pro-wrx90"
	data, err := os.ReadFile(filepath.Join(folder, "answers", machine+".nvidia-smi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Order, Labels []string
		NUMA          map[string]int
		Tree          map[string]struct {
			Root    string
			Parents []string
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	topo := &pci.Topology{}
	cpus, err := pci.ParseCPUs("0-23")
	if err != nil {
		t.Fatal(err)
	}
	node := &pci.Node{Present: true, CPUs: cpus}
	topo.Nodes = []*pci.Node{node}
	roots, devices := map[string]*pci.Root{}, map[string]*pci.Device{}
	for name := range answer.Tree {
		a, err := pci.ParseAddress(name)
		if err != nil {
			t.Fatal(err)
		}
		devices[name] = &pci.Device{Address: a, Group: -1}
		topo.Devices = append(topo.Devices, devices[name])
	}
	for name, at := range answer.Tree {
		d := devices[name]
		if roots[at.Root] == nil {
			roots[at.Root] = &pci.Root{Name: at.Root}
			topo.Roots = append(topo.Roots, roots[at.Root])
		}
		d.Root = roots[at.Root]
		if n := len(at.Parents); n > 0 {
			d.Parent = devices[at.Parents[n-1]]
			d.Parent.Kind = pci.Bridge
		}
	}
	for i, label := range answer.Labels {
		d := devices[answer.Order[i]]
		d.Node, d.Kind = node, pci.Accelerator
		if _, name, isNIC := strings.Cut(label, "="); isNIC {
			d.Kind, d.RDMA = pci.RDMANIC, []pci.RDMA{{Name: name}}
		}
	}
	pci.Assemble(topo)
	got := string(text(t, func(w io.Writer) error { return Matrix(w, topo) }))

	published, err := os.ReadFile(filepath.Join(folder, "published", machine+".md"))
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(published), "nvidia-smi topo -m\n")
	printed, legend, ok2 := strings.Cut(page, "\n\nLegend:\n")
	if !ok || !ok2 {
		t.Fatal("no matrix in the published page")
	}
	matrix, rest, _ := strings.Cut(got, "\n\nLegend:\n")
	if diff := cmp.Diff(words(printed), words(matrix)); diff != "" {
		t.Errorf("the matrix is not nvidia-smi's (-want +got):\n%s", diff)
	}
	_, nics, _ := strings.Cut(rest, "NIC Legend:\n")
	_, want, _ := strings.Cut(legend, "NIC Legend:\n")
	want, _, _ = strings.Cut(want, "```")
	if diff := cmp.Diff(words(want), words(nics)); diff != "" {
		t.Errorf("the NIC legend is not nvidia-smi's (-want +got):\n%s", diff)
	}
}

// words of each line; how many blanks are between is a matter of tabs.
func words(s string) (lines [][]string) {
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) > 0 {
			lines = append(lines, f)
		}
	}
	return lines
}

func TestPairs(t *testing.T) {
	topo := newServer(t)
	for name, width := range map[string]int{"pairs.txt": 0, "pairs-60.txt": 60} {
		golden.Check(t, name, text(t, func(w io.Writer) error { return Pairs(w, topo, pair(t, topo), Options{Width: width}) }))
	}
	none := sketch(t, "root 0000:00\n  00:01.0 gpu\n  00:02.0 gpu\n  00:03.0 eth net=a\n  00:04.0 eth net=b\n")
	golden.Check(t, "pairs-none.txt", text(t, func(w io.Writer) error { return Pairs(w, none, pair(t, none), Options{}) }))
}

// Every device that a pairing names is in its text.
func TestPairsNameAll(t *testing.T) {
	topo := newServer(t)
	for most := range 3 {
		p, err := topo.Pair(pci.PairOptions{Most: most})
		if err != nil {
			t.Fatal(err)
		}
		got := string(text(t, func(w io.Writer) error { return Pairs(w, topo, p, Options{}) }))
		devices := slices.Clone(p.Unpaired)
		for _, pair := range p.Pairs {
			devices = append(append(devices, pair.Accelerator), pair.Rails...)
		}
		for _, i := range p.Ignored {
			devices = append(devices, i.Device)
		}
		for _, d := range devices {
			if !strings.Contains(got, topo.Name(d)) {
				t.Errorf("at most %d rails: no %s in\n%s", most, topo.Name(d), got)
			}
		}
	}
}

func TestFindings(t *testing.T) {
	topo := newServer(t)
	for name, width := range map[string]int{"findings.txt": 0, "findings-72.txt": 72} {
		golden.Check(t, name, text(t, func(w io.Writer) error { return Findings(w, topo, Options{Width: width}) }))
	}
}

// Rails that were overridden are what findings look at, in text and in JSON.
func TestFindingsOfOverriddenRails(t *testing.T) {
	topo := newServer(t)
	overrides, err := pci.ParseOverrides(strings.NewReader("GPU2 = mlx5_0\n"))
	if err != nil {
		t.Fatal(err)
	}
	far, err := topo.Pair(pci.PairOptions{Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*pci.Pairing{far, pair(t, topo)} {
		prose := string(text(t, func(w io.Writer) error { return Findings(w, topo, Options{Pairing: p}) }))
		doc := string(documentOf(t, topo, p, nil))
		if want := p == far; strings.Contains(prose, pci.FindingNICFar) != want || strings.Contains(doc, `"`+pci.FindingNICFar+`"`) != want {
			t.Errorf("overridden %v: %s", want, prose)
		}
	}
}

// Without Options.All a finding of many devices names some.
func TestFindingOfManyDevices(t *testing.T) {
	var b strings.Builder
	b.WriteString("root 0000:00\n")
	for _, digit := range "123456789abcdef" {
		b.WriteString("  00:0" + string(digit) + ".0 gpu link=8x8/16x16\n  00:1" + string(digit) + ".0 gpu link=8x8/16x16\n")
	}
	topo := sketch(t, b.String())
	for all, want := range map[bool]string{false: "GPU15 and 14 more\n", true: "GPU28, GPU29\n"} {
		got := string(text(t, func(w io.Writer) error { return Findings(w, topo, Options{All: all}) }))
		if !strings.Contains(got, want) {
			t.Errorf("all %v: no %q in\n%s", all, want, got)
		}
	}
}
