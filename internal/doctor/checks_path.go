package doctor

import "github.com/peerdirect/peerdirect/pci"

// pathChecks look at accelerators, exporters, and the ways from these to NICs.
var pathChecks = []Check{
	{Name: "accelerator-drivers", Group: "accelerators", Run: checkAccelerators,
		About: "accelerators and the driver of each, without which nothing exports their memory"},
	{Name: "dmabuf-export", Group: "accelerators", Run: checkExport, Live: true,
		About: "exporters of each accelerator's memory as dma-bufs, asked whether they can"},
	{Name: "peer-memory", Group: "accelerators", Run: checkPeerMemory,
		About: "NVIDIA's kernel modules: dma-buf or peermem, and what follows for each NIC"},
	{Name: "bar-size", Group: "accelerators", Run: checkBARs,
		About: "whether all memory of an accelerator is behind its BAR, where NICs reach it"},
	{Name: "pcie-links", Group: "paths", Run: checkLinks,
		About: "speed and lanes of the links of accelerators, NICs and switches against what they can"},
	{Name: "iommu", Group: "paths", Run: checkIOMMU,
		About: "whether an IOMMU translates what accelerators and NICs address"},
	{Name: "acs", Group: "paths", Run: checkACS,
		About: "access control that turns peer-to-peer traffic away from switches"},
	{Name: "p2p", Group: "paths", Run: checkP2P,
		About: "the way from each accelerator to its NICs: direct, by the root complex, or refused and by which rule"},
	{Name: "pairing", Group: "paths", Run: checkPairing,
		About: "which NICs are whose rails, and in which NUMA node"},
}

// fromTopology gives the topology's findings of some codes as the doctor's own.
// Those of devices that are on no path are left out: a disk's link is nobody's here.
func (s *System) fromTopology(codes ...string) (found []Finding) {
	t, _ := s.Topology()
	if t == nil {
		return nil
	}
	for _, f := range t.FindingsOf(s.rails()) {
		if !contains(codes, f.Code) || !s.onPath(f.Devices) {
			continue
		}
		v := Note
		switch {
		case f.Severity == pci.Warning:
			v = Warn
		case f.Code == pci.FindingACSUnknown:
			v = Unknown
		}
		var names []string
		for _, d := range f.Devices {
			names = append(names, label(t, d))
		}
		g := Finding{Subject: several(names), Verdict: v, Summary: sentence(f.What), Remedy: f.Remedy,
			Evidence: []string{"peerdirect topo --findings: " + f.Code, "cost: " + f.Cost}}
		if several(names) != listed(names) {
			g.Evidence = append(g.Evidence, "devices: "+listed(names))
		}
		found = append(found, g)
	}
	return found
}

// onPath tells whether one of the devices is an accelerator, an RDMA NIC or a port
// of a switch; a finding without devices is the machine's.
func (s *System) onPath(devices []*pci.Device) bool {
	for _, d := range devices {
		switch d.Kind {
		case pci.Accelerator, pci.RDMANIC, pci.Bridge:
			return true
		}
	}
	return len(devices) == 0
}
