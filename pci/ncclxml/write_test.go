package ncclxml

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/pci"
)

// TestWrite: a machine whose ports NCCL does not see, whose parts are unknown, and
// whose names would not survive.
func TestWrite(t *testing.T) {
	var m machine
	m.Platform = pci.Platform{Arch: "x86_64", CPU: "GenuineIntel", Family: 6, Model: 143}
	node0, node1 := m.node(0, 0, 1, 2, 3, 36), m.node(1)
	node1.CPUs = pci.CPUs{}
	here, there, lost := m.root("pci0000:00", node0), m.root("pci0000:40", node0), m.root("pci0000:80", nil)
	memory := m.root("pci0000:c0", node1) // of a node without processors

	// A switch: its ports are one element, its root port none.
	port := m.add("0000:00:01.0", here, nil, bridge, pci.RootPort)
	port.Link = pci.Link{Speed: 16, MaxSpeed: 16, Width: 16, MaxWidth: 16}
	up := m.add("0000:01:00.0", here, port, bridge, pci.UpstreamPort)
	up.Link = pci.Link{Speed: 16, MaxSpeed: 32, Width: 16, MaxWidth: 16}
	for i := range 2 {
		down := m.add(fmt.Sprintf("0000:02:%02x.0", i), here, up, bridge, pci.DownstreamPort)
		down.Link = pci.Link{MaxSpeed: 32, MaxWidth: 16}
		if i == 0 {
			d := m.add("0000:03:00.0", here, down, gpu, pci.Endpoint)
			d.Vendor, d.Product, d.SubVendor, d.SubProduct = 0x10de, 0x2330, 0x10de, 0x16c1
			d.Link = pci.Link{Speed: 2.5, MaxSpeed: 32, Width: 16, MaxWidth: 16} // at rest
			continue
		}
		d := m.add("0000:04:00.0", here, down, 0x020700, pci.Endpoint)
		d.RDMA = []pci.RDMA{{Name: "mlx5_0"}, {Name: `x"/><cpu>`}}
		d.Net = []string{"ib0", "a&b"}
		d.Link.Speed = 16
	}
	m.add("0000:00:02.0", here, nil, 0x010802, pci.IntegratedEndpoint) // not NCCL's business
	// A bridge of a guest, far slower than what is below: two devices meet at it.
	slow := m.add("0000:40:00.0", there, nil, bridge, pci.PortUnknown)
	slow.Link = pci.Link{Speed: 2.5, MaxSpeed: 2.5, Width: 8, MaxWidth: 8}
	fast := pci.Link{Speed: 32, MaxSpeed: 32, Width: 16, MaxWidth: 16}
	m.add("0000:41:00.0", there, slow, gpu, pci.PortUnknown).Link = fast
	m.add("0000:41:01.0", there, slow, ethernet, pci.PortUnknown).Link = fast
	m.add("0000:80:00.0", lost, nil, ethernet, pci.PortUnknown)
	m.add("0000:c0:00.0", memory, nil, gpu, pci.PortUnknown)
	m.add("10001:80:01.0", nil, nil, ethernet, pci.PortUnknown)
	topo := m.done()

	const want = `<system version="1">
  <cpu numaid="-1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:80:00.0" class="0x020000" root="pci0000:80"/>
    <pci busid="0000:c0:00.0" class="0x030200" root="pci0000:c0"/>
    <pci busid="10001:80:01.0" class="0x020000" root=""/>
  </cpu>
  <cpu numaid="0" affinity="00000010,0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16" root="pci0000:00">
      <pci busid="0000:03:00.0" class="0x030200" vendor="0x10de" device="0x2330" subsystem_vendor="0x10de" subsystem_device="0x16c1" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16" rdma="mlx5_0" net="ib0"/>
    </pci>
    <pci busid="0000:40:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" root="pci0000:40">
      <pci busid="0000:41:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:41:01.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
`
	text := written(t, topo)
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	after, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(classes(topo), classes(after)); diff != "" {
		t.Errorf("classes (-before +after):\n%s", diff)
	}
}

// TestWriteArchitectures: NCCL has three, and its own names for them.
func TestWriteArchitectures(t *testing.T) {
	for arch, want := range map[string]string{"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64", "riscv64": "", "": ""} {
		topo := crowd(1, 1)
		topo.Platform.Arch = arch
		text := string(written(t, topo))
		if got := strings.Contains(text, " arch="); got != (want != "") || got && !strings.Contains(text, ` arch="`+want+`"`) {
			t.Errorf("%q is written as\n%s\nwant %q", arch, text, want)
		}
	}
}

// TestWriteLimits: what NCCL has no room for is left out, and told; the accelerators
// and their NICs go before others.
func TestWriteLimits(t *testing.T) {
	topo := crowd(16, 4000)
	var cpus pci.CPUs
	for c := range 1024 {
		cpus = append(cpus, c)
	}
	topo.Nodes[0].CPUs = cpus // too many for an attribute
	rdma := topo.Of(pci.OtherNIC)[3999]
	rdma.Kind = pci.RDMANIC
	text := written(t, topo)
	if n := bytes.Count(text, []byte("<pci")) + bytes.Count(text, []byte("<cpu")) + 1; n > maxElements {
		t.Errorf("%d elements", n)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "affinity") {
			t.Errorf("a line that NCCL does not take: %.100s…", line)
		}
	}
	after, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(after.Of(pci.Accelerator)); n != 16 || after.Device(rdma.Address) == nil {
		t.Errorf("%d accelerators, RDMA NIC %v", n, after.Device(rdma.Address))
	}
	left := 4000 - len(ends(after)) + 16
	if comment := fmt.Sprintf("<!-- %d functions are left for NCCL to find", left); !bytes.HasPrefix(text, []byte(comment)) {
		t.Errorf("the file begins %.80s; want %q", text, comment)
	}
}

// TestWriteNothing: a machine without what NCCL uses has a file that says nothing.
func TestWriteNothing(t *testing.T) {
	if got := string(written(t, &pci.Topology{})); got != "<system version=\"1\">\n</system>\n" {
		t.Error(got)
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	if err := Write(full{}, crowd(16, 300)); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

// TestFilesInTheWild: a file that is read and written says the same, and once more.
func TestFilesInTheWild(t *testing.T) {
	counts := map[string]int{"aws-p4d-24xl-topo.xml": 16, "aws-p5.48xl-topo.2023.xml": 40, "azure-ndv4-topo.xml": 20, "topo_8p_rome_vm1.xml": 8}
	for _, file := range corpus(t, "nccl-xml/*.xml") {
		name := file[strings.LastIndexByte(file, '/')+1:]
		t.Run(name, func(t *testing.T) {
			before := readFile(t, file)
			if len(before.Devices) != counts[name] {
				t.Errorf("%d devices; want %d", len(before.Devices), counts[name])
			}
			text := written(t, before)
			after, err := Read(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(every(before), every(after)); diff != "" {
				t.Errorf("classes (-before +after):\n%s", diff)
			}
			if again := written(t, after); !bytes.Equal(text, again) {
				t.Errorf("written again (-first +second):\n%s", cmp.Diff(string(text), string(again)))
			}
		})
	}
}

// every is how far each device is from each.
func every(topo *pci.Topology) map[string]string {
	m := map[string]string{}
	for _, a := range topo.Devices {
		for _, b := range topo.Devices {
			m[fmt.Sprint(a.Address, " ", b.Address)] = topo.Distance(a, b).Class.String()
		}
	}
	return m
}
