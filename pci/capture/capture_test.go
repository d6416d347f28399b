package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// secrets are what must not leave the machine, wherever it is written.
var secrets = []string{
	"0c42:a103:0099:8877", "98:03:9b:aa:bb:cc", "98039baabbcc", "GPU-6b3a2f10-1c2d-3e4f-5a6b-7c8d9e0f1a2b",
	"6b3a2f10-1c2d-3e4f-5a6b-7c8d9e0f1a2b", "SN0123456789", "root=UUID", "rack7", "\xde\xad\xbe\xef\x01\x02\x03\x04",
}

// machine is a NIC of two functions, a GPU and the bridge above them; with what a
// kernel tells and more than topo reads.
func machine() fstest.MapFS {
	m := fstest.MapFS{}
	file := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444} }
	link := func(name, to string) { m[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777} }
	const bridge = "sys/devices/pci0000:16/0000:16:01.0"
	for _, f := range []struct{ at, address, vendor, device, class string }{
		{bridge, "0000:16:01.0", "8086", "352a", "060400"},
		{bridge + "/0000:17:00.0", "0000:17:00.0", "15b3", "1021", "020700"},
		{bridge + "/0000:17:00.1", "0000:17:00.1", "15b3", "1021", "020700"},
		{bridge + "/0000:17:01.0", "0000:17:01.0", "10de", "2330", "030200"},
	} {
		link("sys/bus/pci/devices/"+f.address, "../../../devices/"+strings.TrimPrefix(f.at, "sys/devices/"))
		for name, text := range map[string]string{
			"vendor": "0x" + f.vendor, "device": "0x" + f.device, "class": "0x" + f.class, "revision": "0x01",
			"subsystem_vendor": "0x15b3", "subsystem_device": "0x0041", "numa_node": "1", "local_cpulist": "8-15",
			"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "16", "max_link_width": "16",
			"serial_number": "SN0123456789", "unique_id": "SN0123456789", "vpd": "SN0123456789",
			"uevent":   fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SUBSYS_ID=15B3:0041\nPCI_SLOT_NAME=%s", f.class, f.vendor, f.device, f.address),
			"resource": "0x0000200000000000 0x00002000ffffffff 0x000000000014220c",
			"config":   config(),
		} {
			file(f.at+"/"+name, text+"\n")
		}
		link(f.at+"/iommu_group", strings.Repeat("../", strings.Count(f.at, "/"))+"kernel/iommu_groups/7")
	}
	for port, guid := range []string{"0c42:a103:0099:8877", "0c42:a103:0099:8877"} {
		at := fmt.Sprintf("%s/0000:17:00.%d", bridge, port)
		ib := fmt.Sprintf("%s/infiniband/mlx5_%d", at, port)
		file(ib+"/node_guid", guid+"\n")
		file(ib+"/sys_image_guid", guid+"\n")
		file(ib+"/node_desc", "rack7 mlx5_0\n")
		file(ib+"/ports/1/state", "4: ACTIVE\n")
		file(ib+"/ports/1/rate", "400 Gb/sec (4X NDR)\n")
		file(ib+"/ports/1/link_layer", "InfiniBand\n")
		file(ib+"/ports/1/gids/0", "fe80:0000:0000:0000:"+guid+"\n")
		link(fmt.Sprintf("sys/class/infiniband/mlx5_%d", port), "../../"+strings.TrimPrefix(ib, "sys/"))
	}
	enx := bridge + "/0000:17:00.0/net/enx98039baabbcc"
	file(enx+"/address", "98:03:9b:aa:bb:cc\n")
	link("sys/class/net/enx98039baabbcc", "../../"+strings.TrimPrefix(enx, "sys/"))
	file("proc/driver/nvidia/gpus/0000:17:01.0/information",
		"Model: \t\t NVIDIA H100\nIRQ:   \t\t 90\nGPU UUID: \t GPU-6b3a2f10-1c2d-3e4f-5a6b-7c8d9e0f1a2b\nDevice Minor: \t 3\n")
	file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: fpu hypervisor serialize\nSerial\t\t: SN0123456789\n")
	file("sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
	file("proc/cmdline", "root=UUID=6b3a2f10-1c2d-3e4f-5a6b-7c8d9e0f1a2b\n")
	file("proc/sys/kernel/hostname", "rack7\n")
	file("proc/sys/kernel/osrelease", "6.12.0\n")
	file("boot/config-6.12.0", "#\nCONFIG_CMDLINE=\"root=UUID=6b3a2f10-1c2d-3e4f-5a6b-7c8d9e0f1a2b\"\nCONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n")
	for node := range 2 {
		at := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		file(at+"cpulist", fmt.Sprintf("%d-%d\n", 8*node, 8*node+7))
		file(at+"distance", "10 21\n")
		file(at+"meminfo", "Node 0 MemTotal:       1056768 kB\n")
	}
	file("sys/devices/virtual/dmi/id/sys_vendor", "Vendor\n")
	file("sys/devices/virtual/dmi/id/product_name", "Product\n")
	file("sys/devices/virtual/dmi/id/product_serial", "SN0123456789\n")
	file("sys/devices/virtual/dmi/id/product_uuid", "6b3a2f10-1c2d-3e4f-5a6b-7c8d9e0f1a2b\n")
	link("sys/class/dmi/id", "../../devices/virtual/dmi/id")
	return m
}

