package doctor

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/kconfig"
	"github.com/peerdirect/peerdirect/pci"
)

// option is one of the kernel's configuration.
type option struct {
	name    string
	without string  // what there is not without it
	verdict Verdict // of a kernel that lacks it
	// of tells what it matters to: without any such the verdict is a Note at most.
	of   func(needed) bool
	gone bool // newer kernels have it no more: not named says nothing
}

// needed tells what there is that needs the kernel's part of the direct path.
type needed struct {
	rdma, accelerators bool
	asking             bool // accelerators whose drivers ask the kernel for the way, and are refused without CONFIG_PCI_P2PDMA
}

func (s *System) needed() needed {
	accelerators := s.devices(pci.Accelerator)
	n := needed{accelerators: len(accelerators) > 0}
	n.asking = slices.ContainsFunc(accelerators, func(d *pci.Device) bool { return asking[d.Driver] != "" && !unbuilt[d.Driver] })
	devices, _ := fs.ReadDir(s.Root, "sys/class/infiniband")
	n.rdma = len(devices)+len(s.devices(pci.RDMANIC)) > 0
	return n
}

func ofAny(n needed) bool          { return n.rdma || n.accelerators }
func ofAccelerators(n needed) bool { return n.accelerators }
func ofAsking(n needed) bool       { return n.asking }

var options = []option{
	{name: "CONFIG_INFINIBAND_USER_ACCESS", verdict: Fail, of: ofAny, without: "no program can open an RDMA device"},
	{name: "CONFIG_INFINIBAND_ADDR_TRANS", verdict: Warn, of: ofAny, without: "there is no rdma_cm: no RoCE addresses, no iWARP connections"},
	{name: "CONFIG_DMA_SHARED_BUFFER", verdict: Fail, of: ofAccelerators, without: "there are no dma-bufs, by which accelerator memory is registered"},
	{name: "CONFIG_PCI_P2PDMA", verdict: Warn, of: ofAsking,
		without: "the kernel knows no way between devices, so drivers that ask it (amdgpu, habanalabs and others) let no other device reach their memory"},
	{name: "CONFIG_DMABUF_MOVE_NOTIFY", verdict: Note, gone: true, without: "a dma-buf is pinned as soon as a NIC maps it, also where the NIC could follow its moves"},
	{name: "CONFIG_INFINIBAND_ON_DEMAND_PAGING", verdict: Note, without: "registrations without pinning (on-demand paging) are refused"},
	{name: "CONFIG_UDMABUF", verdict: Note, without: "there are no dma-bufs of host memory (udmabuf), by which imports are tried without an accelerator"},
	{name: "CONFIG_BPF_SYSCALL", verdict: Note, without: "peerdirect trace cannot work"},
	{name: "CONFIG_DEBUG_INFO_BTF", verdict: Note, without: "peerdirect trace has no types of the kernel; 'peerdirect trace probes' tells what is left"},
}

// kernelOptions tells what the running kernel was built without.
func kernelOptions(_ context.Context, s *System) (all []Finding) {
	release := s.Kernel()
	config, at, err := kconfig.Read(s.Root, release)
	if err != nil {
		f := Finding{Verdict: Unknown, Summary: "the kernel's configuration cannot be read", missing: !s.Live,
			Evidence: strings.Split(err.Error(), "\n")}
		if s.Live {
			f.Remedy = "in a container look from outside; 'modprobe configs' gives /proc/config.gz where the kernel has that as a module"
		}
		return []Finding{f}
	}
	here := s.needed()
	for _, o := range options {
		f := Finding{Subject: o.name, Verdict: OK}
		value, named := kconfig.Option(config, o.name)
		f.Evidence = []string{"/" + at + ": " + o.name + "=" + value}
		switch {
		case value == "y" || value == "m":
			f.Summary = "built in"
			if value == "m" {
				f.Summary = "built as a module"
			}
		case !named && o.gone:
			continue
		default:
			f.Verdict = o.verdict
			if o.of != nil && !o.of(here) {
				f.Verdict = Note
			}
			f.Summary = "off: " + o.without
			f.Evidence = []string{"/" + at + ": it is not set"}
			if f.Verdict > Note {
				if f.Remedy = "boot a kernel that has it"; o.name == "CONFIG_PCI_P2PDMA" {
					f.Remedy += "; of Debian's, 6.1 and 6.12 do not, 7.3 does"
				}
			}
			if f.Verdict == Fail {
				f.Cause = CauseUnsupported
			}
		}
		all = append(all, f)
	}
	return all
}

