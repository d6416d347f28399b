package pci

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// machine is a small system root, made by hand.
type machine struct{ fstest.MapFS }

func newMachine() machine { return machine{fstest.MapFS{}} }

func (m machine) file(name, text string) machine {
	m.MapFS[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	return m
}

func (m machine) link(name, target string) machine {
	m.MapFS[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
	return m
}

// dir makes a function's folder below /sys/devices, without an entry on the bus.
func (m machine) dir(place, class, id string) machine {
	at := sysDevices + "/" + place
	vendor, device, _ := strings.Cut(id, ":")
	m.file(at+"/class", "0x"+class+"\n")
	m.file(at+"/vendor", "0x"+vendor+"\n")
	return m.file(at+"/device", "0x"+device+"\n")
}

// device makes a function and its entry.
func (m machine) device(place, class, id string) machine {
	m.dir(place, class, id)
	return m.link(busDevices+"/"+path.Base(place), "../../../devices/"+place)
}

// named makes an entry of a class on a function.
func (m machine) named(class, name, place string) machine {
	m.file(sysDevices+"/"+place+"/"+class+"/"+name+"/uevent", "")
	return m.link("sys/class/"+class+"/"+name, "../../devices/"+place+"/"+class+"/"+name)
}

// tree writes what was read in a line a function: its place, kind and name.
func tree(t *Topology) string {
	var b strings.Builder
	var write func(d *Device, indent string)
	write = func(d *Device, indent string) {
		fmt.Fprintf(&b, "%s%v %v %s", indent, d.Address, d.Kind, t.Name(d))
		if d.PF != nil {
			fmt.Fprintf(&b, " of %v", d.PF.Address)
		}
		if d.Switch != nil {
			if d == d.Switch.Upstream {
				fmt.Fprintf(&b, " switch of %d", len(d.Switch.Downstream))
			} else {
				b.WriteString(" port")
			}
		}
		if d.Card != nil {
			fmt.Fprintf(&b, " card of %d", len(d.Card.Functions))
		}
		b.WriteByte('\n')
		for _, c := range d.Children {
			write(c, indent+"  ")
		}
	}
	for _, r := range t.Roots {
		fmt.Fprintf(&b, "%s %s\n", r.Name, r.Path)
		for _, d := range r.Children {
			write(d, "  ")
		}
	}
	return b.String()
}

const (
	bridge  = "060400"
	gpu     = "030200"
	ether   = "020000"
	h100    = "10de:2330"
	connect = "15b3:1021"
	plx     = "10b5:9797"
)

func TestReadStructure(t *testing.T) {
	for _, c := range []struct {
		name string
		m    machine
		want string
	}{
		{"a switch with an accelerator and a NIC below", newMachine().
			device("pci0000:17/0000:17:00.0", bridge, "8086:2030").
			device("pci0000:17/0000:17:00.0/0000:18:00.0", bridge, plx).
			device("pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:04.0", bridge, plx).
			device("pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:08.0", bridge, plx).
			device("pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:04.0/0000:1a:00.0", gpu, h100).
			device("pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:08.0/0000:1b:00.0", "020700", connect).
			named("infiniband", "mlx5_0", "pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:08.0/0000:1b:00.0"),
			`pci0000:17 pci0000:17
  0000:17:00.0 bridge 0000:17:00.0
    0000:18:00.0 bridge 0000:18:00.0 switch of 2
      0000:19:04.0 bridge 0000:19:04.0 port
        0000:1a:00.0 accelerator GPU0
      0000:19:08.0 bridge 0000:19:08.0 port
        0000:1b:00.0 RDMA NIC mlx5_0
`},
		{"domains wider than four digits, one below a function", newMachine().
			device("pci10001:80/10001:80:01.0", "010802", "144d:a808").
			device("pci0000:00/0000:00:0e.0", "010400", "8086:9a0b").
			device("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0", bridge, "8086:9a09").
			device("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0", "010802", "144d:a808").
			named("nvme", "nvme1", "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0"),
			`pci0000:00 pci0000:00
  0000:00:0e.0 other 0000:00:0e.0
pci10000:e0 pci0000:00/0000:00:0e.0/pci10000:e0
  10000:e0:06.0 bridge 10000:e0:06.0
    10000:e1:00.0 NVMe nvme1
pci10001:80 pci10001:80
  10001:80:01.0 NVMe NVMe1
`},
		{"roots at any depth", newMachine().
			device("LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531444234/pci0001:00/0001:00:00.0", gpu, h100).
			device("platform/3f000000.pcie/pci0002:00/0002:00:01.0", ether, "8086:1521").
			device("platform/40000000.pcie/0003:01:00.0", ether, "8086:1521"),
			`pci0001:00 LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531444234/pci0001:00
  0001:00:00.0 accelerator GPU0
pci0002:00 platform/3f000000.pcie/pci0002:00
  0002:00:01.0 NIC NIC0
pci0003:01 platform/40000000.pcie
  0003:01:00.0 NIC NIC1
`},
		{"a domain for each device", newMachine().
			device("pci0001:00/0001:00:00.0", gpu, h100).
			device("pci0002:00/0002:00:00.0", gpu, h100).
			device("pci0101:00/0101:00:00.0", "020700", connect),
			`pci0001:00 pci0001:00
  0001:00:00.0 accelerator GPU0
pci0002:00 pci0002:00
  0002:00:00.0 accelerator GPU1
pci0101:00 pci0101:00
  0101:00:00.0 RDMA NIC NIC0
`},
		{"no bus folder: what /sys/devices holds, without following its links", newMachine().
			dir("pci0214:90/0214:90:00.0", "010802", "144d:a824").
			file("sys/devices/pci0214:90/0214:90:00.0/nvme/nvme0/model", "").
			link("sys/devices/pci0214:90/0214:90:00.0/subsystem", "../../../devices").
			link("sys/devices/again", "."),
			`pci0214:90 pci0214:90
  0214:90:00.0 NVMe nvme0
`},
		{"a class entry without a bus entry", newMachine().
			device("pci0000:00/0000:00:01.0", bridge, "8086:2030").
			dir("pci0000:00/0000:00:01.0/0000:01:00.0", "020700", connect).
			named("infiniband", "mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0"),
			`pci0000:00 pci0000:00
  0000:00:01.0 bridge 0000:00:01.0
    0000:01:00.0 RDMA NIC mlx5_0
`},
		{"a physical function, its virtual one, and two ports of a card", newMachine().
			device("pci0000:00/0000:00:01.0", bridge, "8086:2030").
			device("pci0000:00/0000:00:01.0/0000:01:00.0", ether, connect).
			device("pci0000:00/0000:00:01.0/0000:01:00.1", ether, connect).
			device("pci0000:00/0000:00:01.0/0000:01:00.2", ether, "15b3:101e").
			file("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/sriov_vf_device", "101e\n").
			file("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/modalias", "pci:nonsense\n").
			file("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0/node_guid", "0c42:a103:0065:f9fa\n").
			file("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/infiniband/mlx5_1/node_guid", "0c42:a103:0065:f9fa\n").
			link("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.2/physfn", "../0000:01:00.0").
			named("infiniband", "mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0").
			named("infiniband", "mlx5_1", "pci0000:00/0000:00:01.0/0000:01:00.1").
			named("infiniband", "mlx5_2", "pci0000:00/0000:00:01.0/0000:01:00.2"),
			`pci0000:00 pci0000:00
  0000:00:01.0 bridge 0000:00:01.0
    0000:01:00.0 RDMA NIC mlx5_0 card of 2
    0000:01:00.1 RDMA NIC mlx5_1 card of 2
    0000:01:00.2 RDMA NIC mlx5_2 of 0000:01:00.0
`},
		{"absolute links stay in the root", newMachine().
			dir("pci0000:00/0000:00:02.0", gpu, h100).
			link(busDevices+"/0000:00:02.0", "/sys/devices/pci0000:00/0000:00:02.0/"),
			`pci0000:00 pci0000:00
  0000:00:02.0 accelerator GPU0
`},
		{"copies in place of links: below the bridge that leads to the bus", newMachine().
			file(busDevices+"/0000:00:01.0/class", "0x060400").
			file(busDevices+"/0000:00:01.0/secondary_bus_number", "1\n").
			file(busDevices+"/0000:01:00.0/class", "0x030200").
			file(busDevices+"/0000:01:00.0/vendor", "0x10de").
			file(busDevices+"/0000:02:00.0/class", "0x010802"),
			`pci0000:00 
  0000:00:01.0 bridge 0000:00:01.0
    0000:01:00.0 accelerator GPU0
pci0000:02 
  0000:02:00.0 NVMe NVMe0
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(c.m)
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(topo); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// onDisk writes the machine to a folder: fstest.MapFS follows links without end.
func (m machine) onDisk(t testing.TB) fs.FS {
	dir := t.TempDir()
	for name, f := range m.MapFS {
		name = dir + "/" + name
		err := os.MkdirAll(path.Dir(name), 0o755)
		if err == nil && f.Mode&fs.ModeSymlink != 0 {
			err = os.Symlink(string(f.Data), name)
		} else if err == nil {
			err = os.WriteFile(name, f.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(dir)
}
