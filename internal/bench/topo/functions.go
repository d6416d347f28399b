package main

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// function is one of PCI, as sysfs shows it.
type function struct {
	name   string // 0000:10:01.0
	above  string // the folder that its own is in
	socket int
	class  uint32
	id     [4]uint16 // vendor, device, and the subsystem's
	driver string

	port  int   // device and port type of the PCI Express capability; -1 is none
	buses []int // a bridge's: primary, secondary, subordinate
	speed int   // code of its link's speed; 0 is no link
	width int
	bars  []string
	pf    string   // the folder of a virtual function's physical one
	names []string // its entries in classes: "net/eth0"
}

// Types of ports (PCI Express base specification, PCI Express capabilities
// register).
const (
	endpoint   = 0
	rootPort   = 4
	upstream   = 5
	downstream = 6
)

func (f *function) dir() string { return f.above + "/" + f.name }

// bar is a line of the file resource: 64-bit prefetchable memory.
func bar(start, size uint64) string {
	return fmt.Sprintf("0x%016x 0x%016x 0x000000000014220c", start, start+size-1)
}

// pci lays out every function, those above before those below.
func (m *layout) pci() (all []*function) {
	add := func(f function) *function {
		if f.bars == nil && f.buses == nil {
			f.bars = []string{bar(0x2000_0000_0000+uint64(len(all))<<40, 64<<10)}
		}
		all = append(all, &f)
		return &f
	}
	bridge := func(above string, bus, slot, to, last, socket, port int, id uint16) *function {
		return add(function{name: address(bus, slot, 0), above: above, socket: socket, class: 0x060400,
			id: [4]uint16{0x8086, id, 0x8086, 0}, driver: "pcieport",
			port: port, buses: []int{bus, to, last}, speed: 5, width: 16})
	}
	for r := range roots {
		socket, bus := r*sockets/roots, 0x10+r*0x18
		top := fmt.Sprintf("sys/devices/pci0000:%02x", bus)
		const below = 2 + nicsOfRoot // the devices of a switch
		last := bus + 2 + below
		rp := bridge(top, bus, 1, bus+1, last, socket, rootPort, 0x352a)
		up := bridge(rp.dir(), bus+1, 0, bus+2, last, socket, upstream, 0xc030)
		for i := range below {
			at := bus + 3 + i
			down := bridge(up.dir(), bus+2, i, at, at, socket, downstream, 0xc030)
			f := function{name: address(at, 0, 0), above: down.dir(), socket: socket, port: endpoint, speed: 5, width: 16}
			switch i {
			case 0:
				f.class, f.id, f.driver = 0x030200, [4]uint16{0x10de, 0x2330, 0x10de, 0x16c1}, "nvidia"
				f.bars = []string{bar(0x6000_0000_0000+uint64(r)<<40, 16<<20), bar(0x7000_0000_0000+uint64(r)<<40, 128<<30)}
				f.names = []string{fmt.Sprintf("drm/card%d", r), fmt.Sprintf("drm/renderD%d", 128+r)}
				add(f)
			case 1:
				f.class, f.id, f.driver, f.width = 0x010802, [4]uint16{0x144d, 0xa80a, 0x144d, 0xa801}, "nvme", 4
				f.names = []string{fmt.Sprintf("nvme/nvme%d", r)}
				add(f)
			default:
				nic := r*nicsOfRoot + i - 2
				f.class, f.id, f.driver = 0x020000, [4]uint16{0x15b3, 0x1021, 0x15b3, 0x0040}, "mlx5_core"
				f.names = []string{fmt.Sprintf("infiniband/mlx5_%d", nic), fmt.Sprintf("net/ens%d", nic)}
				pf := add(f)
				for v := range vfsOfNIC {
					add(function{name: address(at, 0, v+1), above: down.dir(), socket: socket, port: endpoint, pf: pf.dir(),
						class: 0x020000, id: [4]uint16{0x15b3, 0x101e, 0x15b3, 0x0040}, driver: "vfio-pci"})
				}
			}
		}
	}
	for i := 0; len(all) < functions; i++ {
		r := i % roots
		bus := 0x10 + r*0x18
		add(function{name: address(bus, 0, i/roots), above: fmt.Sprintf("sys/devices/pci0000:%02x", bus),
			socket: r * sockets / roots, class: 0x088000, id: [4]uint16{0x8086, 0x09a2, 0x8086, 0}, port: -1})
	}
	return all
}

func address(bus, device, function int) string {
	return fmt.Sprintf("0000:%02x:%02x.%x", bus, device, function)
}

