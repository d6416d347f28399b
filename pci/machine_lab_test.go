//go:build lab

package pci

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// labMachine reads the guest, which has several accelerators and EFA devices
// behind switches on two NUMA nodes, and gives how many devices an accelerator has.
func labMachine(t *testing.T) (topo *Topology, each int) {
	t.Helper()
	nics, accelerators := list("PEERDIRECT_EFA"), list("PEERDIRECT_ACCELERATORS")
	if len(accelerators) < 2 || len(nics) != 4*len(accelerators) {
		t.Skip("needs a lab guest with a full switch for each accelerator: lab run --efa 32 --accelerator 8 --memory 1536 --iommu")
	}
	topo = readGuest(t)
	if n := len(topo.Of(RDMANIC)); n != len(nics) {
		t.Fatalf("%d RDMA NICs, the lab says %d", n, len(nics))
	}
	if n := len(topo.Of(Accelerator)); n != len(accelerators) {
		t.Fatalf("%d accelerators, the lab says %d", n, len(accelerators))
	}
	return topo, len(nics) / len(accelerators)
}

func readGuest(t *testing.T) *Topology {
	t.Helper()
	root, err := sysroot.Dir("/")
	if err != nil {
		t.Fatal(err)
	}
	topo, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// list gives the names in a variable of the lab's.
func list(variable string) []string {
	return strings.FieldsFunc(os.Getenv(variable), func(r rune) bool { return r == ',' })
}

// FillNames is that of package names, which stands on this one.
var FillNames func(t *Topology, path string) error

// lspci is told apart from the kernel's files: it reads config space by itself.
func TestTopologyAgreesWithLspci(t *testing.T) {
	topo, _ := labMachine(t)
	if err := FillNames(topo, ""); err != nil {
		t.Fatal(err)
	}
	theirs := lspci(t)
	if len(theirs) != len(topo.Devices) {
		t.Errorf("lspci lists %d functions, we %d", len(theirs), len(topo.Devices))
	}
	for _, d := range topo.Devices {
		their := theirs[d.Address]
		if their == nil {
			t.Errorf("lspci does not list %s", d.Address)
			continue
		}
		if diff := cmp.Diff(*their, asFunction(d)); diff != "" {
			t.Errorf("%s: -lspci +ours\n%s", d.Address, diff)
		}
	}
	t.Logf("%s: equal: %s", strings.TrimSpace(tool(t, "lspci", "--version")), lspciText(theirs))
}

// The lab puts four EFA devices and one accelerator on each switch, and half of
// the switches on each NUMA node (docs/lab.md).
func TestTopologyPairsBySwitch(t *testing.T) {
	topo, each := labMachine(t)
	accelerators := topo.Of(Accelerator)
	if len(topo.Switches) != len(accelerators) {
		t.Fatalf("%d switches for %d accelerators", len(topo.Switches), len(accelerators))
	}
	pairing, err := topo.Pair(PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pairing.Pairs) != len(accelerators) || len(pairing.Unpaired) > 0 {
		t.Fatalf("%d pairs, unpaired %v", len(pairing.Pairs), pairing.Unpaired)
	}
	taken := map[*Device]bool{}
	for i, p := range pairing.Pairs {
		port := p.Accelerator.Parent
		if p.Accelerator != accelerators[i] || port.Switch != topo.Switches[i] || len(port.Switch.Downstream) != each+1 {
			t.Fatalf("pair %d is of %s, below %s of a switch with %d ports", i, p.Accelerator.Address, port.Address, len(port.Switch.Downstream))
		}
		half := 2 * i / len(accelerators)
		if p.Accelerator.Node == nil || p.Accelerator.Node.Number != half {
			t.Errorf("accelerator %d is on node %v, not on %d", i, p.Accelerator.Node, half)
		}
		var names []string
		for j, nic := range p.Rails {
			names = append(names, nic.RDMA[0].Name)
			if want := fmt.Sprintf("efa_%d", each*i+j); nic.RDMA[0].Name != want || taken[nic] {
				t.Errorf("rail %d of accelerator %d is %s, not %s", j, i, nic.RDMA[0].Name, want)
			}
			taken[nic] = true
			if nic.Parent.Switch != port.Switch || nic.Node != p.Accelerator.Node {
				t.Errorf("%s is below another switch than accelerator %d, or on another node", names[j], i)
			}
		}
		if len(p.Rails) != each || p.Class != PIX || p.Reason == "" {
			t.Errorf("accelerator %d has %d rails, %s: %s", i, len(p.Rails), p.Class, p.Reason)
		}
		t.Logf("%s %s node %d: %s %s", topo.Name(p.Accelerator), p.Accelerator.Address, half, p.Class, strings.Join(names, " "))
	}
	// The card of the link is no rail.
	if i := slices.IndexFunc(pairing.Ignored, func(i Ignored) bool { return slices.Contains(i.Device.Net, "eth0") }); i < 0 || pairing.Ignored[i].Why == "" {
		t.Errorf("eth0 is not among the ignored: %+v", pairing.Ignored)
	}
	classes := map[Class]int{}
	for i, a := range accelerators {
		for _, nic := range topo.Of(RDMANIC) {
			want := SYS
			switch {
			case slices.Contains(pairing.Pairs[i].Rails, nic):
				want = PIX
			case nic.Node == a.Node:
				want = PHB // one root bus a node
			}
			d := topo.Distance(a, nic)
			if d.Class != want || d.Reason == "" {
				t.Errorf("%s to %s: %s (%s), not %s", topo.Name(a), topo.Name(nic), d.Class, d.Reason, want)
			}
			classes[d.Class]++
		}
	}
	t.Logf("accelerator x NIC: %v", classes)
}
