package pci

import "fmt"

// nodes looks at NUMA: rails across it, and devices whose node is unknown.
func (f *finder) nodes() {
	for _, p := range f.pairing.Pairs {
		for _, n := range p.Rails {
			if f.t.relate(p.Accelerator, n).class != SYS {
				continue
			}
			a, b := f.t.affinity(p.Accelerator), f.t.affinity(n)
			f.add(Finding{
				Code: FindingNICFar, Severity: Warning,
				What: fmt.Sprintf("%s of NUMA node %d has a rail in node %d, %s.",
					f.t.label(p.Accelerator), a.Number, b.Number, f.t.label(n)),
				Cost:   "Traffic crosses the link between sockets: less than half the bandwidth on most machines, shared with the processors' own traffic, and some cannot do it peer to peer at all.",
				Remedy: fmt.Sprintf("Move a NIC to a slot of node %d, or run what needs the network on accelerators of node %d.", a.Number, b.Number),
			}, p.Accelerator, n)
		}
	}
	listed := 0
	for _, n := range f.t.Nodes {
		if n.Present {
			listed++
		}
	}
	var strange map[*Device]bool
	devices := f.paired()
	for _, d := range devices {
		node, why := f.t.nodeOf(d)
		if node != nil {
			continue
		}
		if strange == nil {
			strange = f.dark(devices)
		}
		if listed <= 1 && !strange[d] {
			continue // there is one place only
		}
		n := Finding{
			Code: FindingNUMAUnknown, Severity: Info,
			What:   "Where devices sit is not told: " + why + ".",
			Cost:   "None now: their distances are known by the bus alone. Memory and threads for them cannot be placed.",
			Remedy: "In a guest, ask for a machine type that passes NUMA on (the hypervisor's per-node PCI expander); on hardware, a BIOS that fills in _PXM, or write the node to numa_node of the device.",
		}
		if strange[d] {
			n.Severity = Warning
			n.What = "Where devices sit is not told, and they are on different root complexes: " + why + "."
			n.Cost = "Distances are unknown, and whoever takes an unknown node for node 0 pairs across sockets: half the bandwidth without a sign of it."
			n.Remedy += " Until then name the rails in a file of overrides, by measuring."
		}
		f.add(n, d)
	}
}

// dark finds the devices for which a distance to a counterpart is unknown.
func (f *finder) dark(devices []*Device) map[*Device]bool {
	dark := map[*Device]bool{}
	for _, a := range devices {
		if a.Kind != Accelerator {
			continue
		}
		for _, n := range devices {
			if n.Kind != Accelerator && f.t.relate(a, n).class == ClassUnknown {
				dark[a], dark[n] = true, true
			}
		}
	}
	return dark
}

// functions looks for NICs and accelerators that are visible as more than one.
func (f *finder) functions() {
	for _, d := range f.t.Devices {
		if len(d.VFs) == 0 || d.Kind != RDMANIC && d.Kind != OtherNIC && d.Kind != Accelerator {
			continue
		}
		f.add(Finding{
			Code: FindingFunctions, Severity: Info,
			What: fmt.Sprintf("%s is visible together with %s of it.", f.t.label(d),
				plural(len(d.VFs), "virtual function", "virtual functions")),
			Cost:   "They share one link and one port: whoever counts each as a device expects bandwidth that is not there and may pair an accelerator with the same port twice.",
			Remedy: "Unless overrides say otherwise, only the physical function is paired. Give virtual functions to guests, or remove them by writing 0 to sriov_numvfs; name them in overrides if they are meant to be rails.",
		}, ordered(append([]*Device{d}, d.VFs...))...)
	}
}
