package hwlocxml

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// osKind is what hwloc takes an OS device for: a bit of hwloc 3's osdev_type.
type osKind uint64

const (
	osStorage osKind = 1 << iota
	osMemory
	osGPU
	osCoprocessor
	osNetwork
	osFabrics
	osDMA
)

// oldKinds are those of hwloc 1 and 2, by number.
var oldKinds = []osKind{osStorage, osGPU, osNetwork, osFabrics, osDMA, osCoprocessor}

// osName is an OS device of a function.
type osName struct {
	dev  *device
	rdma int // its place in dev.RDMA; -1: it is none
}

// startName takes the name of an OS device for the function it is below.
func (r *reader) startName(o, up *object) {
	if up == nil || up.dev == nil {
		return // of a bus that is not PCI, or of none
	}
	name := attribute(o.e, "name")
	v, err := strconv.ParseUint(attribute(o.e, "osdev_type"), 10, 32)
	if err != nil || name == "" {
		r.fail(o.line, "OSDev", fmt.Errorf("no type, or no name, of a device of %s", up.dev.Address))
		return
	}
	kind := osKind(v)
	if r.version < 3 {
		kind = 0
		if v < uint64(len(oldKinds)) {
			kind = oldKinds[v]
		}
	}
	d := up.dev
	o.name = &osName{dev: d, rdma: -1}
	switch {
	case kind&osFabrics != 0:
		o.name.rdma = len(d.RDMA)
		d.RDMA = append(d.RDMA, pci.RDMA{Name: name})
	case kind&osNetwork != 0:
		d.Net = append(d.Net, name)
	case kind&osStorage != 0:
		if c := controller(name); c != "" {
			d.NVMe = append(d.NVMe, c)
		}
	case strings.HasPrefix(name, "card"), strings.HasPrefix(name, "renderD"), strings.HasPrefix(name, "controlD"):
		d.Dev = append(d.Dev, "dri/"+name)
	case kind&osCoprocessor != 0:
		// Of the others only the NEC and MIC ones are names below /dev.
		if strings.HasPrefix(name, "ve") || strings.HasPrefix(name, "mic") {
			d.Dev = append(d.Dev, name)
		}
	}
	if kind&osCoprocessor != 0 && d.Kind != pci.Bridge {
		d.Kind = pci.Accelerator
	}
}

// controller gives the NVMe controller of a block device: nvme2 of nvme2n1, and
// nvme3 of nvme2c3n1, which is the path over nvme3 to a namespace of subsystem 2.
func controller(name string) string {
	name, ok := strings.CutPrefix(name, "nvme")
	subsystem, rest := digits(name)
	if !ok || subsystem == "" {
		return ""
	}
	if path, ok := strings.CutPrefix(rest, "c"); ok {
		subsystem, rest = digits(path)
	}
	if subsystem == "" || !strings.HasPrefix(rest, "n") {
		return ""
	}
	return "nvme" + subsystem
}

func digits(s string) (number, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// byNumber puts mlx5_2 before mlx5_10.
func byNumber(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// portStates are those of the kernel's enum ib_port_state, by number, as sysfs spells
// them.
var portStates = []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

// info takes a fact about the object it is in; outside of any it is about all.
func (r *reader) info(name, value string) {
	if len(r.stack) == 0 {
		r.machineInfo(name, value)
		return
	}
	o := r.stack[len(r.stack)-1]
	switch {
	case o.gone:
	case o.machine:
		r.machineInfo(name, value)
		r.processorInfo(name, value)
	case o.typ == "Socket" || o.typ == "Package":
		r.processorInfo(name, value)
	case o.dev != nil && name == "PCISlot":
		o.dev.Slot = value
	case o.name != nil:
		o.name.info(name, value)
	}
}

func (o *osName) info(name, value string) {
	switch name {
	case "CUDAGlobalMemorySize", "RSMIVRAMSize", "VectorEngineMemorySize": // in KiB, which hwloc 3 adds
		if v, err := strconv.ParseInt(strings.TrimSuffix(value, "KiB"), 10, 52); err == nil && v > 0 {
			o.dev.Memory = v << 10
		}
	}
	if o.rdma < 0 {
		return
	}
	dev := &o.dev.RDMA[o.rdma]
	if name == "NodeGUID" {
		dev.NodeGUID = value
		return
	}
	text, ok := strings.CutPrefix(name, "Port")
	text, ok2 := strings.CutSuffix(text, "State")
	number, err := strconv.ParseUint(text, 10, 8)
	state, err2 := strconv.ParseUint(value, 10, 8)
	if ok && ok2 && err == nil && err2 == nil && state < uint64(len(portStates)) {
		dev.Ports = append(dev.Ports, pci.RDMAPort{Number: int(number), State: portStates[state]})
	}
}