// config has a serial number among its extended capabilities, whose chain is a
// ring.
func config() string {
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint32(b[0x100:], 0x0001|1<<16|0x150<<20)
	binary.LittleEndian.PutUint32(b[0x150:], 0x0003|1<<16|0x100<<20)
	copy(b[0x154:], "\xde\xad\xbe\xef\x01\x02\x03\x04")
	return string(b)
}

func captured(t *testing.T, root fs.FS) ([]byte, Summary) {
	t.Helper()
	var b bytes.Buffer
	s, err := Write(&b, root)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), s
}

// facts are what is told of a machine, without what a capture replaces.
func facts(topo *pci.Topology) (all []string) {
	all = append(all, fmt.Sprintf("%+v", topo.Platform))
	for _, r := range topo.Roots {
		all = append(all, r.Name+" "+r.Path)
	}
	for _, n := range topo.Nodes {
		all = append(all, fmt.Sprintf("%+v", *n))
	}
	for _, d := range topo.Devices {
		parent := ""
		if d.Parent != nil {
			parent = d.Parent.Address.String()
		}
		all = append(all, fmt.Sprint(d.Address, parent, d.Kind, d.Port, d.Vendor, d.Product, d.Class, d.Driver, d.Slot, d.CPUs, d.Link, d.BARs,
			d.ACS, d.ACSKnown, d.Group, d.GroupType, d.PeerMem, len(d.RDMA), len(d.Net), d.NVMe, d.Dev, d.Memory))
		for _, r := range d.RDMA {
			all = append(all, fmt.Sprint(r.Ports))
		}
	}
	return all
}