// devices are those of a kind, as far as PCI could be read.
func (s *System) devices(kind pci.Kind) (all []*pci.Device) {
	t, _ := s.Topology()
	if t == nil {
		return nil
	}
	for _, d := range t.Devices {
		if d.Kind == kind {
			all = append(all, d)
		}
	}
	return all
}

// parameters are words of the kernel's command line that matter here. A name that
// ends in "=" has any value.
var parameters = []struct {
	word    string
	means   string
	verdict Verdict
}{
	{"iommu=off", "no IOMMU translates: bus addresses are physical ones", Note},
	{"iommu=pt", "devices of the host see physical addresses (passthrough)", Note},
	{"iommu=", "how the IOMMU is used", Note},
	{"iommu.passthrough=1", "devices of the host see physical addresses (passthrough)", Note},
	{"iommu.passthrough=0", "devices of the host see translated addresses", Note},
	{"iommu.strict=1", "each unmapping waits for the IOMMU: registrations cost more", Note},
	{"intel_iommu=", "Intel's IOMMU", Note},
	{"amd_iommu=", "AMD's IOMMU", Note},
	{"pci=nomsi", "no message-signalled interrupts: drivers of NICs fail, or have one interrupt for all", Warn},
	{"pci=", "how PCI is set up", Note},
	{"pcie_acs_override=", "IOMMU groups are split against what the ports say", Note},
	{"pcie_aspm=force", "links sleep when idle, and take microseconds to wake", Warn},
	{"pcie_aspm=off", "links do not sleep", Note},
	{"module_blacklist=", "the kernel refuses these modules", Note},
	{"modprobe.blacklist=", "these modules are not loaded by themselves", Note},
	{"lockdown=", "what even root may not do", Note},
	{"idle=poll", "processors never sleep", Note},
	{"intel_idle.max_cstate=", "how deep processors sleep", Note},
	{"processor.max_cstate=", "how deep processors sleep", Note},
	{"isolcpus=", "processors kept free of other work", Note},
	{"nohz_full=", "processors without a tick", Note},
	{"default_hugepagesz=", "size of huge pages", Note},
	{"hugepages=", "huge pages reserved at start", Note},
	{"clocksource=", "the clock that was asked for", Note},
	{"tsc=", "how far the processor's counter is trusted", Note},
	{"numa_balancing=", "whether the kernel moves pages between nodes", Note},
}

// commandLine tells what the kernel was told at start that the path depends on.
func commandLine(_ context.Context, s *System) (all []Finding) {
	const name = "proc/cmdline"
	text, err := s.text(name)
	if err != nil {
		return []Finding{s.missing("command line", name, err)}
	}
	for _, word := range strings.Fields(text) {
		i := slices.IndexFunc(parameters, func(p struct {
			word    string
			means   string
			verdict Verdict
		}) bool {
			return word == p.word || strings.HasSuffix(p.word, "=") && strings.HasPrefix(word, p.word)
		})
		if i < 0 {
			continue
		}
		f := Finding{Subject: word, Verdict: parameters[i].verdict, Summary: parameters[i].means, Evidence: []string{"/" + name}}
		if f.Verdict == Warn {
			f.Remedy = "take it out of the boot loader's command line (Debian and Ubuntu: /etc/default/grub, then update-grub; Amazon Linux: grubby --update-kernel=ALL --remove-args=" + word + ") and start anew"
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		all = []Finding{{Subject: "command line", Summary: "it has nothing that matters here", Evidence: []string{"/" + name}}}
	}
	return all
}
