package pci

import "strconv"

// Name gives a function the short name that its users know: the RDMA device's, the
// NVMe controller's, the interface's; accelerators are GPU0, GPU1… and other NICs
// without a driver NIC0… in order of address, as nvidia-smi counts them; whatever
// else has no name is its address.
func (t *Topology) Name(d *Device) string {
	switch {
	case d == nil:
		return ""
	case d.Kind == Accelerator:
		return t.numbered("GPU", d)
	case len(d.RDMA) > 0:
		return d.RDMA[0].Name
	case len(d.NVMe) > 0:
		return d.NVMe[0]
	case len(d.Net) > 0:
		return d.Net[0]
	}
	switch d.Kind {
	case RDMANIC, OtherNIC:
		return t.numbered("NIC", d)
	case NVMe:
		return t.numbered("NVMe", d)
	case NVSwitch:
		return t.numbered("NVSwitch", d)
	}
	return d.Address.String()
}

// numbered counts the functions of the same prefix before d.
func (t *Topology) numbered(prefix string, d *Device) string {
	n := 0
	for _, o := range t.Devices {
		if o == d {
			return prefix + strconv.Itoa(n)
		}
		if o.Kind == d.Kind || prefix == "NIC" && (o.Kind == RDMANIC || o.Kind == OtherNIC) {
			n++
		}
	}
	return d.Address.String() // it is not of this machine
}
