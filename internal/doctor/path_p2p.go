package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/peerdirect/peerdirect/pci"
)

// asking are drivers of accelerators that ask the kernel whether a NIC may reach
// their memory, and what they do where it may not. Others map it unasked.
var asking = map[string]string{
	"amdgpu":           "it moves the buffer to host memory",
	"xe":               "it moves the buffer to host memory",
	"i915":             "it moves the buffer to host memory",
	"habanalabs":       "registration fails with EPERM",
	"vfio-pci":         "registration fails",
	"peerdirect_accel": "registration fails with EREMOTEIO",
}

// unbuilt are drivers that ask only kernels with CONFIG_PCI_P2PDMA: the lab's.
var unbuilt = map[string]bool{"peerdirect_accel": true}

// checkP2P judges the way from each accelerator to each of its rails.
func checkP2P(_ context.Context, s *System) (found []Finding) {
	t, _ := s.accelerators()
	if t == nil {
		return nil
	}
	for _, p := range s.rails().Pairs {
		open := false // a rail that is not refused
		var ways []Finding
		for _, nic := range p.Rails {
			if len(nic.RDMA) == 0 || !s.asks(nic.RDMA[0].Name) {
				continue
			}
			f := judgeP2P(t, p.Accelerator, nic)
			open = open || f.Verdict != Fail
			ways = append(ways, f)
		}
		for _, f := range ways {
			if f.Verdict == Fail && open {
				f.Verdict, f.Cause = Warn, CauseOther // others of its rails are left
				f.Evidence = append(f.Evidence, "other rails of "+t.Name(p.Accelerator)+" are not refused")
			}
			found = append(found, f)
		}
	}
	return alike(found)
}

// judgeP2P judges one way.
func judgeP2P(t *pci.Topology, a, nic *pci.Device) Finding {
	then, asks := asking[a.Driver]
	if asks && unbuilt[a.Driver] && t.Platform.P2PDMA == pci.No {
		asks = false
	}
	if !asks && a.Driver != "" {
		// It maps unasked: what counts is the way, not whether the kernel has the question.
		able := *t
		able.Platform.P2PDMA = pci.Yes
		t = &able
	}
	p := t.P2P(a, nic)
	f := Finding{Subject: t.Name(a) + " -> " + t.Name(nic)}
	f.Evidence = []string{fmt.Sprintf("%s: distance %s; %s", f.Subject, t.Distance(a, nic).Class, p.Reason), "by the rules of " + pci.P2PSource}
	const measure = "measure: 'peerdirect dmabuf probe' moves bytes between the two, 'peerdirect perf' tells the rate"
	switch {
	case p.Allowed == pci.Yes && (p.Through == pci.WayBridge || p.Through == pci.WayFunction):
		f.Summary = "direct: traffic turns at a bridge above both"
	case p.Allowed == pci.Yes:
		f.Verdict, f.Summary = Note, "allowed, and traffic goes up to the root complex"
		if p.Through == pci.WayUnknown {
			f.Summary = "allowed, and whether traffic turns at the bridge above both or goes up to the root complex is not known"
		}
	case p.Allowed == pci.No && asks:
		f.Verdict, f.Summary = Fail, "the kernel refuses peer-to-peer access: "+refusal(t, p)+"; driver "+a.Driver+": "+then
		f.Cause = CauseOther
		switch {
		case t.Platform.P2PDMA == pci.No:
			f.Cause, f.Remedy = CauseUnsupported, "boot a kernel with CONFIG_PCI_P2PDMA"
		case len(p.Redirects) > 0:
			f.Remedy = "take the redirects away (check acs says how), or give the accelerator a NIC below the same bridge"
		default:
			f.Remedy = "give the accelerator a NIC below the same bridge; this host bridge is not one that the kernel trusts"
		}
	case p.Allowed == pci.No:
		f.Verdict = Unknown
		f.Summary = "the kernel's rules refuse it (" + refusal(t, p) + ")"
		if a.Driver == "" {
			f.Summary += "; whether the accelerator's driver asks the kernel is not known"
		} else {
			f.Summary += ", and driver " + a.Driver + " does not ask: whether the root complex passes the traffic on is not in files"
		}
		f.Remedy = measure
	default:
		f.Verdict, f.Summary, f.Remedy = Unknown, "whether it is direct cannot be told: "+doubt(t, p), measure
	}
	return f
}

// refusal names the rule without the devices, so that ways that are alike join.
func refusal(t *pci.Topology, p pci.P2P) string {
	switch {
	case t.Platform.P2PDMA == pci.No:
		return "it is built without CONFIG_PCI_P2PDMA"
	case len(p.Redirects) > 0:
		return "access control redirects to a host bridge that is not on the kernel's list"
	}
	return "no bridge is above both, and their host bridge is not on the kernel's list"
}

