package pci

import (
	"fmt"
	"strconv"
	"strings"
)

// choose sorts out which NICs are the fabric and which accelerators want rails;
// what looks like either and is not is ignored with a reason.
func (p *pairer) choose() {
	f := p.fabric()
	for _, d := range p.t.Devices {
		if line, ok := p.left[d]; ok {
			p.ignored = append(p.ignored, Ignored{d, fmt.Sprintf("left out by the overrides, line %d", line)})
			continue
		}
		_, named := p.given[d]
		var why string
		switch {
		case p.also[d]:
			p.nics = append(p.nics, d)
		case p.owned[d], named:
		case d.Kind == RDMANIC:
			if why = f.decoy(p.t, d); why == "" {
				p.nics = append(p.nics, d)
			}
		case d.Kind == Accelerator && visible(d.PF, p.left):
			why = "a virtual function of " + p.t.Name(d.PF) + ", which is paired itself"
		case d.Kind == OtherNIC:
			why = "a NIC without an RDMA device"
		case d.Kind == NVSwitch:
			why = "a switch between accelerators, none itself"
		case d.Kind == BMC:
			why = "the management controller's"
		case d.Kind == Other && integrated(d):
			why = "the processor's graphics, which have no memory of their own"
		}
		if why != "" {
			p.ignored = append(p.ignored, Ignored{d, why})
		} else if d.Kind == Accelerator {
			p.all = append(p.all, d)
			if !named {
				p.accels = append(p.accels, d)
			}
		}
	}
}

// visible tells whether a function is there to be paired instead of another.
func visible(d *Device, left map[*Device]int) bool {
	if d == nil {
		return false
	}
	_, out := left[d]
	return !out
}

// fabric is what the NICs of a machine have in common.
type fabric struct {
	left    map[*Device]int
	efa     bool
	rdma    bool    // some have an RDMA device
	active  bool    // some have an active port
	fastest float64 // Gb/s of an active port; 0 is unknown
}

func (p *pairer) fabric() *fabric {
	f := &fabric{left: p.left}
	for _, d := range p.t.Devices {
		if _, out := p.left[d]; out || d.Kind != RDMANIC || p.t.virtual(d, p.left) {
			continue
		}
		f.efa = f.efa || d.Vendor == amazon
		f.rdma = f.rdma || len(d.RDMA) > 0
	}
	for _, d := range p.t.Devices {
		if _, out := p.left[d]; out || d.Kind != RDMANIC || p.t.virtual(d, p.left) || f.efa && d.Vendor != amazon {
			continue
		}
		up, rate := portState(d)
		f.active = f.active || up == Yes
		f.fastest = max(f.fastest, rate)
	}
	return f
}

// virtual tells a NIC's virtual function beside its physical one.
func (t *Topology) virtual(d *Device, left map[*Device]int) bool {
	return visible(d.PF, left) && d.PF.Kind == RDMANIC
}

// decoy tells why an RDMA NIC is no part of the fabric; "" if it is.
func (f *fabric) decoy(t *Topology, d *Device) string {
	up, rate := portState(d)
	switch {
	case t.virtual(d, f.left):
		return "a virtual function of " + t.Name(d.PF) + ", whose port it would share"
	case f.efa && d.Vendor != amazon:
		return "not of the fabric, which is EFA here"
	case f.rdma && len(d.RDMA) == 0 && d.Driver == "":
		return "without an RDMA device: no driver is bound to it"
	case f.rdma && len(d.RDMA) == 0:
		return "without an RDMA device: its driver " + d.Driver + " gives none"
	case f.active && up == No:
		return "no port of it is active"
	case rate > 0 && rate*2 < f.fastest:
		return fmt.Sprintf("%g Gb/s where the fabric has %g: a NIC for management or storage", rate, f.fastest)
	}
	return ""
}

// portState tells whether a NIC has an active port, and the rate in Gb/s of the
// fastest that is not down; 0 is unknown.
func portState(d *Device) (active Tri, rate float64) {
	for _, r := range d.RDMA {
		for _, p := range r.Ports {
			switch {
			case p.State == "":
			case strings.HasSuffix(p.State, "ACTIVE"):
				active = Yes
			case active == Unknown:
				active = No
			}
			if p.State != "" && !strings.HasSuffix(p.State, "ACTIVE") {
				continue
			}
			number, _, _ := strings.Cut(p.Rate, " ")
			if v, err := strconv.ParseFloat(number, 64); err == nil && v > 0 && v < 1e6 {
				rate = max(rate, v)
			}
		}
	}
	return active, rate
}
