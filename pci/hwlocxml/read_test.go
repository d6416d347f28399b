package hwlocxml

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// describe tells what of a machine a file of hwloc can tell.
func describe(t *pci.Topology) string {
	var b strings.Builder
	p := t.Platform
	fmt.Fprintf(&b, "%s, %s %d/%d, %s, %s\n", p.System, p.CPU, p.Family, p.Model, p.Arch, p.Kernel)
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "node %d: %q %d %v\n", n.Number, n.CPUs, n.Memory, n.Distances)
	}
	on := func(n *pci.Node) string {
		if n == nil {
			return "no node"
		}
		return fmt.Sprintf("node %d", n.Number)
	}
	var below func(list []*pci.Device, margin string)
	below = func(list []*pci.Device, margin string) {
		for _, d := range list {
			fmt.Fprintf(&b, "%s%s %04x %04x:%04x %04x:%04x %02x %v, %s, CPUs %s", margin, d.Address, d.Class>>8, d.Vendor, d.Product,
				d.SubVendor, d.SubProduct, d.Revision, d.Kind, on(d.Node), d.CPUs)
			for _, text := range []string{fmt.Sprint(d.RDMA), fmt.Sprint(d.Net), fmt.Sprint(d.NVMe), fmt.Sprint(d.Dev), d.Slot} {
				if text != "[]" && text != "" {
					fmt.Fprintf(&b, ", %s", text)
				}
			}
			if d.Memory > 0 {
				fmt.Fprintf(&b, ", %d MiB", d.Memory>>20)
			}
			if d.Link.Carries > 0 {
				fmt.Fprintf(&b, ", %.4g GB/s", d.Link.Carries)
			} else if d.Link != (pci.Link{}) {
				fmt.Fprintf(&b, ", %v x %d", d.Link.Speed, d.Link.Width)
			}
			b.WriteByte('\n')
			below(d.Children, margin+"  ")
		}
	}
	for _, r := range t.Roots {
		fmt.Fprintf(&b, "%s, %s\n", r.Name, on(r.Node))
		below(r.Children, "  ")
	}
	return b.String()
}

// TestFormats reads one machine as hwloc 1, 2 and 3 would have written it: two
// sockets, the second with a node of memory only; a switch; a domain of five digits;
// a root complex near to no processor in particular.
func TestFormats(t *testing.T) {
	const want = `Example Server 2, GenuineIntel 6/143, x86_64, 6.12.0
node 0: "0,2" 1073741824 [10 21 28]
node 1: "1,3" 2147483648 [21 10 17]
node 2: "" 4294967296 [28 17 10]
pci0000:00, node 0
  0000:00:01.0 0604 8086:352a 8086:0000 30 bridge, node 0, CPUs 0,2, 63.02 GB/s
    0000:01:00.0 0604 1000:c030 1000:a064 b0 bridge, node 0, CPUs 0,2, 63.02 GB/s
      0000:02:00.0 0604 1000:c030 1000:a064 b0 bridge, node 0, CPUs 0,2, 63.02 GB/s
        0000:03:00.0 0302 10de:2330 10de:16c1 a1 accelerator, node 0, CPUs 0,2, [dri/card1 dri/renderD128], 7, 81075 MiB, 63.02 GB/s
      0000:02:01.0 0604 1000:c030 1000:a064 b0 bridge, node 0, CPUs 0,2, 63.02 GB/s
        0000:04:00.0 0207 15b3:1021 15b3:0041 00 RDMA NIC, node 0, CPUs 0,2, [{mlx5_9 0200:0000:0000:0001 [{1 ACTIVE  } {2 DOWN  }]} {mlx5_10  []}], [ib0], 63.02 GB/s
pci0000:7f, no node
  0000:7f:08.0 0880 8086:3258 0000:0000 00 other, no node, CPUs 0-3
pci10000:80, node 1
  10000:80:01.0 0604 8086:352b 8086:0000 30 bridge, node 1, CPUs 1,3, 2.5 x 1
    10000:81:00.0 0108 144d:a80a 144d:a801 00 NVMe, node 1, CPUs 1,3, [nvme10], 2.5 x 1
`
	for _, name := range []string{"v1", "v2", "v3"} {
		t.Run(name, func(t *testing.T) {
			topo, err := read(t, name)
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(topo); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			gpu, nic, disk := at(t, topo, "0000:03:00.0"), at(t, topo, "0000:04:00.0"), at(t, topo, "10000:81:00.0")
			if d := topo.Distance(gpu, nic); d.Class != pci.PIX {
				t.Errorf("accelerator and NIC: %v, %s", d.Class, d.Reason)
			}
			if d := topo.Distance(gpu, disk); d.Class != pci.SYS {
				t.Errorf("accelerator and disk: %v, %s", d.Class, d.Reason)
			}
			if len(topo.Switches) != 1 || len(topo.Switches[0].Downstream) != 2 {
				t.Errorf("switches: %+v", topo.Switches)
			}
			class := map[string]uint32{"v1": 0x010800, "v2": 0x010800, "v3": 0x010802}[name]
			if disk.Class != class {
				t.Errorf("class %06x; want %06x", disk.Class, class)
			}
		})
	}
}

