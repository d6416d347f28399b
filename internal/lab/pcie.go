package lab

import (
	"fmt"
	"strconv"
)

// A machine with several devices has them where a server has: behind PCI Express
// switches, up to four EFA devices to a switch as instances with 32 of them have
// it, and accelerators spread over the same switches. If there are two devices of
// a kind, the switches are on two NUMA nodes, each a root bus of its own.
//
//	pxb-pcie, NUMA node 0          pxb-pcie, NUMA node 1
//	  pcie-root-port                 pcie-root-port
//	    x3130-upstream                 …
//	      xio3130-downstream
//	        the device
//	      …
//	  pcie-root-port …
const (
	numaNodes      = 2
	portsPerSwitch = 4 // of each kind
	// busNumbers is the range of each root bus. 16 EFA devices and 8
	// accelerators take 33 of it: the root bus, and for each switch its upstream
	// and internal bus and one a port. The first range is the machine's own.
	busNumbers = 64

	rootPort, downstreamPort = "pcie-root-port", "xio3130-downstream" // QEMU's names
)

// pcieSlot is a place for one device.
type pcieSlot struct {
	bus string // QEMU's id of it; "" is the machine's root bus
}

// pcieLayout is where the devices are.
type pcieLayout struct {
	efa, accelerators []pcieSlot // in the order in which a kernel finds the devices
	bridges           []string   // QEMU's arguments for what is above them
	numa              bool       // on two NUMA nodes, the first half of each kind on node 0
}

// pcieTree places devices. A single one has no bridges above it. With acs the ports
// above accelerators have access control services: they are root ports in the place
// of downstream ones, because QEMU's switch has none.
func pcieTree(efa, accelerators int, acs bool) (l pcieLayout) {
	if efa+accelerators <= 1 {
		l.efa, l.accelerators = make([]pcieSlot, efa), make([]pcieSlot, accelerators)
		return l
	}
	l.numa = efa > 1 || accelerators > 1
	device := func(format string, a ...any) { l.bridges = append(l.bridges, "-device", fmt.Sprintf(format, a...)) }
	// The firmware's tables, and so the kernel, list root buses in the reverse of
	// the order in which QEMU made them.
	for numa := numaNodes - 1; l.numa && numa >= 0; numa-- {
		device("pxb-pcie,id=numa%d,bus=pcie.0,bus_nr=%d,numa_node=%d", numa, (numa+1)*busNumbers, numa)
	}
	accelPort := downstreamPort
	if acs {
		accelPort = rootPort
	}
	ports := 0 // chassis numbers: QEMU wants each port's to be its own
	for numa := range numaNodes {
		nics, accels := efa, accelerators
		if l.numa {
			nics, accels = slotsOn(numa, efa), slotsOn(numa, accelerators)
		} else if numa > 0 {
			break
		}
		switches := (max(nics, accels) + portsPerSwitch - 1) / portsPerSwitch
		for s := range switches {
			sw := fmt.Sprintf("switch%d.%d", numa, s)
			root, slot := fmt.Sprintf("numa%d", numa), fmt.Sprintf(",addr=%d", s)
			if !l.numa {
				root, slot = "pcie.0", "" // wherever there is room
			}
			ports++
			device("%s,id=%s.root,bus=%s,chassis=%d,slot=0%s", rootPort, sw, root, ports, slot)
			device("x3130-upstream,id=%s,bus=%s.root", sw, sw)
			addr := 0
			add := func(kind, model string, i int) pcieSlot {
				ports++
				port := fmt.Sprintf("%s%d.%d", kind, numa, i)
				device("%s,id=%s,bus=%s,chassis=%d,slot=0,addr=%d", model, port, sw, ports, addr)
				addr++
				return pcieSlot{bus: port}
			}
			for i := s * portsPerSwitch; i < min(nics, (s+1)*portsPerSwitch); i++ {
				l.efa = append(l.efa, add("port", downstreamPort, i))
			}
			for i := s * accels / switches; i < (s+1)*accels/switches; i++ {
				l.accelerators = append(l.accelerators, add("accelport", accelPort, i))
			}
		}
	}
	return l
}

// slotsOn gives how many of n slots lie on a NUMA node: the first has the odd
// one.
func slotsOn(numa, n int) int { return (n + numaNodes - 1 - numa) / numaNodes }

// memoryArguments gives the guest's memory and processors, in MiB and pieces,
// as one node or as two NUMA nodes. Memory is a shared file so that a device in
// another process can reach it.
func memoryArguments(memory, cpus int, numa bool) []string {
	args := []string{"-m", strconv.Itoa(memory), "-smp", strconv.Itoa(cpus)}
	backend := func(id string, mib int) {
		args = append(args, "-object", fmt.Sprintf("memory-backend-memfd,id=%s,size=%dM,share=on", id, mib))
	}
	if !numa {
		backend("mem", memory)
		return append(args, "-machine", "q35,memory-backend=mem")
	}
	args = append(args, "-machine", "q35")
	first := 0 // processor
	for node := range numaNodes {
		backend(fmt.Sprintf("mem%d", node), slotsOn(node, memory))
		spec := fmt.Sprintf("node,nodeid=%d,memdev=mem%d", node, node)
		if n := slotsOn(node, cpus); n > 0 {
			spec += fmt.Sprintf(",cpus=%d-%d", first, first+n-1)
			first += n
		}
		args = append(args, "-numa", spec)
	}
	return args
}
