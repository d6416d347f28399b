package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/cputime"
)

func TestReadKeepsWhatItCan(t *testing.T) {
	good := func() machine { return newMachine().device("pci0000:00/0000:00:02.0", gpu, h100) }
	for _, c := range []struct {
		name  string
		m     machine
		count int
		want  string // in the error
	}{
		{"a name that is no address", good().link(busDevices+"/nonsense", "../../../devices/pci0000:00"), 1, "no PCI address"},
		{"a link that dangles", good().link(busDevices+"/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0"), 2, "dangles"},
		{"a link out of the root", good().link(busDevices+"/0000:00:03.0", strings.Repeat("../", 20)+"etc"), 2, "cannot be"},
		{"links that disagree", good().link(busDevices+"/0000:01:00.0", "../../../devices/pci0000:00/0000:00:02.0/0000:01:00.0").
			link(busDevices+"/0000:00:05.0", "../../../devices/pci0000:01/0000:01:00.0/0000:00:02.0/0000:00:05.0"), 3, "is at"},
		{"a link that circles through one address", good().
			link(busDevices+"/0000:00:05.0", "../../../devices/pci0000:00/0000:00:05.0/0000:00:06.0/0000:00:05.0"), 3, "is at"},
		{"a link of a megabyte", good().link(busDevices+"/0000:00:03.0", strings.Repeat("a/", 1<<19)), 2, "longer than"},
		{"a class of nonsense", good().device("pci0000:00/0000:00:03.0", "zz", h100), 2, "hexadecimal"},
		{"a vendor of too many digits", good().device("pci0000:00/0000:00:03.0", gpu, "12345:6"), 2, "four digits"},
		{"a file of megabytes", good().device("pci0000:00/0000:00:03.0", strings.Repeat("0", 4<<20), h100), 2, "hexadecimal"},
		{"a physical function that is not there", good().link(sysDevices+"/pci0000:00/0000:00:02.0/physfn", "../0000:00:01.0"), 1, "no such function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(c.m)
			if topo == nil || len(topo.Devices) != c.count {
				t.Fatalf("%+v, %v", topo, err)
			}
			if d := topo.Device(Address{0, 0, 2, 0}); d == nil || d.Kind != Accelerator && len(d.Children) == 0 {
				t.Errorf("the good device is %+v", d)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
				t.Errorf("%v; want one with %q", err, c.want)
			}
		})
	}
}

func TestReadCircles(t *testing.T) {
	m := newMachine().device("pci0000:00/0000:00:02.0", gpu, h100).
		link(busDevices+"/0000:00:03.0", "0000:00:03.0").
		link(busDevices+"/0000:00:04.0", "0000:00:05.0").
		link(busDevices+"/0000:00:05.0", "0000:00:04.0").
		link("sys/class/net", "net").
		link("sys/class/infiniband/mlx5_0", "mlx5_0")
	topo, err := Read(m.onDisk(t))
	if topo == nil || len(topo.Devices) != 4 || !errors.Is(err, syscall.ELOOP) {
		t.Fatalf("%v, %v", topo, err)
	}
	if d := topo.Device(Address{0, 0, 2, 0}); d.Kind != Accelerator {
		t.Errorf("the good device is %+v", d)
	}
}

func TestReadNothing(t *testing.T) {
	for name, m := range map[string]machine{
		"an empty root":     newMachine(),
		"a machine without": newMachine().file("sys/bus/pci/rescan", "").file("sys/devices/system/node/online", "0"),
	} {
		topo, err := Read(m)
		if topo != nil || !errors.Is(err, ErrNoDevice) {
			t.Errorf("%s: %v, %v", name, topo, err)
		}
	}
}

// forbidden is a root that refuses the files of some names.
type forbidden struct {
	fs.FS
	part string
}

func (f forbidden) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, f.part) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return f.FS.Open(name)
}
func (f forbidden) ReadLink(name string) (string, error)   { return fs.ReadLink(f.FS, name) }
func (f forbidden) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }

func TestReadForbidden(t *testing.T) {
	m := newMachine()
	for i := range 16 {
		m.device(fmt.Sprintf("pci0000:00/0000:00:%02x.0", i), gpu, h100)
	}
	topo, err := Read(forbidden{m, "/class"})
	if topo == nil || len(topo.Devices) != 16 || topo.Devices[3].Vendor != nvidia {
		t.Fatalf("%+v, %v", topo, err)
	}
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "and 15 more like it") {
		t.Errorf("the error is %v", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Op != "read" || path.Base(e.Object) != "class" || e.More != 15 {
		t.Errorf("the error is %+v", e)
	}
	topo, err = Read(forbidden{m, busDevices})
	if topo == nil || len(topo.Devices) != 16 || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a bus that cannot be listed: %v, %v", topo, err)
	}
}

// crowd is a root of switches with functions below, as a kernel tells of them.
func crowd(switches, functions int, uevent string) machine {
	m := newMachine()
	entry := func(place, text string) {
		m.file(sysDevices+"/"+place+"/uevent", text)
		m.link(busDevices+"/"+path.Base(place), "../../../devices/"+place)
	}
	for bus := range switches {
		port := fmt.Sprintf("pci0000:%02x/0000:%02x:00.0", bus, bus)
		entry(port, "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=10B5:9797\n")
		for i := range functions {
			place := fmt.Sprintf("%s/0000:%02x:%02x.0", port, bus+128, i)
			entry(place, uevent)
			m.named("net", fmt.Sprintf("eth%d", bus*functions+i), place)
		}
	}
	return m
}

func TestReadThousands(t *testing.T) {
	root := crowd(125, 31, "DRIVER=ice\nPCI_CLASS=20000\nPCI_ID=8086:1593\nPCI_SUBSYS_ID=8086:0001\n").packed(t)
	start := cputime.Now()
	topo, err := Read(root)
	if err != nil || len(topo.Devices) != 4000 || len(topo.Roots) != 125 || len(topo.Of(OtherNIC)) != 3875 {
		t.Fatal(len(topo.Devices), err)
	}
	if took := cputime.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if d := topo.Device(Address{0, 0x80, 1, 0}); d.Driver != "ice" || d.Vendor != intel || d.SubProduct != 1 {
		t.Errorf("%+v", d)
	}
}

func TestReadThousandsBroken(t *testing.T) {
	m := newMachine()
	for i := range 4000 {
		m.link(fmt.Sprintf("%s/0000:%02x:%02x.%x", busDevices, i>>8, i>>3&31, i&7), "../../../devices/gone")
	}
	topo, err := Read(m.packed(t))
	if topo == nil || len(topo.Devices) != 4000 {
		t.Fatalf("%v, %v", topo, err)
	}
	if err == nil || strings.Count(err.Error(), "\n") > 5 || !strings.Contains(err.Error(), "and 3999 more like it") {
		t.Errorf("the error is %.1000v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	root := crowd(30, 9, "DRIVER=ice\nPCI_CLASS=20000\nPCI_ID=8086:1593\nPCI_SUBSYS_ID=8086:0001\n").onDisk(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(root); err != nil {
			b.Fatal(err)
		}
	}
}

func TestReadThisMachine(t *testing.T) {
	entries, err := os.ReadDir("/" + busDevices)
	if err != nil || len(entries) == 0 {
		t.Skip("needs a PCI bus: there is no /sys/bus/pci/devices")
	}
	topo, err := Read(os.DirFS("/"))
	if topo == nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		a, err := ParseAddress(e.Name())
		if err != nil || topo.Device(a) == nil {
			t.Errorf("%s is missing: %v", e.Name(), err)
		}
	}
}
