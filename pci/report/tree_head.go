package report

import (
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// machine says in a line what is known of it.
func machine(m *pci.Platform) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, cut(safe(s), longestName))
		}
	}
	add(m.System)
	add(m.Arch)
	if m.Kernel != "" {
		add("Linux " + m.Kernel)
	}
	if m.Virtual == pci.Yes {
		add("virtual machine")
	}
	switch units := len(m.IOMMU.Units); {
	case units > 0:
		add("IOMMU on (" + plural(units, "unit", "units") + ")")
	case m.IOMMU.Seen:
		add("no IOMMU")
	}
	return strings.Join(parts, ", ")
}

// census counts what matters.
func (p *page) census() string {
	var parts []string
	for _, k := range []struct {
		kind      pci.Kind
		one, many string
	}{
		{pci.Accelerator, "accelerator", "accelerators"}, {pci.RDMANIC, "RDMA NIC", "RDMA NICs"},
		{pci.OtherNIC, "other NIC", "other NICs"}, {pci.NVMe, "NVMe", "NVMe"}, {pci.NVSwitch, "NVSwitch", "NVSwitches"},
	} {
		n := 0
		for _, d := range p.t.Devices {
			if d.Kind == k.kind && d.PF == nil {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, plural(n, k.one, k.many))
		}
	}
	if n := len(p.t.Switches); n > 0 {
		parts = append(parts, plural(n, "PCIe switch", "PCIe switches"))
	}
	return strings.Join(parts, ", ")
}

// nodeText is a NUMA node in a line: "NUMA node 0: CPUs 0-47; 1 TiB".
func nodeText(g *nodeGroup) string {
	n := g.node
	if n == nil {
		return "NUMA node unknown"
	}
	var parts []string
	switch {
	case n.CPUs == nil:
	case len(n.CPUs) == 0:
		parts = append(parts, "no processors")
	default:
		parts = append(parts, "CPUs "+n.CPUs.String())
	}
	if n.Memory >= 0 {
		parts = append(parts, bytesText(n.Memory))
	}
	if !n.Present {
		parts = append(parts, "not listed by the kernel")
	}
	if len(g.tops) == 0 && g.bare == 0 {
		parts = append(parts, "no PCI device")
	}
	s := "NUMA node " + strconv.Itoa(n.Number)
	if len(parts) > 0 {
		s += ": " + strings.Join(parts, "; ")
	}
	return s
}
