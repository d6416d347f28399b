package hwlocxml

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// corpus gives a file or folder of the corpus; without it the test is skipped.
func corpus(t testing.TB, name string) string {
	t.Helper()
	folder := cmp.Or(os.Getenv("PEERDIRECT_TOPOLOGY"), "../../../shared/topology")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("needs the topology corpus, which is not at %s: PEERDIRECT_TOPOLOGY names its folder", folder)
	}
	return filepath.Join(folder, name)
}

// capture opens a tar of the corpus at the folder in it that is a root.
func capture(t testing.TB, file string) fs.FS {
	t.Helper()
	root, err := sysroot.Tar(file)
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
	t.Fatalf("%s holds no sys folder", file)
	return nil
}

// TestPublished compares what hwloc's authors publish of a capture with the capture.
func TestPublished(t *testing.T) {
	const name = "32em64t-2n8c+dax+nvme+mic+dimms"
	file, err := os.ReadFile(corpus(t, "sysfs/"+name+".xml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	want, err := pci.Read(capture(t, corpus(t, "sysfs/"+name+".tar.bz2")))
	if want == nil {
		t.Fatal(err)
	}
	if len(got.Devices) != 136 { // the file lacks a port that config space tells nothing of
		t.Errorf("%d devices", len(got.Devices))
	}
	if pairs := compare(t, got, want); pairs != 3 {
		t.Errorf("%d pairs of the accelerator with a NIC", pairs)
	}
	for i, n := range got.Nodes {
		if w := want.Nodes[i]; n.Memory != w.Memory || !slices.Equal(n.CPUs, w.CPUs) || !slices.Equal(n.Distances, w.Distances) {
			t.Errorf("%+v; want %+v", *n, *w)
		}
	}
}

// compare holds a file of hwloc against a reading of the sysfs that it was made of:
// whatever the file has is to be there, at the same place. It gives the number of
// pairs of an accelerator and a NIC. The file knows more nodes: hwloc has one for all
// that is below a host bridge, by the first function there, and takes it where sysfs
// has none.
func compare(t *testing.T, got, want *pci.Topology) (pairs int) {
	t.Helper()
	for _, d := range got.Devices {
		w := want.Device(d.Address)
		if w == nil {
			t.Errorf("%s is only in the file", d.Address)
			continue
		}
		if a, b := identity(d), identity(w); a != b {
			t.Errorf("%s is %s; want %s", d.Address, a, b)
		}
		for _, n := range d.Net {
			if !slices.Contains(w.Net, n) {
				t.Errorf("%s is named %v; want %v", d.Address, d.Net, w.Net)
			}
		}
		for _, r := range d.RDMA {
			if !slices.ContainsFunc(w.RDMA, func(o pci.RDMA) bool { return o.Name == r.Name && o.NodeGUID == r.NodeGUID }) {
				t.Errorf("%s has %v; want %v", d.Address, d.RDMA, w.RDMA)
			}
		}
		if a, b := place(d, got), place(w, got); a != b {
			t.Errorf("%s is at %s; want %s", d.Address, a, b)
		}
		if d.Node != nil && w.Node != nil && d.Node.Number != w.Node.Number {
			t.Errorf("%s is of node %d; want %d", d.Address, d.Node.Number, w.Node.Number)
		}
	}
	for _, a := range got.Of(pci.Accelerator) {
		for _, b := range got.Devices {
			if b.Kind != pci.RDMANIC && b.Kind != pci.OtherNIC && b.Kind != pci.NVMe {
				continue
			}
			wa, wb := want.Device(a.Address), want.Device(b.Address)
			if wa == nil || wb == nil {
				continue
			}
			if b.Kind != pci.NVMe {
				pairs++
			}
			d, w := got.Distance(a, b), want.Distance(wa, wb)
			if d.Class != w.Class && w.Class != pci.ClassUnknown {
				t.Errorf("%s and %s: %v, %s; want %v, %s", a.Address, b.Address, d.Class, d.Reason, w.Class, w.Reason)
			}
		}
	}
	return pairs
}

func identity(d *pci.Device) string {
	return fmt.Sprintf("%04x %04x:%04x %04x:%04x %v", d.Class>>8, d.Vendor, d.Product, d.SubVendor, d.SubProduct, d.Kind)
}

// place is the root complex and the bridges above, of those that the file has.
func place(d *pci.Device, file *pci.Topology) string {
	var b strings.Builder
	b.WriteString(d.Root.Name)
	for up := d.Parent; up != nil; up = up.Parent {
		if file.Device(up.Address) != nil {
			fmt.Fprintf(&b, " %s", up.Address)
		}
	}
	return b.String()
}
