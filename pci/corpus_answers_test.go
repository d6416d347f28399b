package pci

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// answer is what answers/*.derived.json tells of a machine.
type answer struct {
	Counts  map[string]int
	Devices map[string]struct {
		Root    string
		Parents []string
		NUMA    *int
		Class   string `json:"class_"`
		ID, OS  []string
	}
	// Classes from each accelerator, by address.
	NIC  map[string]map[string]string `json:"gpu_nic"`
	GPU  map[string]map[string]string `json:"gpu_gpu"`
	NVMe map[string]map[string]string `json:"gpu_nvme"`
	// The nearest of each accelerator; null if there is none.
	NearestNIC  map[string]*nearestSet `json:"nearest_nic"`
	NearestNVMe map[string]*nearestSet `json:"nearest_nvme"`
}

type nearestSet struct {
	Class   string   `json:"cls"`
	Devices []string `json:"devs"`
}

// compared counts what an answer was compared in.
type compared struct{ devices, pairs, sets int }

// TestCorpusAnswers compares each capture that has an answer beside it with all of
// it: devices and their places, the class of every pair, the nearest sets.
func TestCorpusAnswers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpusFolder(t), "answers", "*.derived.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in %s: %v", corpusFolder(t), err)
	}
	var all compared
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".derived.json")
		t.Run(name, func(t *testing.T) {
			var want answer
			if err := json.Unmarshal(corpusFile(t, "answers/"+filepath.Base(file)), &want); err != nil {
				t.Fatal(err)
			}
			topo, err := Read(capturedRoot(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var n compared
			n.devices = want.sameDevices(t, topo)
			nics := append(topo.Of(RDMANIC), topo.Of(OtherNIC)...)
			n.pairs = sameClasses(t, topo, want.NIC, nics) + sameClasses(t, topo, want.GPU, topo.Of(Accelerator)) +
				sameClasses(t, topo, want.NVMe, topo.Of(NVMe))
			n.sets = sameNearest(t, topo, want.NearestNIC, nics) + sameNearest(t, topo, want.NearestNVMe, topo.Of(NVMe))
			if accelerators := len(topo.Of(Accelerator)); n.devices == 0 || accelerators > 0 && (n.pairs == 0 || n.sets == 0) {
				t.Errorf("compared %+v of %d accelerators", n, accelerators)
			}
			t.Logf("%d devices, %d pairs, %d nearest sets", n.devices, n.pairs, n.sets)
			all.devices, all.pairs, all.sets = all.devices+n.devices, all.pairs+n.pairs, all.sets+n.sets
		})
	}
	t.Logf("%d answers: %d devices, the class of %d pairs, %d nearest sets", len(files), all.devices, all.pairs, all.sets)
}

// sameDevices compares the list and the place of each device, and counts them.
func (want *answer) sameDevices(t *testing.T, topo *Topology) (compared int) {
	counts := map[string]int{}
	for _, d := range topo.Devices {
		counts[map[Kind]string{Accelerator: "gpu", RDMANIC: "nic", OtherNIC: "nic", NVMe: "nvme",
			Bridge: "bridge", BMC: "vga", NVSwitch: "other", Other: "other"}[d.Kind]]++
	}
	if fmt.Sprint(counts) != fmt.Sprint(want.Counts) {
		t.Errorf("kinds are %v; want %v", counts, want.Counts)
	}
	for _, kind := range []Kind{Accelerator, RDMANIC, OtherNIC, NVMe} {
		for _, d := range topo.Of(kind) {
			if _, listed := want.Devices[d.Address.String()]; !listed {
				t.Errorf("%s, %v, is not in the answer", d.Address, kind)
			}
		}
	}
	for address, w := range want.Devices {
		d := placed(t, topo, address)
		compared++
		var parents []string
		for up := d.Parent; up != nil; up = up.Parent {
			parents = append([]string{up.Address.String()}, parents...)
		}
		if d.Root.Name != w.Root || !slices.Equal(parents, w.Parents) {
			t.Errorf("%s is at %s below %v; want %s below %v", address, d.Root.Name, parents, w.Root, w.Parents)
		}
		if class, id := fmt.Sprintf("%04x", d.Class>>8), fmt.Sprintf("%04x:%04x", d.Vendor, d.Product); class != w.Class || id != w.ID[0] {
			t.Errorf("%s is %s %s; want %s %s", address, class, id, w.Class, w.ID[0])
		}
		if (d.Node == nil) != (w.NUMA == nil) || d.Node != nil && d.Node.Number != *w.NUMA {
			t.Errorf("%s is on node %v; want %v", address, d.Node, w.NUMA)
		}
		for _, os := range w.OS {
			if d.Kind != Accelerator && !called(d, os) { // an accelerator's are of user space: cuda0
				t.Errorf("%s is not named %s: %+v", address, os, d)
			}
		}
	}
	return compared
}

// called tells whether a device has a name; an NVMe's may be that of a namespace.
func called(d *Device, name string) bool {
	return slices.Contains(d.Net, name) || slices.Contains(d.Dev, name) ||
		slices.ContainsFunc(d.RDMA, func(r RDMA) bool { return r.Name == name }) ||
		slices.ContainsFunc(d.NVMe, func(n string) bool { return n == name || strings.HasPrefix(name, n+"n") })
}

// sameClasses compares the class from each accelerator to all of others, which are
// all of a kind, and counts the pairs.
func sameClasses(t *testing.T, topo *Topology, want map[string]map[string]string, others []*Device) (compared int) {
	for _, a := range topo.Of(Accelerator) {
		row := want[a.Address.String()]
		for _, o := range others {
			if o == a {
				continue
			}
			class, ok := row[o.Address.String()]
			if !ok {
				t.Errorf("from %s to %s the answer tells nothing", a.Address, o.Address)
				continue
			}
			compared++
			there, back := topo.Distance(a, o), topo.Distance(o, a)
			if spelledClass(there.Class) != class || back.Class != there.Class {
				t.Errorf("from %s to %s: %v (%s), back %v; want %s", a.Address, o.Address, there.Class, there.Reason, back.Class, class)
			}
			delete(row, o.Address.String())
		}
		for address := range row {
			t.Errorf("from %s to %s: the answer tells %s, and there is no such device", a.Address, address, row[address])
		}
	}
	return compared
}

// spelledClass gives a class as the answers spell it.
func spelledClass(c Class) string {
	if c == ClassUnknown {
		return "UNK"
	}
	return c.String()
}

// sameNearest compares what Pair takes for the nearest of others, which are all of
// a kind, and counts the sets.
func sameNearest(t *testing.T, topo *Topology, want map[string]*nearestSet, others []*Device) (compared int) {
	p := &pairer{t: topo, accels: topo.Of(Accelerator), nics: others}
	p.measure()
	for i, a := range p.accels {
		w, listed := want[a.Address.String()]
		if !listed {
			t.Errorf("of %s the answer tells no nearest", a.Address)
			continue
		}
		compared++
		if w == nil {
			w = &nearestSet{Class: "UNK"} // there is none
		}
		var found []string
		for _, j := range p.near[i] {
			found = append(found, others[j].Address.String())
		}
		slices.Sort(found)
		slices.Sort(w.Devices)
		if spelledClass(p.best[i]) != w.Class || !slices.Equal(found, w.Devices) {
			t.Errorf("of %s the nearest are %v, %v; want %s, %v", a.Address, p.best[i], found, w.Class, w.Devices)
		}
	}
	return compared
}
