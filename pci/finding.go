package pci

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is how much a finding matters.
type Severity uint8

const (
	Info    Severity = iota // costs nothing, or nothing for certain
	Warning                 // costs bandwidth, latency or a right answer
)

// String gives it in a word.
func (s Severity) String() string {
	if s == Info {
		return "info"
	}
	return "warning"
}

// MarshalText spells the severity in JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Codes of findings.
const (
	FindingACSRedirect   = "acs-redirect" // access control turns peer traffic up to the root complex
	FindingACSUnknown    = "acs-unknown"  // whether it does cannot be read
	FindingIOMMU         = "iommu-translating"
	FindingLinkSlow      = "link-slow"      // a link below what both its ends can
	FindingLinkIdle      = "link-idle"      // an accelerator's link at a lower speed, as at rest
	FindingLinkSlot      = "link-slot"      // the slot can less than the device
	FindingBridgeVirtual = "bridge-virtual" // a bridge's link speed that cannot be true
	FindingBARSmall      = "bar-small"      // memory that is not wholly behind its BAR
	FindingNICFar        = "nic-far"        // rails in another NUMA node
	FindingFunctions     = "pf-and-vf"      // a NIC visible as more than one
	FindingNUMAUnknown   = "numa-unknown"
)

// Finding is something about a machine that costs, with what to do.
type Finding struct {
	Code     string
	Severity Severity
	Devices  []*Device // in order of address; none is the machine
	What     string    // a sentence, or some
	Cost     string
	Remedy   string
}

// Findings tells what slows paths down or misleads, warnings first. Cases that are
// alike are one finding. Nothing is found in what is unknown, but that it is. The
// rails are those that Pair, without overrides, gives.
func (t *Topology) Findings() []Finding { return t.FindingsOf(nil) }

// FindingsOf is Findings with the rails of a pairing of this machine; nil is as
// Findings.
func (t *Topology) FindingsOf(p *Pairing) []Finding {
	if p == nil {
		p, _ = t.Pair(PairOptions{}) // without overrides it does not fail
	}
	f := &finder{t: t, pairing: p}
	f.links()
	f.access()
	f.iommu()
	f.memory()
	f.nodes()
	f.functions()
	slices.SortStableFunc(f.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code))
	})
	return f.found
}

// finder gathers findings.
type finder struct {
	t       *Topology
	pairing *Pairing
	found   []Finding
	at      map[[2]string]int // code and text: the place in found
}

// add joins a device to the finding of the same code and text, or makes it.
func (f *finder) add(n Finding, devices ...*Device) {
	key := [2]string{n.Code, n.What}
	i, ok := f.at[key]
	if !ok {
		if f.at == nil {
			f.at = map[[2]string]int{}
		}
		i = len(f.found)
		f.at[key] = i
		f.found = append(f.found, n)
	}
	f.found[i].Devices = append(f.found[i].Devices, devices...)
}

// paired gives the accelerators and all their rails, each once, in order.
func (f *finder) paired() (devices []*Device) {
	seen := map[*Device]bool{}
	for _, p := range f.pairing.Pairs {
		for _, d := range append([]*Device{p.Accelerator}, p.Rails...) {
			if !seen[d] {
				seen[d] = true
				devices = append(devices, d)
			}
		}
	}
	for _, d := range f.pairing.Unpaired {
		if !seen[d] {
			devices = append(devices, d)
		}
	}
	return ordered(devices)
}

func ordered(devices []*Device) []*Device {
	slices.SortFunc(devices, func(a, b *Device) int { return a.Address.Compare(b.Address) })
	return devices
}

// label is a device's name with its address.
func (t *Topology) label(d *Device) string {
	if name := t.Name(d); name != d.Address.String() {
		return fmt.Sprintf("%s (%s)", name, d.Address)
	}
	return d.Address.String()
}
