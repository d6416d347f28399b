package doctor

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// rdmaModules are the modules that make RDMA devices of what drives the function,
// by its driver. Those that are not here make them themselves, as efa does, or none.
var rdmaModules = map[string]string{
	"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "bnxt_en": "bnxt_re", "ice": "irdma", "i40e": "irdma", "idpf": "irdma",
	"cxgb4": "iw_cxgb4", "qede": "qedr", "mana": "mana_ib", "hns3": "hns_roce_hw_v2", "ionic": "ionic_rdma",
}

// exportsNothing are modules that know NVIDIA's accelerators and give their memory to
// nobody; NVIDIA's packages keep them away for good reason.
var exportsNothing = map[string]bool{"nouveau": true, "nova_core": true, "nvidiafb": true}

// need is a module that something on this machine needs.
type need struct {
	name    string
	why     string
	verdict Verdict // where it does not run
	cause   Cause
}

// kernelModules looks for the modules that the machine's devices need.
func kernelModules(_ context.Context, s *System) (all []Finding) {
	m := s.readModules()
	if m.loadedErr != nil && !s.Live {
		if there, _ := s.exists("sys/module"); !there {
			return []Finding{s.missing("modules", "proc/modules", m.loadedErr)}
		}
	}
	verdict := Note // where nothing here needs them
	if ofAny(s.needed()) {
		verdict = Fail
	}
	needs := []need{
		{"ib_core", "the RDMA subsystem", verdict, CauseUnsupported},
		{"ib_uverbs", "through it programs open RDMA devices", verdict, CauseUnsupported},
		{"rdma_ucm", "through it programs connect by rdma_cm: addresses of RoCE, and all of iWARP", Note, CauseOther},
	}
	if s.connects() {
		needs[2].verdict = Warn
	}
	for _, d := range slices.Concat(s.devices(pci.RDMANIC), s.devices(pci.Accelerator)) {
		needs = append(needs, m.forDevice(d)...)
	}
	told := map[string]bool{}
	for _, n := range needs {
		if !told[n.name] {
			told[n.name] = true
			all = append(all, m.judge(n))
		}
	}
	if f, ok := m.tree(all); ok {
		all = append(all, f)
	}
	return all
}

// connects tells whether an RDMA device, or a NIC that could have one, can be
// connected by rdma_cm: all but EFA can.
func (s *System) connects() bool {
	devices, _ := fs.ReadDir(s.Root, "sys/class/infiniband")
	for _, d := range devices {
		if driver, _ := fs.ReadLink(s.Root, "sys/class/infiniband/"+d.Name()+"/device/driver"); path.Base(driver) != "efa" {
			return true
		}
	}
	const amazon = 0x1d0f
	return slices.ContainsFunc(s.devices(pci.RDMANIC), func(d *pci.Device) bool { return d.Driver != "efa" && d.Vendor != amazon })
}

// forDevice gives the modules of a NIC or an accelerator: the one that has it, or
// could, and the one that makes RDMA devices of it. That nothing has it, or another
// driver than is wanted, is told by the checks of devices.
func (m *modules) forDevice(d *pci.Device) (needs []need) {
	subject := m.s.name(d)
	switch {
	case d.Driver == "" && len(d.RDMA) == 0:
		for _, name := range m.forFunction(d) {
			if exportsNothing[name] {
				continue
			}
			needs = append(needs, need{name, "it knows " + subject + ", which has no driver", Warn, CauseOther})
		}
	case d.Kind == pci.RDMANIC && rdmaModules[d.Driver] != "":
		needs = append(needs, need{rdmaModules[d.Driver], "it makes RDMA devices of what " + d.Driver + " drives", Fail, CauseUnsupported})
	case d.Driver != "":
		// It has the device, so it runs: by the name of its module, where that is told.
		name := d.Driver
		if target, err := fs.ReadLink(m.s.Root, "sys/bus/pci/drivers/"+d.Driver+"/module"); err == nil {
			name = path.Base(target)
		}
		needs = append(needs, need{plainName(name), "it has " + subject, OK, CauseOther})
	}
	return needs
}

// judge tells where a needed module is.
func (m *modules) judge(n need) Finding {
	st, evidence := m.look(n.name)
	if n.verdict == OK && st != stateRuns {
		return Finding{Subject: n.name, Summary: n.why}
	}
	f := Finding{Subject: n.name, Verdict: n.verdict, Cause: n.cause, Evidence: evidence}
	if n.verdict != Fail {
		f.Cause = CauseOther
	}
	switch st {
	case stateRuns:
		f.Verdict, f.Summary = OK, "it runs"
		if strings.Contains(strings.Join(evidence, ""), "(O") {
			f.Summary = "it runs, and is built outside of the kernel's tree (a vendor's)"
			if optionOf[n.name] != "" {
				f.Verdict = Note // the drivers' must be of the same build
			}
		}
		if version, err := m.s.text("sys/module/" + n.name + "/version"); err == nil {
			f.Summary += ", version " + version
		}
		f.Cause = CauseOther
	case stateInstalled:
		f.Summary = "not loaded: " + n.why
		f.Remedy = "load it; rdma-core's rules for udev load what a NIC needs when it appears"
		if _, ok := m.blocked[n.name]; ok {
			f.Remedy = "it is kept from being loaded by itself; take that out if it is no longer wanted, and load it"
		}
		if m.refused[n.name] {
			break // modprobe would not, and a script ends there
		}
		f.Commands = []string{"modprobe " + quote(n.name)}
	case stateNever:
		f.Summary = "kernel " + m.release + " is built without it: " + n.why
		f.Remedy = "boot a kernel that has " + optionOf[n.name]
	case stateAbsent:
		f.Summary = "not installed for kernel " + m.release + ": " + n.why
		f.Remedy = "install it: Ubuntu has some in linux-modules-extra-RELEASE, Amazon Linux 2023 in kernel-modules-extra, others come from their vendors; kernels for virtual machines may lack it (of Debian's take linux-image-amd64 or -arm64, not -cloud)"
	default:
		f.Verdict, f.Cause = Unknown, CauseOther
		f.Summary = "whether it could be loaded is not to be seen here: " + n.why
		if m.s.container() != "" {
			f.Remedy = "modules are the host's: look there, not in a container"
		}
	}
	return f
}

// tree tells that the running kernel has no modules to load any more, which happens
// when it is replaced and the machine goes on; it matters where one is missing.
func (m *modules) tree(found []Finding) (Finding, bool) {
	wanted := slices.ContainsFunc(found, func(f Finding) bool { return f.Verdict == Unknown || f.Verdict >= Warn })
	if m.treeErr == nil || len(m.others) == 0 || !wanted || m.release == "" {
		return Finding{}, false
	}
	return Finding{Subject: "kernel " + m.release, Verdict: Warn, Summary: "its modules are not installed, but those of " + strings.Join(m.others, ", "),
		Evidence: []string{why("lib/modules/"+m.release+"/modules.dep", m.treeErr)},
		Remedy:   "start anew with a kernel that is installed: the running one was replaced, and can load nothing more"}, true
}