func read(t testing.TB, name string) (*pci.Topology, error) {
	t.Helper()
	return Read(strings.NewReader(text(t, name)))
}

func text(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".xml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func at(t testing.TB, topo *pci.Topology, address string) *pci.Device {
	t.Helper()
	a, err := pci.ParseAddress(address)
	d := topo.Device(a)
	if err != nil || d == nil {
		t.Fatalf("%s is not there: %v", address, err)
	}
	return d
}

// TestCut reads every beginning of a file that ends in a tag: what is before the cut
// is kept, and the error has the line.
func TestCut(t *testing.T) {
	whole := text(t, "v2")
	last := 0
	for i := range whole {
		if whole[i] != '>' || strings.HasPrefix(whole[i:], ">\n</topology") || i > len(whole)-5 {
			continue
		}
		topo, err := Read(strings.NewReader(whole[:i+1]))
		if line := fmt.Sprintf("line %d", 1+strings.Count(whole[:i], "\n")); err == nil || !strings.Contains(err.Error(), line) {
			t.Fatalf("cut in %s: %v", line, err)
		}
		if topo == nil {
			if !errors.Is(err, pci.ErrNoDevice) && i > 200 {
				t.Fatalf("nothing: %v", err)
			}
			continue
		}
		if n := len(topo.Devices); n < last || n > 9 {
			t.Fatalf("%d devices, and %d before", n, last)
		}
		last = len(topo.Devices)
	}
	if last != 9 {
		t.Errorf("%d devices in the longest", last)
	}
}

func TestLanes(t *testing.T) {
	for _, c := range []struct {
		bandwidth, speed float64
		width            int
	}{
		{0, 0, 0},
		{0.25, 2.5, 1},
		{0.5, 0, 0},       // 2 lanes of 2.5 GT/s, one of 5
		{15.753846, 0, 0}, // 16 of 8, 8 of 16, 4 of 32
		{63.015385, 0, 0}, // 16 of 32, and of 64 as early releases reckoned
		{11.815385, 8, 12},
		{1.97, 0, 0}, // no link
	} {
		if speed, width := lanesOf(c.bandwidth); speed != c.speed || width != c.width {
			t.Errorf("%v GB/s: %v x %d; want %v x %d", c.bandwidth, speed, width, c.speed, c.width)
		}
	}
}

func TestController(t *testing.T) {
	for name, want := range map[string]string{
		"nvme0n1": "nvme0", "nvme12n34": "nvme12", "nvme2c3n1": "nvme3",
		"nvme0": "", "nvmen1": "", "nvme2cn1": "", "sda": "", "pmem0": "",
	} {
		if got := controller(name); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
}

func TestParseSet(t *testing.T) {
	for text, want := range map[string]string{
		"0x0":                             "[]",
		"0x80000001":                      "[0 31]",
		"0x00000002,,0x4":                 "[2 65]",
		"0x1,":                            "[32]",
		"0xf...f":                         "[]", // without an end
		"0xf...f,0x00000001":              "[]",
		"":                                `"" is no set`,
		"0x100000000":                     "no set",
		"0x1,x":                           "no set",
		"-1":                              "no set",
		strings.Repeat(",", 2048) + "0x1": "larger than any machine",
	} {
		set, err := parseSet(text)
		got := fmt.Sprint(set)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s; want %s", clip(text), got, want)
		}
	}
}
