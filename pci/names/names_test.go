package names

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

const someNames = `# a comment
15b3  Mellanox Technologies
	1021  MT2910 Family [ConnectX-7]
		15b3 0041  of a subsystem
	1023  another
1d0f  Amazon.com, Inc.
	efa1  Elastic Fabric Adapter (EFA)
10de  NVIDIA Corporation
C 02  Network controller
	00  Ethernet controller
`

func TestNamesOfPciIds(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	if _, err := z.Write([]byte(someNames)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	all := []string{
		"Mellanox Technologies: MT2910 Family [ConnectX-7]", "Mellanox Technologies: another",
		"Amazon.com, Inc.: Elastic Fabric Adapter (EFA)", "NVIDIA Corporation: ", ": ",
	}
	for _, c := range []struct {
		name, file string
		want       []string
		err        string
	}{
		{"plain", someNames, all, ""},
		{"gzipped", gz.String(), all, ""},
		{"cut in a line", someNames[:strings.Index(someNames, "MT2910")+2],
			[]string{"Mellanox Technologies: ", "Mellanox Technologies: ", ": ", ": ", ": "}, ""},
		{"cut in a number", "15b3  Mellanox Technologies\n\t10",
			[]string{"Mellanox Technologies: ", "Mellanox Technologies: ", ": ", ": ", ": "}, ""},
		{"strange lines", "\n\t\nC\n15b3\nzzzz  Z\n\t\t\n\tefa1  of nobody\n" + someNames, all, ""},
		{"empty", "", []string{": ", ": ", ": ", ": ", ": "}, ""},
		{"a line without end", strings.Repeat("x", 1<<20), []string{": ", ": ", ": ", ": ", ": "}, "full"},
		{"cut gzip", gz.String()[:8], []string{": ", ": ", ": ", ": ", ": "}, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pci.ids")
			if err := os.WriteFile(file, []byte(c.file), 0o644); err != nil {
				t.Fatal(err)
			}
			topo := &pci.Topology{Devices: []*pci.Device{
				{Vendor: 0x15b3, Product: 0x1021}, {Vendor: 0x15b3, Product: 0x1023}, {Vendor: 0x1d0f, Product: 0xefa1},
				{Vendor: 0x10de, Product: 0x2330}, {Vendor: 0xfffe, Product: 1},
			}}
			err := Fill(topo, file)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v; want %q", err, c.err)
			}
			for i, d := range topo.Devices {
				if got := d.VendorName + ": " + d.ProductName; got != c.want[i] {
					t.Errorf("%04x:%04x is %q, want %q", d.Vendor, d.Product, got, c.want[i])
				}
			}
		})
	}
}

// Nothing named is what a machine without pci.ids has; a file that was asked for
// and is not there is a failure.
func TestWithoutPciIds(t *testing.T) {
	defer func(saved []string) { namesAt = saved }(namesAt)
	namesAt = []string{filepath.Join(t.TempDir(), "none")}
	topo := &pci.Topology{Devices: []*pci.Device{{Vendor: 0x15b3}}}
	if err := Fill(topo, ""); err != nil || topo.Devices[0].VendorName != "" {
		t.Errorf("%q, %v", topo.Devices[0].VendorName, err)
	}
	if err := Fill(topo, namesAt[0]); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func FuzzNames(f *testing.F) {
	f.Add([]byte(someNames))
	f.Add([]byte("15b3  \n\t1021  \n\t\n15b3\nC 02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		topo := &pci.Topology{Devices: []*pci.Device{{Vendor: 0x15b3, Product: 0x1021}}}
		lines, _ := excerpt(topo, bytes.NewReader(data))
		if _, err := describer(lines); err != nil {
			t.Error(err)
		}
	})
}
