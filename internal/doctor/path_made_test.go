package doctor

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	switchedNIC = "0000:04:00.0"
	switchedGPU = "0000:03:00.0"
)

// paired is a machine with one accelerator and one NIC, on two ports of a switch or,
// with flat, each on a root port of its own.
type paired struct {
	flat       bool
	acs        uint16 // control of the switch's port above the accelerator
	unreadable bool   // config space ends after 64 bytes, as for who is not root
	gpu        string // its PCI identity "vendor:device"; NVIDIA's without
	driver     string // the accelerator's
	nic        string // driver of the NIC; mlx5_core without
	cpu        string // vendor; GenuineIntel without
	noP2PDMA   bool   // the kernel's option
	group      string // type of the IOMMU's groups; "" is no IOMMU
	bar        string // line of the accelerator's resource
	gpuSpeed   uint16 // of its link, as the register has it: 1 is 2.5 GT/s; 5 without
	nicLanes   uint16 // 16 without
	more       []string
}

const bigBAR = "0x0000200000000000 0x0000201fffffffff 0x000000000014220c"

func (n paired) build(t *testing.T) fstest.MapFS {
	t.Helper()
	or := func(a, b string) string {
		if a == "" {
			return b
		}
		return a
	}
	var lines []string
	config := map[string][]byte{}
	add := func(at, vendor, device, class, driver string, kind byte, acs uint16) {
		address := at[strings.LastIndexByte(at, '/')+1:]
		lines = append(lines, "sys/bus/pci/devices/"+address+" -> ../../../devices/pci0000:00/"+at)
		at = "sys/devices/pci0000:00/" + at
		lines = append(lines, at+"/vendor = 0x"+vendor, at+"/device = 0x"+device, at+"/class = 0x"+class, at+"/numa_node = 0")
		up := strings.Repeat("../", strings.Count(at, "/"))
		if driver != "" {
			lines = append(lines, at+"/driver -> "+up+"bus/pci/drivers/"+driver, "sys/bus/pci/drivers/"+driver+"/")
		}
		if n.group != "" {
			lines = append(lines, at+"/iommu_group -> "+up+"kernel/iommu_groups/7")
		}
		config[at+"/config"] = space(kind, acs)
	}
	const port, second = "0000:00:01.0", "0000:00:02.0"
	gpuAt, nicAt := port+"/0000:01:00.0/0000:02:00.0/"+switchedGPU, port+"/0000:01:00.0/0000:02:01.0/"+switchedNIC
	add(port, "8086", "352a", "060400", "", 4, 0)
	if n.flat {
		add(second, "8086", "352b", "060400", "", 4, 0)
		gpuAt, nicAt = port+"/"+switchedGPU, second+"/"+switchedNIC
	} else {
		add(port+"/0000:01:00.0", "1000", "c030", "060400", "", 5, 0)
		add(port+"/0000:01:00.0/0000:02:00.0", "1000", "c030", "060400", "", 6, n.acs)
		add(port+"/0000:01:00.0/0000:02:01.0", "1000", "c030", "060400", "", 6, 0)
	}
	vendor, device, _ := strings.Cut(or(n.gpu, "10de:2330"), ":")
	add(gpuAt, vendor, device, "030200", n.driver, 0, 0)
	add(nicAt, "15b3", "1021", "020700", or(n.nic, "mlx5_core"), 0, 0)
	ib := "devices/pci0000:00/" + nicAt + "/infiniband/mlx5_0"
	lines = append(lines,
		"sys/devices/pci0000:00/"+gpuAt+"/resource = "+or(n.bar, bigBAR),
		"sys/class/infiniband/mlx5_0 -> ../../"+ib, "sys/"+ib+"/device -> ../../../"+switchedNIC, "sys/"+ib+"/node_type = 1: CA",
		"sys/"+ib+"/ports/1/state = 4: ACTIVE", "sys/"+ib+"/ports/1/link_layer = InfiniBand", "sys/"+ib+"/ports/1/rate = 400 Gb/sec (4X NDR)",
		"proc/cpuinfo = vendor_id\\t: "+or(n.cpu, "GenuineIntel")+"\\ncpu family\\t: 6\\nmodel\\t: 143", "proc/sys/kernel/osrelease = 7.3.4", "sys/class/iommu/",
		"sys/devices/system/node/node0/cpulist = 0-7")
	if n.group != "" {
		lines = append(lines, "sys/kernel/iommu_groups/7/type = "+n.group, "sys/class/iommu/dmar0/")
	}
	option := "CONFIG_PCI=y\\nCONFIG_PCI_P2PDMA=y"
	if n.noP2PDMA {
		option = "CONFIG_PCI=y\\n# CONFIG_PCI_P2PDMA is not set"
	}
	lines = append(append(lines, "boot/config-7.3.4 = #\\n"+option), n.more...)
	m := root(t, lines...)
	for name, b := range config {
		speed, lanes := uint16(5), uint16(16)
		if strings.Contains(name, switchedGPU) && n.gpuSpeed > 0 {
			speed = n.gpuSpeed
		}
		if strings.Contains(name, switchedNIC) && n.nicLanes > 0 {
			lanes = n.nicLanes
		}
		binary.LittleEndian.PutUint32(b[0x4c:], 5|16<<4)        // link capabilities: 32 GT/s x16
		binary.LittleEndian.PutUint16(b[0x52:], speed|lanes<<4) // link status
		if n.unreadable {
			b = b[:64]
		}
		m[name] = &fstest.MapFile{Data: b, Mode: 0o444}
	}
	return m
}

// space is config space of a PCI Express function of a port type, with access control
// services as they are set; 0 is none.
func space(port byte, acs uint16) []byte {
	b := make([]byte, 4096)
	b[0x06], b[0x34] = 0x10, 0x40 // a list of capabilities, from 0x40 on
	b[0x40], b[0x42] = 0x10, port<<4|2
	binary.LittleEndian.PutUint32(b[0x100:], 0x0003|1<<16) // a serial number, and no more
	if acs != 0 {
		binary.LittleEndian.PutUint32(b[0x100:], 0x000d|1<<16)
		binary.LittleEndian.PutUint16(b[0x104:], 0x00ff)
		binary.LittleEndian.PutUint16(b[0x106:], acs)
	}
	return b
}

// nodes runs one check over nodes.
func nodes(t *testing.T, check string, all []struct {
	name  string
	node  paired
	wants string
}) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			want(t, told(runCheck(t, NewSystem(c.node.build(t), false), check)), c.wants)
		})
	}
}
