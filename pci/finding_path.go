package pci

import (
	"fmt"
	"strings"
)

const redirects = ACSRequestRedirect | ACSCompletionRedirect | ACSUpstreamForward

// access looks for access control on the paths between an accelerator and its
// rails, and other accelerators, where a switch could carry the traffic.
func (f *finder) access() {
	turns, dark := map[*Device]bool{}, map[*Device]bool{}
	var example relation
	look := func(a, b *Device) {
		r := f.t.relate(a, b)
		if r.class != PIX && r.class != PXB {
			return
		}
		for _, port := range r.ports() {
			switch {
			case port.ACS != nil && port.ACS.Control&redirects != 0:
				if len(turns) == 0 {
					example = r
				}
				turns[port] = true
			case port.ACS == nil && !port.ACSKnown && !f.t.Outline: // nobody looked
				dark[port] = true
			}
		}
	}
	for i, p := range f.pairing.Pairs {
		for _, n := range p.Rails {
			look(p.Accelerator, n)
		}
		for _, q := range f.pairing.Pairs[i+1:] {
			look(p.Accelerator, q.Accelerator)
		}
	}
	if len(turns) > 0 {
		ports := f.among(turns)
		f.add(Finding{
			Code: FindingACSRedirect, Severity: Warning,
			What: fmt.Sprintf("Access control on %s turns peer-to-peer traffic up to the root complex, for one between %s and %s, which a switch connects (%s).",
				plural(len(ports), "switch port", "switch ports"), f.t.label(example.a), f.t.label(example.b), acsBits(ports[0].ACS.Control)),
			Cost:   "Each transfer crosses the switch's uplink twice: about half the bandwidth, more where devices share the uplink, and the latency of the root complex.",
			Remedy: "Where no guest is given these devices: turn ACS off in the BIOS, or boot with pci=disable_acs_redir=" + addressList(ports) + "; setpci on the ACS control word does it until the next boot.",
		}, ports...)
	}
	if len(dark) > 0 {
		f.add(Finding{
			Code: FindingACSUnknown, Severity: Info,
			What:   "Whether access control turns peer-to-peer traffic up to the root complex cannot be read on the switch ports between accelerators and NICs.",
			Cost:   "None itself; what a redirect costs would not be seen here.",
			Remedy: "Run as root: config space beyond 64 bytes is for root only. Captures have it if root made them.",
		}, f.among(dark)...)
	}
}

// among gives the devices of a set in order.
func (f *finder) among(set map[*Device]bool) (devices []*Device) {
	for _, d := range f.t.Devices {
		if set[d] {
			devices = append(devices, d)
		}
	}
	return devices
}

// ports gives the bridges between, without the one in common.
func (r *relation) ports() (ports []*Device) {
	for _, end := range [...]*Device{r.a, r.b} {
		for d, n := end.Parent, 0; d != nil && d != r.common && n < deepest; d, n = d.Parent, n+1 {
			// Only where traffic comes down again is it turned, and an upstream port
			// has nothing to turn.
			if d.Port != UpstreamPort && (d.Port != PortUnknown || d.Switch == nil || d.Switch.Upstream != d) {
				ports = append(ports, d)
			}
		}
	}
	return ports
}

// acsBits spells access control as lspci does.
func acsBits(control uint16) string {
	var set []string
	for i, name := range [...]string{"SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans"} {
		if control&(1<<i) != 0 {
			set = append(set, name+"+")
		}
	}
	return strings.Join(set, " ")
}

// addressList joins addresses as the kernel's pci= parameters want them.
func addressList(devices []*Device) string {
	const most = 16
	var all []string
	for _, d := range devices[:min(len(devices), most)] {
		all = append(all, d.Address.String())
	}
	if len(devices) > most {
		all = append(all, "…")
	}
	return strings.Join(all, ";")
}

// iommu looks for devices whose addresses are translated.
func (f *finder) iommu() {
	for _, d := range f.paired() {
		if d.GroupType != "DMA" && d.GroupType != "DMA-FQ" {
			continue
		}
		f.add(Finding{
			Code: FindingIOMMU, Severity: Warning,
			What:   "The IOMMU translates every address of accelerators or NICs (group type " + d.GroupType + ").",
			Cost:   "Registering memory maps each page into the IOMMU, a miss of its cache delays a transfer, and peer-to-peer traffic goes through the root complex to be translated.",
			Remedy: "Where devices may see all memory: boot with iommu=pt (on arm64 iommu.passthrough=1), or write identity into /sys/kernel/iommu_groups/N/type while no driver is bound.",
		}, d)
	}
}

// memory looks for accelerators whose memory is not wholly visible on the bus.
func (f *finder) memory() {
	for _, d := range f.t.Of(Accelerator) {
		var bar uint64
		for _, b := range d.BARs {
			if b.Memory {
				bar = max(bar, b.Size)
			}
		}
		n := Finding{
			Code: FindingBARSmall, Severity: Warning,
			Cost:   "Only what lies behind the BAR can be registered or exported at a time: large registrations fail, or go through host memory.",
			Remedy: "Turn on Above 4G Decoding and Resizable BAR in the BIOS; some cards need their display mode off besides (vendor's tool).",
		}
		switch {
		case bar == 0 || f.t.chipLink(d):
			continue // nothing is known, or memory is not reached this way
		case d.Memory > 0 && bar < uint64(d.Memory)/8*7: // drivers may tell more than a card has to use
			n.What = fmt.Sprintf("The largest BAR has %s, the accelerator %s of memory.", byteSize(bar), byteSize(uint64(d.Memory)))
		case d.Memory == 0 && bar <= 256<<20 && (d.Vendor == nvidia || d.Vendor == amd):
			n.Severity = Info
			n.What = fmt.Sprintf("The largest BAR has %s; how much memory the accelerator has is unknown, but accelerators have more.", byteSize(bar))
		default:
			continue
		}
		f.add(n, d)
	}
}

func byteSize(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