func doubt(t *pci.Topology, p pci.P2P) string {
	if p.Bridge != nil {
		return "a bridge is above both, and whether its access control redirects could not be read"
	}
	return "no bridge is above both, and whether the kernel trusts their host bridge could not be read"
}

// checkACS tells whether switches are kept from turning peer-to-peer traffic.
func checkACS(_ context.Context, s *System) (found []Finding) {
	t, _ := s.accelerators()
	if t == nil {
		return nil
	}
	const clear = pci.ACSRequestRedirect | pci.ACSCompletionRedirect | pci.ACSUpstreamForward
	for _, f := range t.FindingsOf(s.rails()) {
		if f.Code != pci.FindingACSRedirect {
			continue
		}
		g := s.fromTopology(f.Code)[0]
		for _, d := range f.Devices {
			g.Evidence = append(g.Evidence, fmt.Sprintf("%s: ACS control %#04x", d.Address, d.ACS.Control))
			g.Commands = append(g.Commands, fmt.Sprintf("setpci -s %s ECAP_ACS+6.w=0:%x", d.Address, clear))
		}
		found = append(found, g)
	}
	found = append(found, s.fromTopology(pci.FindingACSUnknown)...)
	switched := 0
	for _, p := range s.rails().Pairs {
		for _, nic := range p.Rails {
			if c := t.Distance(p.Accelerator, nic).Class; c == pci.PIX || c == pci.PXB {
				switched++
			}
		}
	}
	if len(found) == 0 && switched > 0 {
		found = []Finding{{Summary: "no access control redirects on the " + count(switched, "way") + " that a switch carries",
			Evidence: []string{"config space of the ports between accelerators and their rails"}}}
	}
	return found
}

// checkIOMMU tells whether addresses of accelerators and NICs are translated.
func checkIOMMU(_ context.Context, s *System) []Finding {
	t, all := s.endpoints()
	if len(all) == 0 {
		return nil
	}
	if found := s.fromTopology(pci.FindingIOMMU); len(found) > 0 {
		option := "iommu=pt"
		if t.Platform.Arch == "aarch64" {
			option = "iommu.passthrough=1"
		}
		for i := range found {
			found[i].Commands = s.bootWith(option, "iommu")
		}
		return alike(found)
	}
	unknown := slices.IndexFunc(all, func(d *pci.Device) bool { return d.Group >= 0 && d.GroupType == "" })
	f := Finding{Evidence: []string{"/sys/class/iommu: " + cmpOr(listed(t.Platform.IOMMU.Units), "none")}}
	switch {
	case unknown >= 0:
		return []Finding{s.missing("", deviceFile(all[unknown], "iommu_group/type"), fs.ErrNotExist)}
	case all[0].Group >= 0:
		f.Summary = "the IOMMU translates nothing of accelerators and NICs (group type " + all[0].GroupType + ")"
	case t.Platform.IOMMU.Seen:
		f.Summary = "no IOMMU translates what accelerators and NICs address"
	default:
		return []Finding{s.missing("", "sys/class/iommu", fs.ErrNotExist)}
	}
	return []Finding{f}
}

// checkPairing tells whose rails are where.
func checkPairing(_ context.Context, s *System) (found []Finding) {
	t, _ := s.accelerators()
	if t == nil {
		return nil
	}
	shared := map[*pci.Device][]string{} // NIC: accelerators
	for _, p := range s.rails().Pairs {
		f := Finding{Subject: label(t, p.Accelerator), Evidence: []string{p.Reason}}
		var names []string
		for _, nic := range p.Rails {
			names = append(names, t.Name(nic))
			shared[nic] = append(shared[nic], t.Name(p.Accelerator))
		}
		f.Summary = fmt.Sprintf("rails %s (%s)", listed(names), p.Class)
		if len(p.Rails) == 0 {
			f.Verdict, f.Summary = Note, "it has no rail: there is no NIC of a fabric for it"
		}
		found = append(found, f)
	}
	for _, nic := range t.Of(pci.RDMANIC) {
		if users := shared[nic]; len(users) > 1 {
			found = append(found, Finding{Subject: label(t, nic), Verdict: Note, Summary: fmt.Sprintf("%d accelerators share it: %s", len(users), several(users)),
				Evidence: []string{"there are fewer NICs near them than accelerators"}})
		}
	}
	found = append(found, s.fromTopology(pci.FindingNICFar, pci.FindingNUMAUnknown, pci.FindingFunctions)...)
	return alike(found)
}