func (f *function) write(t *tree, m *layout) {
	dir := f.dir() + "/"
	t.file(dir+"vendor", "0x%04x", f.id[0])
	t.file(dir+"device", "0x%04x", f.id[1])
	t.file(dir+"subsystem_vendor", "0x%04x", f.id[2])
	t.file(dir+"subsystem_device", "0x%04x", f.id[3])
	t.file(dir+"class", "0x%06x", f.class)
	t.file(dir+"revision", "0x01")
	t.file(dir+"irq", "0")
	t.file(dir+"enable", "1")
	t.file(dir+"numa_node", "%d", f.socket)
	t.file(dir+"local_cpus", "%s", m.mask(m.socket(f.socket)))
	t.file(dir+"local_cpulist", "%s", list(m.socket(f.socket)))
	alias := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
		f.id[0], f.id[1], f.id[2], f.id[3], f.class>>16, f.class>>8&0xff, f.class&0xff)
	t.file(dir+"modalias", "%s", alias)
	driver := ""
	if f.driver != "" {
		driver = "DRIVER=" + f.driver + "\n"
		t.link(dir+"driver", "sys/bus/pci/drivers/"+f.driver)
	}
	t.file(dir+"uevent", "%sPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s",
		driver, f.class, f.id[0], f.id[1], f.id[2], f.id[3], f.name, alias)
	regions := make([]string, 13) // six registers, the ROM, and those of SR-IOV
	for i := range regions {
		regions[i] = bar(0, 1)[:18] + " 0x0000000000000000 0x0000000000000000"
	}
	for i, b := range f.bars {
		regions[2*i] = b
	}
	t.file(dir+"resource", "%s", strings.Join(regions, "\n"))
	if f.speed > 0 {
		for _, when := range []string{"current", "max"} {
			t.file(dir+when+"_link_speed", "%s GT/s PCIe", []string{"", "2.5", "5.0", "8.0", "16.0", "32.0"}[f.speed])
			t.file(dir+when+"_link_width", "%d", f.width)
		}
	}
	if f.pf != "" {
		t.link(dir+"physfn", f.pf)
	}
	group := fmt.Sprintf("sys/kernel/iommu_groups/%d", m.group())
	t.link(dir+"iommu_group", group)
	t.file(group+"/type", "DMA-FQ")
	t.link(group+"/devices/"+f.name, f.dir())
	t.bytes(dir+"config", f.config())
	t.link("sys/bus/pci/devices/"+f.name, f.dir())
	for _, name := range f.names {
		f.entry(t, name)
	}
}

// entry writes a device's entry in a class.
func (f *function) entry(t *tree, name string) {
	at := f.dir() + "/" + name
	class, _, _ := strings.Cut(name, "/")
	t.link("sys/class/"+name, at)
	t.link(at+"/device", f.dir())
	switch class {
	case "net":
		t.file(at+"/address", "02:00:00:00:00:01")
		t.file(at+"/operstate", "up")
		t.file(at+"/type", "1")
	case "infiniband":
		t.file(at+"/node_guid", "0200:0000:0000:0001")
		t.file(at+"/sys_image_guid", "0200:0000:0000:0001")
		port := at + "/ports/1/"
		t.file(port+"state", "4: ACTIVE")
		t.file(port+"rate", "400 Gb/sec (4X NDR)")
		t.file(port+"link_layer", "Ethernet")
		t.file(port+"lid", "0x0")
		t.file(port+"lid_mask_count", "0")
		for i := range 4 {
			t.file(fmt.Sprintf("%sgids/%d", port, i), "fe80:0000:0000:0000:0000:0000:0000:000%d", i)
		}
	case "nvme":
		t.file(at+"/model", "NVMe")
		t.file(at+"/state", "live")
	}
}

// config gives config space: the header, the PCI Express capability and, of a port,
// access control in the extended part.
func (f *function) config() []byte {
	put := binary.LittleEndian
	if f.port < 0 {
		b := make([]byte, 256)
		f.header(b)
		return b
	}
	b := make([]byte, 4096)
	f.header(b)
	const express = 0x40
	b[0x06] |= 1 << 4 // there are capabilities
	b[0x34] = express
	b[express] = 0x10
	b[express+2] = byte(f.port<<4 | 2)
	put.PutUint32(b[express+0x0c:], uint32(f.width<<4|f.speed))
	put.PutUint16(b[express+0x12:], uint16(f.width<<4|f.speed))
	if f.speed > 0 {
		put.PutUint32(b[express+0x2c:], uint32(2<<f.speed-2))
	}
	const errors, access = 0x100, 0x148
	put.PutUint32(b[errors:], 0x0001|1<<16)
	if f.buses != nil {
		put.PutUint32(b[errors:], 0x0001|1<<16|access<<20)
		put.PutUint32(b[access:], 0x000d|1<<16)
		put.PutUint16(b[access+4:], 0x005f)
		put.PutUint16(b[access+6:], 0x0001)
	}
	return b
}

func (f *function) header(b []byte) {
	put := binary.LittleEndian
	put.PutUint16(b, f.id[0])
	put.PutUint16(b[2:], f.id[1])
	if f.pf != "" { // only the physical function has these
		put.PutUint32(b, 0xffffffff)
	}
	put.PutUint32(b[8:], f.class<<8|0x01)
	if f.buses != nil {
		b[0x0e] = 1
		b[0x18], b[0x19], b[0x1a] = byte(f.buses[0]), byte(f.buses[1]), byte(f.buses[2])
		return
	}
	put.PutUint16(b[0x2c:], f.id[2])
	put.PutUint16(b[0x2e:], f.id[3])
	b[0x10] = 0x0c // 64-bit prefetchable memory
}
