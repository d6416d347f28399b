package report

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/pci"
)

// text is what a view prints.
func text(t testing.TB, print func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := print(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tree(t testing.TB, topo *pci.Topology, o Options) []byte {
	return text(t, func(w io.Writer) error { return Tree(w, topo, o) })
}

func TestTree(t *testing.T) {
	topo := newServer(t)
	rails := pair(t, topo)
	unknown := sketch(t, dim)
	for name, got := range map[string][]byte{
		"tree.txt":         tree(t, topo, Options{Pairing: rails}),
		"tree-80.txt":      tree(t, topo, Options{Pairing: rails, Width: 80}),
		"tree-44.txt":      tree(t, topo, Options{Pairing: rails, Width: 44}),
		"tree-all.txt":     tree(t, topo, Options{All: true}),
		"tree-unknown.txt": tree(t, unknown, Options{Pairing: pair(t, unknown)}),
	} {
		golden.Check(t, name, got)
	}
}

// No line is wider than it may be, and nothing is lost but the ends of lines.
func TestTreeFits(t *testing.T) {
	topo := newServer(t)
	rails := pair(t, topo)
	lines := bytes.Count(tree(t, topo, Options{Pairing: rails}), []byte("\n"))
	for width := 1; width <= 140; width++ {
		got := tree(t, topo, Options{Pairing: rails, Width: width})
		if n := bytes.Count(got, []byte("\n")); n != lines {
			t.Errorf("width %d: %d lines, and %d without a bound", width, n, lines)
		}
		for line := range strings.Lines(string(got)) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
	}
}

// Every function of the machine has its line, or is counted.
func TestTreeCountsWhatItHides(t *testing.T) {
	topo := newServer(t)
	got := string(tree(t, topo, Options{All: true}))
	for _, d := range topo.Devices {
		if _, short, _ := strings.Cut(d.Address.String(), ":"); strings.Count(got, short) != 1 {
			t.Errorf("%s is there %d times:\n%s", short, strings.Count(got, short), got)
		}
	}
	// Counted by hand in the drawing.
	got = string(tree(t, topo, Options{}))
	for _, hidden := range []string{"3 other functions, 1 bridge", "beside 1 other function", "1 root complex with 2 other functions",
		"2 virtual functions", "NUMA nodes 2-3: no processors", "1 other function\n"} {
		if !strings.Contains(got, hidden) {
			t.Errorf("no %q in\n%s", hidden, got)
		}
	}
}

// A virtual function that is a rail is shown, and one that nobody uses is not.
func TestTreeShowsRails(t *testing.T) {
	topo := newServer(t)
	overrides, err := pci.ParseOverrides(strings.NewReader("GPU2 = 0000:91:00.2\n"))
	if err != nil {
		t.Fatal(err)
	}
	rails, err := topo.Pair(pci.PairOptions{Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	got := string(tree(t, topo, Options{Pairing: rails}))
	if !strings.Contains(got, "91:00.2") || !strings.Contains(got, "virtual function of mlx5_2") || strings.Contains(got, "91:00.3") {
		t.Errorf("91:00.2 is a rail and 91:00.3 is not:\n%s", got)
	}
}

func TestTreesOutOfTheOrdinary(t *testing.T) {
	for _, c := range []struct{ name, drawing, want string }{
		{"a node that only a device names", "node 0 cpus=0\nnode 7 absent\nroot 0000:00 node=7\n  00:01.0 gpu\n",
			"NUMA node 0: CPUs 0; no PCI device\nNUMA node 7: not listed by the kernel\n\\-pci0000:00\n  \\-00:01.0  GPU0  10de:2330\n"},
		{"a device of another node than its root", "node 0 cpus=0\nnode 1 cpus=1\nroot 0000:00 node=0\n  00:01.0 gpu node=1\n",
			"NUMA node 0: CPUs 0\n\\-pci0000:00\n  \\-00:01.0  GPU0  10de:2330  NUMA node 1\nNUMA node 1: CPUs 1; no PCI device\n"},
		{"a root complex without its node, but with its devices'", "node 0 cpus=0\nroot 0000:00\n  00:01.0 gpu node=0\n",
			"NUMA node 0: CPUs 0\n\\-pci0000:00\n  \\-00:01.0  GPU0  10de:2330\n"},
		{"bridges with nothing below", "root 0000:00\n  00:01.0 bridge\n  00:02.0 bridge\nroot 0000:01\n",
			"NUMA node unknown\n\\-2 root complexes with 2 bridges with nothing below\n"},
		{"only the width it could have", "root 0000:00\n  00:01.0 gpu link=0x0/32x16\n",
			"NUMA node unknown\n\\-pci0000:00\n  \\-00:01.0  GPU0  10de:2330  ? of 32 GT/s x16\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got, _ := strings.Cut(string(tree(t, sketch(t, c.drawing), Options{})), "\n") // the first counts
			if c.name == "bridges with nothing below" {
				got = string(tree(t, sketch(t, c.drawing), Options{}))
			}
			if got != c.want {
				t.Errorf("%s; want\n%s", got, c.want)
			}
		})
	}
}

// What hangs on no root complex, as in a file of another tool, is there too.
func TestTreeWithoutRoots(t *testing.T) {
	topo := newServer(t)
	for _, d := range topo.Devices {
		d.Root, d.Node = nil, nil
	}
	topo.Roots, topo.Nodes = nil, nil
	pci.Assemble(topo)
	got := string(tree(t, topo, Options{All: true}))
	for _, d := range topo.Devices {
		if _, short, _ := strings.Cut(d.Address.String(), ":"); strings.Count(got, short) != 1 {
			t.Errorf("%s is there %d times:\n%s", short, strings.Count(got, short), got)
		}
	}
}

// A chain of bridges does not push what it leads to off the line.
func TestDeepTree(t *testing.T) {
	var b strings.Builder
	b.WriteString("root 0000:00\n")
	for i := range 100 {
		b.WriteString(strings.Repeat("  ", i+1) + "00:" + strconv.FormatInt(int64(i/8), 16) + "." + strconv.Itoa(i%8) + " port\n")
	}
	b.WriteString(strings.Repeat("  ", 101) + "01:00.0 gpu\n")
	got := string(tree(t, sketch(t, b.String()), Options{Width: 80}))
	if want := "1 accelerator\nNUMA node unknown\n\\-pci0000:00\n" +
		"  \\-00:00.0---…---00:0c.2---00:0c.3---01:00.0  GPU0  10de:2330\n"; got != want {
		t.Errorf("a chain of 100 bridges:\n%s; want\n%s", got, want)
	}
}
