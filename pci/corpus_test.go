package pci

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// corpusFolder is the folder of captures, answers and published matrices; without
// it the test is skipped.
func corpusFolder(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../shared/topology"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("needs the topology corpus, which is not at %s: PEERDIRECT_TOPOLOGY names its folder", folder)
	}
	return folder
}

// corpusFile reads a file of the corpus.
func corpusFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(corpusFolder(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// capturedRoot opens a tar of the corpus at the folder in it that is a root.
func capturedRoot(t testing.TB, name string) fs.FS {
	t.Helper()
	folder := corpusFolder(t)
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

// captured reads a machine of the corpus.
func captured(t testing.TB, name string) *Topology {
	t.Helper()
	topo, err := Read(capturedRoot(t, name))
	if topo == nil {
		t.Fatal(err)
	}
	return topo
}

// placed finds a device by its address.
func placed(t testing.TB, topo *Topology, address string) *Device {
	t.Helper()
	a, err := ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	d := topo.Device(a)
	if d == nil {
		t.Fatalf("%s is not there", address)
	}
	return d
}

// TestCorpusCaptures counts what real captures of /sys hold.
func TestCorpusCaptures(t *testing.T) {
	corpusFolder(t) // or skip
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
			topo := captured(t, c.name)
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
