package pci

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// capturedRoot opens a tar of the corpus at the folder in it that is a root.
func capturedRoot(t *testing.T, name string) fs.FS {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../shared/topology"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skip("needs the topology corpus: PEERDIRECT_TOPOLOGY names its folder")
	}
	tars, _ := filepath.Glob(filepath.Join(folder, "sysfs", name+".tar.*"))
	if len(tars) != 1 {
		t.Fatalf("%s in %s: %v", name, folder, tars)
	}
	root, err := sysroot.Tar(tars[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, depth := range []string{"sys", "*/sys", "*/*/sys"} {
		if at, _ := fs.Glob(root, depth); len(at) == 1 {
			if root, err = fs.Sub(root, filepath.Dir(at[0])); err != nil {
				t.Fatal(err)
			}
			return root
		}
	}
	t.Fatalf("%s holds no sys folder", name)
	return nil
}

// TestCorpusDevices compares what was read of each capture with the list that was
// made of the same machine by hand.
func TestCorpusDevices(t *testing.T) {
	for _, name := range []string{"c5n.18xl-topo", "coral-lassen", "cts1-pascal", "epyc-corona-p2", "g5.48xl-topo",
		"nvidiaDGX2", "p4d.24xl-topo", "p5.48xl-topo"} {
		t.Run(name, func(t *testing.T) {
			root := capturedRoot(t, name)
			folder := os.Getenv("PEERDIRECT_TOPOLOGY")
			if folder == "" {
				folder = "../../shared/topology"
			}
			text, err := os.ReadFile(filepath.Join(folder, "answers", name+".derived.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Counts  map[string]int
				Devices map[string]struct {
					Root    string
					Parents []string
					NUMA    *int
					Class   string `json:"class_"`
					ID, OS  []string
				}
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			topo, err := Read(root)
			if err != nil {
				t.Fatal(err)
			}
			counts := map[string]int{}
			for _, d := range topo.Devices {
				counts[map[Kind]string{Accelerator: "gpu", RDMANIC: "nic", OtherNIC: "nic", NVMe: "nvme",
					Bridge: "bridge", BMC: "vga", NVSwitch: "other", Other: "other"}[d.Kind]]++
			}
			for kind := range counts {
				if counts[kind] != want.Counts[kind] {
					t.Errorf("%d of %s; want %d", counts[kind], kind, want.Counts[kind])
				}
			}
			if len(counts) != len(want.Counts) {
				t.Errorf("kinds are %v; want %v", counts, want.Counts)
			}
			for address, w := range want.Devices {
				a, err := ParseAddress(address)
				d := topo.Device(a)
				if err != nil || d == nil {
					t.Errorf("%s is not there: %v", address, err)
					continue
				}
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
					named := slices.Contains(d.Net, os) || slices.ContainsFunc(d.RDMA, func(r RDMA) bool { return r.Name == os }) ||
						slices.ContainsFunc(d.NVMe, func(n string) bool { return strings.HasPrefix(os, n+"n") })
					if !named && d.Kind != Accelerator { // its names are of user space: cuda0
						t.Errorf("%s is not named %s: %+v", address, os, d)
					}
				}
			}
		})
	}
}

// TestCorpusCaptures counts what real captures of /sys hold.
func TestCorpusCaptures(t *testing.T) {
	for _, c := range []struct {
		name                   string
		devices, roots         int
		accelerators, rdma     int
		others, nvme, switches int
		first                  string // accelerator, RDMA NIC, NIC or NVMe
	}{
		{"2pa-pcidomain32bits", 9, 2, 0, 0, 1, 0, 0, "ens3"},
		{"32em64t-2n8c+dax+nvme+mic+dimms", 137, 4, 1, 1, 2, 1, 0, "NVMe0"},
		{"32intel64-2p8co2t+8ve", 29, 3, 8, 2, 2, 0, 3, "NIC0"}, // one more than the bus: the folder of a port without its files
		{"linux-amd64-61797caf7c0b6bca1725ad7975ed4773", 43, 1, 1, 0, 4, 0, 1, "enp3s0"},
		{"linux-amd64-accel-nvidia", 29, 1, 1, 0, 1, 0, 0, "NIC0"},
		{"procfs-pci-infiniband-subset", 3, 2, 0, 0, 1, 1, 0, "nvme0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(capturedRoot(t, c.name))
			if topo == nil {
				t.Fatal(err)
			}
			first := ""
			for _, d := range topo.Devices {
				if k := d.Kind; first == "" && (k == Accelerator || k == RDMANIC || k == OtherNIC || k == NVMe) {
					first = topo.Name(d)
				}
			}
			got, want := fmt.Sprint(len(topo.Devices), len(topo.Roots), len(topo.Of(Accelerator)), len(topo.Of(RDMANIC)),
				len(topo.Of(OtherNIC)), len(topo.Of(NVMe)), len(topo.Switches), first),
				fmt.Sprint(c.devices, c.roots, c.accelerators, c.rdma, c.others, c.nvme, c.switches, c.first)
			if got != want {
				t.Errorf("%s; want %s\n%s", got, want, tree(topo))
			}
		})
	}
}
