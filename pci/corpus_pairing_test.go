package pci

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// dgx2 is the DGX-2's capture with the NICs and NVMe that it lacks.
func dgx2(t testing.TB) *Topology {
	t.Helper()
	var guide struct {
		NVMe  map[string]string
		Ports map[string]string `json:"nvme_parent_ports"`
	}
	if err := json.Unmarshal(corpusFile(t, "published/nvidia-dgx2-gds-guide.json"), &guide); err != nil {
		t.Fatal(err)
	}
	topo := captured(t, "nvidiaDGX2")
	dgx2IO(t, topo, guide.NVMe, guide.Ports)
	return topo
}

// paired is a pairing as the golden files have it: for each accelerator its class
// and rails, then what is free, what is ignored, and the notes.
func paired(topo *Topology, p *Pairing) string {
	var b bytes.Buffer
	for _, pair := range p.Pairs {
		fmt.Fprintf(&b, "%s %v:", topo.label(pair.Accelerator), pair.Class)
		for _, r := range pair.Rails {
			b.WriteString(" " + topo.label(r))
		}
		fmt.Fprintf(&b, "\n  %s\n", pair.Reason)
	}
	for _, d := range p.Unpaired {
		fmt.Fprintf(&b, "free: %s\n", topo.label(d))
	}
	for _, i := range p.Ignored {
		fmt.Fprintf(&b, "ignored: %s, %s\n", topo.label(i.Device), i.Why)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// TestCorpusPairing pins the pairing of every machine of the corpus, and holds it
// to what every pairing has to keep.
func TestCorpusPairing(t *testing.T) {
	tars, err := filepath.Glob(filepath.Join(corpusFolder(t), "sysfs", "*.tar.*"))
	if err != nil || len(tars) < 15 {
		t.Fatalf("%d captures, %v", len(tars), err)
	}
	machines := map[string]func(testing.TB) *Topology{"dgx2-with-nics": dgx2}
	for _, file := range tars {
		name, _, _ := strings.Cut(filepath.Base(file), ".tar.")
		machines[name] = func(t testing.TB) *Topology { return captured(t, name) }
	}
	for name, read := range machines {
		t.Run(name, func(t *testing.T) {
			topo := read(t)
			p, err := topo.Pair(PairOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, golden := paired(topo, p), "testdata/pairing/"+name+".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the pairing differs (-update writes it anew):\n%s", diff)
			}
			keepsItsWord(t, topo, p)
			r := rand.New(rand.NewPCG(1, 2))
			for range 3 {
				r.Shuffle(len(topo.Devices), func(i, j int) { topo.Devices[i], topo.Devices[j] = topo.Devices[j], topo.Devices[i] })
				r.Shuffle(len(topo.Roots), func(i, j int) { topo.Roots[i], topo.Roots[j] = topo.Roots[j], topo.Roots[i] })
				Assemble(topo)
				again, err := topo.Pair(PairOptions{})
				if err != nil || paired(topo, again) != got {
					t.Fatalf("the order of reading matters: %v\n%s", err, paired(topo, again))
				}
			}
		})
	}
}

// keepsItsWord checks that of the fabric's NICs every accelerator has one, each of
// them a nearest; that those with the same nearest have as many, but one; and that
// no NIC is shared while another as near is free.
func keepsItsWord(t *testing.T, topo *Topology, p *Pairing) {
	t.Helper()
	fabric := slices.Clone(p.Unpaired)
	users := map[*Device]int{}
	for _, pair := range p.Pairs {
		for _, r := range pair.Rails {
			if users[r]++; users[r] == 1 {
				fabric = append(fabric, r)
			}
		}
	}
	ordered(fabric)
	type span struct{ fewest, most int }
	alike := map[string]*span{} // by the nearest set
	for _, pair := range p.Pairs {
		if len(fabric) == 0 {
			break
		}
		near, class := nearest(topo, pair.Accelerator, fabric)
		if n := len(pair.Rails); n == 0 || pair.Class != class {
			t.Errorf("%v has %d rails, %v; the nearest is %v", pair.Accelerator.Address, n, pair.Class, class)
		}
		var shared, free bool
		for _, r := range pair.Rails {
			if !slices.Contains(near, r) {
				t.Errorf("%v, a rail of %v, is none of its nearest", r.Address, pair.Accelerator.Address)
			}
			shared = shared || users[r] > 1
		}
		for _, r := range near {
			free = free || users[r] == 0
		}
		if shared && free {
			t.Errorf("%v shares, and one as near is free", pair.Accelerator.Address)
		}
		key := fmt.Sprint(near)
		if alike[key] == nil {
			alike[key] = &span{len(pair.Rails), len(pair.Rails)}
		}
		alike[key].fewest = min(alike[key].fewest, len(pair.Rails))
		alike[key].most = max(alike[key].most, len(pair.Rails))
	}
	for _, s := range alike {
		if s.most-s.fewest > 1 {
			t.Errorf("accelerators with the same nearest have %d to %d rails", s.fewest, s.most)
		}
	}
}

// TestCorpusRails says of the machines that people ask about what their pairing
// has to be.
func TestCorpusRails(t *testing.T) {
	corpusFolder(t) // or skip
	for _, c := range []struct {
		name  string
		read  func(t testing.TB) *Topology
		pairs int
		class Class
		rails int // of each accelerator
		users int // of each rail
		fair  func(a, n *Device) bool
	}{
		{"p5: four EFA below each accelerator's own switch", func(t testing.TB) *Topology { return captured(t, "p5.48xl-topo") }, 8, PIX, 4, 1,
			func(a, n *Device) bool { return a.Root == n.Root && n.Vendor == amazon }},
		{"p4d: two accelerators share the EFA of their root complex", func(t testing.TB) *Topology { return captured(t, "p4d.24xl-topo") }, 8, PHB, 1, 2,
			func(a, n *Device) bool { return a.Root == n.Root && n.Product == 0xefa0 }},
		{"DGX-2: two accelerators share the NIC of their switch", dgx2, 16, PIX, 1, 2,
			func(a, n *Device) bool { return a.Parent.Parent == n.Parent.Parent }},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo := c.read(t)
			p, err := topo.Pair(PairOptions{})
			if err != nil || len(p.Pairs) != c.pairs {
				t.Fatalf("%d pairs, %v", len(p.Pairs), err)
			}
			users := map[*Device]int{}
			for _, pair := range p.Pairs {
				if pair.Class != c.class || len(pair.Rails) != c.rails {
					t.Errorf("%s: %d rails, %v", topo.Name(pair.Accelerator), len(pair.Rails), pair.Class)
				}
				for _, n := range pair.Rails {
					if users[n]++; !c.fair(pair.Accelerator, n) {
						t.Errorf("%s has %s", topo.label(pair.Accelerator), topo.label(n))
					}
				}
			}
			for n, count := range users {
				if count != c.users {
					t.Errorf("%s is a rail of %d", topo.label(n), count)
				}
			}
			if len(p.Unpaired) > 0 {
				t.Errorf("free: %d", len(p.Unpaired))
			}
		})
	}
}
