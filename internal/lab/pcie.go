package lab

import (
	"fmt"
	"strconv"
)

// A machine with several EFA devices has them where a server has: behind PCI
// Express switches, four to a switch as instances with 32 of them have it, the
// switches spread over two NUMA nodes. Each NUMA node is a root bus of its own.
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
	portsPerSwitch = 4
	// busNumbers is the range of each root bus. 16 devices take 25 of it: the
	// root bus, and for each switch its upstream and internal bus and one a
	// port. The first range is the machine's own.
	busNumbers = 64
)

// pcieSlot is a place for one device.
type pcieSlot struct {
	bus string // QEMU's id of it; "" is the machine's root bus
}

// pcieTree gives n slots, and QEMU's arguments for the bridges above them:
// none for up to one slot. Slots are in the order in which a kernel finds the
// devices, and the first half of them is on NUMA node 0.
func pcieTree(n int) (slots []pcieSlot, args []string) {
	if n <= 1 {
		return make([]pcieSlot, n), nil
	}
	device := func(format string, a ...any) { args = append(args, "-device", fmt.Sprintf(format, a...)) }
	// The firmware's tables, and so the kernel, list root buses in the reverse of
	// the order in which QEMU made them.
	for numa := numaNodes - 1; numa >= 0; numa-- {
		device("pxb-pcie,id=numa%d,bus=pcie.0,bus_nr=%d,numa_node=%d", numa, (numa+1)*busNumbers, numa)
	}
	ports := 0 // chassis numbers: QEMU wants each port's to be its own
	for numa := range numaNodes {
		for i := range slotsOn(numa, n) {
			sw := fmt.Sprintf("switch%d.%d", numa, i/portsPerSwitch)
			if i%portsPerSwitch == 0 {
				ports++
				device("pcie-root-port,id=%s.root,bus=numa%d,chassis=%d,slot=0,addr=%d", sw, numa, ports, i/portsPerSwitch)
				device("x3130-upstream,id=%s,bus=%s.root", sw, sw)
			}
			ports++
			port := fmt.Sprintf("port%d.%d", numa, i)
			device("xio3130-downstream,id=%s,bus=%s,chassis=%d,slot=0,addr=%d", port, sw, ports, i%portsPerSwitch)
			slots = append(slots, pcieSlot{bus: port})
		}
	}
	return slots, args
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
