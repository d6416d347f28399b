package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// namedNIC is an opener of a NIC that only has a name.
type namedNIC string

func (n namedNIC) DeviceName() string                        { return string(n) }
func (n namedNIC) Kind() transfer.Kind                       { return transfer.KindEFA }
func (n namedNIC) NICs() int                                 { return 1 }
func (n namedNIC) Open(transfer.Want) (transfer.Rail, error) { return nil, fs.ErrNotExist }

// machine reads one of the corpus, which PEERDIRECT_TOPOLOGY names, as in package pci.
func machine(t *testing.T, name string) *pci.Topology {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../../shared/topology"
	}
	tars, _ := filepath.Glob(filepath.Join(folder, "sysfs", name+".tar.*"))
	if len(tars) != 1 {
		t.Skipf("needs the topology corpus, which is not at %s: PEERDIRECT_TOPOLOGY names its folder", folder)
	}
	root, err := sysroot.Tar(tars[0])
	if err != nil {
		t.Fatal(err)
	}
	at, _ := fs.Glob(root, "*/sys")
	if more, _ := fs.Glob(root, "*/*/sys"); at == nil {
		at = more
	}
	if len(at) == 1 {
		if root, err = fs.Sub(root, filepath.Dir(at[0])); err != nil {
			t.Fatal(err)
		}
	}
	topo, err := pci.Read(root)
	if topo == nil {
		t.Fatal(err)
	}
	return topo
}

// fabric is an opener of the machine's NICs, by their names.
func fabric(topo *pci.Topology, kinds ...pci.Kind) (nics transfer.NICs) {
	for _, k := range kinds {
		for _, d := range topo.Of(k) {
			nics = append(nics, namedNIC(topo.Name(d)))
		}
	}
	return nics
}

func place(t *testing.T, topo *pci.Topology, nics transfer.NICs) *Placement {
	t.Helper()
	p, err := Placed(topo, nics, transfer.Want{}, pci.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Rails) != len(nics) || len(p.Workers) != len(p.Groups) {
		t.Fatalf("%d rails of %d NICs, %d workers of %d groups", len(p.Rails), len(nics), len(p.Workers), len(p.Groups))
	}
	seen := make([]int, len(nics))
	for w, g := range p.Groups {
		for _, i := range g.Rails {
			seen[i]++
			if p.Rails[i].Worker != w {
				t.Errorf("rail %d of group %d has worker %d", i, w, p.Rails[i].Worker)
			}
		}
		if want := len(p.Workers[w].CPUs) > 0; want != (g.Node != nil) {
			t.Errorf("worker %d on node %v has CPUs %v", w, g.Node, p.Workers[w].CPUs)
		}
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("rail %d is in %d groups", i, n)
		}
	}
	return p
}

// shape is groups as accelerators x rails @ node.
func shape(p *Placement) string {
	var b []string
	for _, g := range p.Groups {
		node := "?"
		if g.Node != nil {
			node = fmt.Sprint(g.Node.Number)
		}
		b = append(b, fmt.Sprintf("%dx%d@%s", len(g.Accelerators), len(g.Rails), node))
	}
	return strings.Join(b, " ")
}

// TestPlacedOnMachines: a worker for each accelerator with the NICs of its own switch,
// and whatever there is on other machines.
func TestPlacedOnMachines(t *testing.T) {
	for _, m := range []struct{ name, shape string }{
		{"p5.48xl-topo", "1x4@0 1x4@0 1x4@0 1x4@0 1x4@1 1x4@1 1x4@1 1x4@1"},
		{"p4d.24xl-topo", "2x1@0 2x1@0 2x1@1 2x1@1"},
		{"32intel64-2p8co2t+8ve", "4x1@0 4x1@0"},
		{"coral-lassen", "1x1@0 1x1@0 1x1@8 1x1@8"},
	} {
		t.Run(m.name, func(t *testing.T) {
			topo := machine(t, m.name)
			p := place(t, topo, fabric(topo, pci.RDMANIC))
			if got := shape(p); got != m.shape {
				t.Errorf("%s; want %s", got, m.shape)
			}
			for w, g := range p.Groups {
				for _, a := range g.Accelerators {
					near := p.Near(Place{Device: a.Address.String()})
					for _, i := range near {
						if p.Rails[i].Worker != w {
							t.Errorf("%s is near to rail %d of another worker", topo.Name(a), i)
						}
						if c := topo.Distance(a, p.nics[i]).Class; m.name == "p5.48xl-topo" && c > pci.PXB {
							t.Errorf("%s has rail %d at %v", topo.Name(a), i, c)
						}
					}
					if len(near) == 0 {
						t.Errorf("%s is near to nothing", topo.Name(a))
					}
				}
			}
		})
	}
}

// TestPlacedWithoutAccelerators: NICs go by their nodes, and what is not known is
// near to all.
func TestPlacedWithoutAccelerators(t *testing.T) {
	desktop := machine(t, "linux-amd64-61797caf7c0b6bca1725ad7975ed4773")
	nics := append(fabric(desktop, pci.OtherNIC), namedNIC("efa_9")) // and one that is not there
	p := place(t, desktop, nics)
	if p.Near(Place{}) != nil || p.Near(Place{Device: "ffff:00:00.0"}) != nil || p.Near(Place{Device: "nonsense"}) != nil || p.Near(Place{Exporter: "memfd"}) != nil {
		t.Error("memory of no known place is near to some rails only")
	}
	if got := shape(p); got != "0x5@?" { // it tells of no node
		t.Error(got)
	}
}

// TestPlacedWithoutNodes: rails are placed by their switches, and no worker is bound,
// where no node is known.
func TestPlacedWithoutNodes(t *testing.T) {
	topo := machine(t, "p5.48xl-topo")
	for _, d := range topo.Devices {
		d.Node = nil
	}
	p := place(t, topo, fabric(topo, pci.RDMANIC))
	if got, want := shape(p), strings.Repeat("1x4@? ", 8); got+" " != want {
		t.Errorf("%s; want %s", got, want)
	}
	buf, err := p.NewBuffer(100, Place{Device: topo.Of(pci.Accelerator)[0].Address.String()}, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := buf.Close(); err != nil {
		t.Error(err)
	}
}

// TestPlacedByNode: host memory is near to the NICs of its node.
func TestPlacedByNode(t *testing.T) {
	topo := machine(t, "p5.48xl-topo")
	p := place(t, topo, fabric(topo, pci.RDMANIC))
	for node, want := range map[int][2]int{0: {0, 16}, 1: {16, 32}} {
		near := p.Near(Place{Node: NUMANode(node)})
		if len(near) != 16 || near[0] != want[0] || near[15] != want[1]-1 {
			t.Errorf("node %d is near to %v", node, near)
		}
	}
	if near := p.Near(Place{Node: NUMANode(7)}); near != nil {
		t.Errorf("a node that there is not is near to %v", near)
	}
	// Of an accelerator whose own NICs are not there, the nearest are.
	some := fabric(topo, pci.RDMANIC)[4:]
	p = place(t, topo, some)
	first := topo.Of(pci.Accelerator)[0]
	near := p.Near(Place{Device: first.Address.String()})
	if len(near) == 0 || slices.ContainsFunc(near, func(i int) bool { return p.nics[i].Node != first.Node }) {
		t.Errorf("without its own NICs it is near to %v", near)
	}
}
