package pci

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// server is a root complex with a switch, an accelerator and a card of two ports
// below it, on two nodes, with every file that is read.
func server() machine {
	const (
		up   = "pci0000:16/0000:16:01.0/0000:17:00.0"
		down = up + "/0000:18:%02x.0"
	)
	m := two().
		device("pci0000:16/0000:16:01.0", bridge, "8086:352a").
		device(up, bridge, plx)
	for i, f := range []struct{ name, class, id string }{
		{"0000:19:00.0", gpu, h100}, {"0000:1a:00.0", "020700", connect}, {"0000:1a:00.1", "020700", connect},
	} {
		port := fmt.Sprintf(down, min(i, 1)*8)
		m.device(port, bridge, plx).device(port+"/"+f.name, f.class, f.id)
		at := sysDevices + "/" + port + "/" + f.name
		for name, text := range map[string]string{
			"numa_node": "0\n", "local_cpulist": "0-3\n", "current_link_speed": "32.0 GT/s PCIe\n", "max_link_speed": "32.0 GT/s PCIe\n",
			"current_link_width": "16\n", "max_link_width": "16\n", "resource": regions, "config": string(space(4096, 0)),
			"uevent": fmt.Sprintf("DRIVER=some\nPCI_CLASS=%s\nPCI_ID=%s\n", strings.TrimLeft(f.class, "0"), strings.ToUpper(f.id)),
		} {
			m.file(at+"/"+name, text)
		}
		m.link(at+"/iommu_group", strings.Repeat("../", strings.Count(port, "/")+3)+"kernel/iommu_groups/7")
	}
	for i := range 2 {
		nic := fmt.Sprintf(down+"/0000:1a:00.%d", 8, i)
		ib := fmt.Sprintf("%s/%s/infiniband/mlx5_%d", sysDevices, nic, i)
		m.named("infiniband", fmt.Sprintf("mlx5_%d", i), nic).file(ib+"/node_guid", "0c42:a103:0065:f9fa\n").
			file(ib+"/ports/1/state", "4: ACTIVE\n").file(ib+"/ports/1/rate", "400 Gb/sec (4X NDR)\n").file(ib+"/ports/1/link_layer", "InfiniBand\n")
	}
	return m.file(groupsDir+"/7/type", "identity\n").file("proc/sys/kernel/osrelease", "6.12.1\n").
		file("proc/cpuinfo", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nflags : lm\n").
		file("sys/class/dmi/id/sys_vendor", "Acme\n").file("sys/bus/pci/slots/4/address", "0000:19:00\n")
}

// packed is the machine in a tar, which keeps links as they are.
func (m machine) packed(t testing.TB) fs.FS {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, f := range m.MapFS {
		h := &tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(f.Data))}
		data := f.Data
		if f.Mode&fs.ModeSymlink != 0 {
			h.Typeflag, h.Linkname, h.Size, data = tar.TypeSymlink, string(f.Data), 0, nil
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	root, err := sysroot.ReadTar(&b)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// answers calls whatever answers a question about a machine.
func answers(topo *Topology) {
	tree(topo)
	topo.Findings()
	for _, a := range topo.Of(Accelerator) {
		topo.Rails(a)
		for _, d := range topo.Devices {
			topo.Distance(a, d)
			topo.P2P(a, d)
		}
	}
}

// Each file in turn says something else than it should. What is left is read; a
// failure is named, and in some lines.
func TestFilesThatSayOtherThings(t *testing.T) {
	good := server()
	whole, err := Read(good)
	if err != nil || len(whole.Devices) != 8 || len(whole.Switches) != 1 || len(whole.Of(RDMANIC)) != 3 {
		t.Fatalf("%v\n%s", err, tree(whole))
	}
	for name, f := range good.MapFS {
		if f.Mode&fs.ModeSymlink != 0 {
			continue
		}
		for what, text := range map[string]string{
			"nothing": "", "megabytes of zeros": strings.Repeat("\x00", 4<<20), "megabytes of digits": strings.Repeat("9", 4<<20),
			"megabytes of lines": strings.Repeat("\n", 4<<20), "megabytes of commas": strings.Repeat("1,", 2<<20),
			"no text": "\xff\xfe\x80\x00", "a number that is too great": "18446744073709551616\n", "less than nothing": "-2\n",
		} {
			m := server().file(name, text)
			topo, err := Read(m)
			if topo == nil {
				t.Fatalf("%s with %s: %v", name, what, err)
			}
			if n := len(topo.Devices); n != len(whole.Devices) {
				t.Errorf("%s with %s: %d devices", name, what, n)
			}
			if err != nil && (len(err.Error()) > 2000 || !strings.Contains(err.Error(), filepath.Base(name))) {
				t.Errorf("%s with %s: %.200v", name, what, err)
			}
			answers(topo)
		}
	}
}

// Each file and folder in turn may not be read: the rest is, and the error says so.
func TestPermissionDenied(t *testing.T) {
	parts := map[string]bool{"/" + busDevices: true, "/" + nodesDir: true, "sys/class/infiniband": true, "/ports": true}
	for name, f := range server().MapFS {
		if f.Mode&fs.ModeSymlink == 0 {
			parts["/"+filepath.Base(name)] = true
		}
	}
	silent := 0
	for part := range parts {
		topo, err := Read(forbidden{server(), strings.TrimPrefix(part, "/")})
		if topo == nil || len(topo.Devices) != 8 {
			t.Fatalf("%s: %v, %v", part, topo, err)
		}
		if err == nil {
			silent++
		} else if !errors.Is(err, fs.ErrPermission) || len(err.Error()) > 2000 {
			t.Errorf("%s: %v", part, err)
		}
		answers(topo)
	}
	// A file that another makes needless is not read.
	if silent > 2 || len(parts) < 25 {
		t.Errorf("%d of %d refusals are not told", silent, len(parts))
	}
	t.Logf("%d refusals, %d not told", len(parts), silent)
}

// Links of a capture lead anywhere: nowhere, to themselves, up, in rings.
func TestLinksThatLeadAnywhere(t *testing.T) {
	for _, to := range []string{"", ".", "..", "/", "gone", "../../../../../../../..", "/" + sysDevices, "../" + strings.Repeat("x/../", 400)} {
		for name, f := range server().MapFS {
			if f.Mode&fs.ModeSymlink == 0 {
				continue
			}
			target := to
			if to == "" {
				target = filepath.Base(name) // itself
			}
			topo, err := Read(server().link(name, target).packed(t))
			if topo == nil || len(topo.Devices) < 7 {
				t.Fatalf("%s to %q: %v, %v", name, target, topo, err)
			}
			answers(topo)
		}
	}
	ring := server().link("sys/class/net", "../class/drm").link("sys/class/drm", "../class/net").
		link(sysDevices+"/pci0000:16/again", "..").link(busDevices+"/0000:19:00.0", "0000:1a:00.0").link(busDevices+"/0000:1a:00.0", "0000:19:00.0")
	topo, err := Read(ring.packed(t))
	if topo == nil || !errors.Is(err, syscall.ELOOP) {
		t.Errorf("%v, %v", topo, err)
	}
}

// Thousands of failures of as many kinds are told in some lines.
func TestFailuresWithoutEnd(t *testing.T) {
	m := newMachine()
	for i := range 4000 {
		a := Address{Bus: uint8(i >> 8), Device: uint8(i >> 3 & 31), Function: uint8(i & 7)}
		m.link(fmt.Sprintf("%s/%v", busDevices, a), fmt.Sprintf("../../../devices/gone/%d", i))
	}
	topo, err := Read(m.packed(t))
	if topo == nil || len(topo.Devices) != 4000 {
		t.Fatalf("%v", err)
	}
	if lines := strings.Count(err.Error(), "\n"); lines > maxErrors || !strings.Contains(err.Error(), "more failures, of other kinds, are left out") {
		t.Errorf("%d lines: %.500v", lines, err)
	}
}

// A machine is the same in a folder, whose functions several readers share, and in
// a tar.
func TestFolderAndTarAreOne(t *testing.T) {
	folder, err := Read(server().onDisk(t))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := Read(server().packed(t))
	if err != nil || tree(packed) != tree(folder) {
		t.Errorf("%v\n%s\n%s", err, tree(packed), tree(folder))
	}
}