func read(t *testing.T, data []byte) *pci.Topology {
	t.Helper()
	root, err := sysroot.ReadTar(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := pci.Read(root)
	if topo == nil {
		t.Fatal(err)
	}
	return topo
}

func TestACaptureTellsWhatTheMachineTells(t *testing.T) {
	want, err := pci.Read(machine())
	if err != nil {
		t.Fatal(err)
	}
	data, s := captured(t, machine())
	got := read(t, data)
	if d := cmp.Diff(facts(want), facts(got)); d != "" {
		t.Error(d)
	}
	if s.Devices != 4 || s.Files == 0 || s.Partial != nil {
		t.Errorf("%+v", s)
	}
	nic := got.Devices[1]
	if len(nic.RDMA) != 1 || nic.RDMA[0].NodeGUID == "" || nic.RDMA[0].NodeGUID != got.Devices[2].RDMA[0].NodeGUID {
		t.Errorf("two functions of one card: %v, %v", nic.RDMA, got.Devices[2].RDMA)
	}
	// A capture of a capture is the same.
	root, err := sysroot.ReadTar(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := captured(t, root); !bytes.Equal(data, again) {
		t.Error("a capture of the capture differs from it")
	}
}

func TestACaptureHoldsNoSerialNumbers(t *testing.T) {
	data, _ := captured(t, machine())
	for _, s := range secrets {
		if i := bytes.Index(data, []byte(s)); i >= 0 {
			t.Errorf("%q is in it: %q", s, data[max(0, i-80):i+40])
		}
	}
	// What the reader happens not to read today is held back as well.
	m := newMask()
	for name, f := range machine() {
		text, ok := m.file(name, f.Data)
		for _, s := range secrets {
			if ok && bytes.Contains(text, []byte(s)) && f.Mode&fs.ModeSymlink == 0 && name != "proc/sys/kernel/hostname" {
				t.Errorf("%s shows %q", name, s)
			}
		}
	}
}

// Of a kernel's configuration a capture has the options that pci.Read looks for.
func TestACaptureOfAKernelThatShowsItsConfiguration(t *testing.T) {
	const path = "proc/config.gz"
	packed := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	m := machine()
	delete(m, "boot/config-6.12.0")
	for _, c := range []struct {
		file []byte
		want pci.Tri
		kept string
	}{
		{packed("#\nCONFIG_DEFAULT_HOSTNAME=\"rack7\"\nCONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n"), pci.No, "\nCONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n"},
		{packed("#\nCONFIG_PCI_P2PDMA=y\n"), pci.Yes, "\nCONFIG_PCI_P2PDMA=y\n"},
		{[]byte("rack7"), pci.Unknown, ""},
		{packed("#\nCONFIG_PCI_P2PDMA=y\n")[:20], pci.Unknown, ""},
	} {
		m[path] = &fstest.MapFile{Data: c.file, Mode: 0o444}
		data, _ := captured(t, m)
		root, err := sysroot.ReadTar(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, data).Platform.P2PDMA; got != c.want {
			t.Errorf("%q: %v, want %v", c.kept, got, c.want)
		}
		kept, err := fs.ReadFile(root, path)
		if c.kept == "" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is none is in it: %q, %v", kept, err)
			}
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(kept))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || string(text) != c.kept {
			t.Errorf("%q, %v; want %q", text, err, c.kept)
		}
	}
}

func TestWithoutDevicesThereIsNoCapture(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, fstest.MapFS{}); !errors.Is(err, pci.ErrNoDevice) || b.Len() != 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestACaptureThatCannotBeWritten(t *testing.T) {
	if _, err := Write(full{}, machine()); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

// Every link of a capture leads to what is in it.
func TestLinksOfACapture(t *testing.T) {
	data, _ := captured(t, machine())
	root, err := sysroot.ReadTar(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeSymlink {
			continue
		}
		if _, err := fs.Stat(root, h.Name); err != nil {
			t.Errorf("%s leads to %s: %v", h.Name, h.Linkname, err)
		}
	}
}

// Real machines, where they are to be had.
func TestCapturesOfTheCorpus(t *testing.T) {
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../../shared/topology"
	}
	files, err := filepath.Glob(filepath.Join(folder, "sysfs", "*.tar.[gb]z*"))
	if err != nil || len(files) == 0 {
		t.Skip("needs the topology corpus: PEERDIRECT_TOPOLOGY names its folder")
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			root, err := sysroot.Open(f)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := pci.Read(root)
			if want == nil {
				t.Fatal("no device")
			}
			data, _ := captured(t, root)
			if d := cmp.Diff(facts(want), facts(read(t, data))); d != "" {
				t.Error(d)
			}
			t.Logf("%d functions, %d KiB of %d files", len(want.Devices), len(data)>>10, bytes.Count(data, []byte("ustar")))
		})
	}
}

func FuzzWithoutSerial(f *testing.F) {
	f.Add([]byte(config())[:0x160])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := withoutSerial(data); len(got) != len(data) {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
	})
}
