package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/pci"
)

// imports tells whether a device's driver registers dma-bufs, and by what: asked
// (a registration of descriptor -1), or by the driver and the kernel.
func (s *System) imports(ctx context.Context, d *inventory.Device) (pci.Tri, []string, string) {
	if d.DMABuf != nil {
		const how = "ibv_reg_dmabuf_mr of descriptor -1: "
		if *d.DMABuf {
			return pci.Yes, []string{how + "EBADF, the driver looks for the buffer"}, ""
		}
		return pci.No, []string{how + "the driver has no such function"}, "register host memory on this device, or take another NIC"
	}
	var why []string
	if s.Live {
		inv, _ := s.inventory(ctx)
		why = problems(inv, d.Name)
	}
	kernel := s.Kernel()
	for _, r := range umem.Check(&umem.Request{Kernel: kernel, Device: umem.Device{Driver: rdmaDriver(d)}}) {
		if r.Name != "driver" {
			continue
		}
		why = append(why, fmt.Sprintf("driver %s, kernel %s: %s", cmpOr(rdmaDriver(d), "unknown"), cmpOr(kernel, "unknown"), cmpOr(r.Cause, "upstream has it")))
		module, _ := inventory.ModuleOf(rdmaDriver(d))
		out, _ := s.text("sys/module/" + module + "/version")
		switch {
		case r.Verdict == umem.Passed:
			return pci.Yes, why, ""
		case r.Verdict == umem.Failed && module != "" && out != "":
			return pci.Unknown, append(why, "/sys/module/"+module+"/version: "+out+": not the kernel's own driver"), ""
		case r.Verdict == umem.Failed:
			return pci.No, why, r.Remedy
		}
	}
	return pci.Unknown, why, ""
}

// checkImport tells which devices register dma-bufs.
func checkImport(ctx context.Context, s *System) (found []Finding) {
	inv, _ := s.inventory(ctx)
	able, unknown := 0, 0
	for i := range inv.Devices {
		switch yes, _, _ := s.imports(ctx, &inv.Devices[i]); yes {
		case pci.Yes:
			able++
		case pci.Unknown:
			unknown++
		}
	}
	peermem, _ := s.peerModule()
	for _, d := range s.rdmaDevices(ctx) {
		yes, why, remedy := s.imports(ctx, d)
		f := Finding{Subject: d.Name, Evidence: why, Remedy: remedy}
		switch {
		case yes == pci.Yes:
			f.Summary = "its driver registers dma-bufs"
		case yes == pci.Unknown:
			f.Verdict, f.Summary = Unknown, "whether its driver registers dma-bufs cannot be told"
			f.missing = !s.Live && (s.Kernel() == "" || rdmaDriver(d) == "")
			if s.Live {
				f.Remedy = "let this user open the device (as root, or by the group of /dev/infiniband/uverbs*)"
			}
		default:
			f.Verdict, f.Summary = Note, "its driver registers no dma-bufs: accelerator memory does not go through it directly"
			switch {
			case peermem != "" && !software(d):
				f.Summary += ", but by " + peermem + " (check peer-memory)"
			case able == 0 && unknown == 0:
				f.Verdict, f.Cause = Fail, CauseUnsupported
				f.Evidence = append(f.Evidence, "no RDMA device of this machine does")
			case s.isRail(d.Name):
				f.Verdict = Warn
			}
		}
		found = append(found, f)
	}
	return alike(found)
}

// isRail tells whether an RDMA device is a rail of an accelerator.
func (s *System) isRail(name string) bool {
	own, pairing := s.function(name), s.rails()
	if own == nil || pairing == nil {
		return false
	}
	for _, p := range pairing.Pairs {
		for _, r := range p.Rails {
			if r == own {
				return true
			}
		}
	}
	return false
}

// exporterFamilies are the exporters of a vendor's accelerators, by the first part of their names.
var exporterFamilies = map[uint16]string{0x10de: "cuda", 0x1002: "amd", 0x1da3: "habana", 0x1d0f: "neuron", 0x8086: "ze"}

// checkExport asks the exporters of the accelerators that there are.
func checkExport(_ context.Context, s *System) (found []Finding) {
	t, all := s.accelerators()
	var host []string
	at := map[string][]string{}    // PCI address: exporters that can
	cannot := map[string][]error{} // family: why not
	wanted := map[string]bool{"accel": true}
	for _, d := range all {
		wanted[exporterFamilies[d.Vendor]] = true
	}
	for _, x := range dmabuf.Exporters() {
		family, _, _ := strings.Cut(x.Name(), ":")
		vendor := family == "accel" || family == "cuda" || family == "amd" || family == "habana" || family == "neuron" || family == "ze"
		if vendor && !wanted[family] {
			continue // its library would be loaded for nothing
		}
		if err := x.Available(); err != nil {
			cannot[family] = append(cannot[family], err)
			continue
		}
		switch address, err := dmabuf.PCIAddress(x.Name()); {
		case err != nil:
			cannot[family] = append(cannot[family], err)
		case address == "":
			host = append(host, x.Name())
		default:
			at[address] = append(at[address], x.Name())
		}
	}
	for _, d := range all {
		if f, ok := s.judgeExport(t, d, all, at, cannot); ok {
			found = append(found, f)
		}
	}
	if len(host) > 0 {
		found = append(found, Finding{Subject: "host memory", Summary: "can be exported as dma-bufs, to test NICs with: " + listed(host)})
	}
	return alike(found)
}

// judgeExport says whether an accelerator's memory is exported, by what exporters
// told: at has those that can by PCI address, cannot by family why others cannot.
func (s *System) judgeExport(t *pci.Topology, d *pci.Device, all []*pci.Device, at map[string][]string, cannot map[string][]error) (f Finding, ok bool) {
	f = Finding{Subject: label(t, d), Evidence: []string{"asked the exporters of package dmabuf"}}
	family := exporterFamilies[d.Vendor]
	if d.Driver == "peerdirect_accel" {
		family = "accel"
	}
	others := func(o *pci.Device) bool { return o.Vendor == d.Vendor && len(at[o.Address.String()]) > 0 }
	switch can := at[d.Address.String()]; {
	case len(can) > 0:
		f.Summary = "its memory can be exported: " + listed(can)
	case d.Driver == "" || d.Driver == "vfio-pci":
		return f, false // told by check accelerator-drivers
	case len(cannot[family]) > 0:
		f.Evidence = nil
		s.cannotExport(&f, d, cannot[family])
	case family != "" && slices.ContainsFunc(all, others):
		f.Verdict, f.Summary = Note, "this process is not given it, but others of its kind"
	default:
		f.Verdict, f.Summary, f.Evidence = Unknown, "no exporter is known for it", []string{fmt.Sprintf("%04x:%04x, driver %s", d.Vendor, d.Product, d.Driver)}
	}
	return f, true
}

// cannotExport says why no exporter gives an accelerator's memory, as these tell it.
func (s *System) cannotExport(f *Finding, d *pci.Device, why []error) {
	f.Verdict, f.Cause, f.Summary = Fail, CauseUnsupported, "its memory cannot be exported as dma-bufs"
	f.Remedy = "do what the exporter asks for; 'peerdirect dmabuf list' tells of all"
	for _, err := range why {
		f.Evidence = union(f.Evidence, []string{err.Error()})
		switch {
		case errors.Is(err, dmabuf.ErrPermission):
			f.Cause = CausePermission
		case !errors.Is(err, dmabuf.ErrNoDevice) && !errors.Is(err, dmabuf.ErrUnsupported):
			f.Cause = CauseOther
		}
	}
	if peermem, _ := s.peerModule(); peermem != "" && d.Vendor == nvidia {
		f.Verdict, f.Cause = Note, CauseOther
		f.Summary += "; " + peermem + " is the other way (check peer-memory)"
	}
}

const nvidia = 0x10de

// peerModule is the module that gives NICs NVIDIA's memory by another way than
// dma-bufs, "" if none is loaded.
func (s *System) peerModule() (name, file string) {
	for _, name := range []string{"nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"} {
		if there, _ := s.exists("sys/module/" + name); there {
			return name, "/sys/module/" + name
		}
	}
	return "", ""
}

// nvidiaDriver is what /proc/driver/nvidia/version tells.
type nvidiaDriver struct {
	version string // "580.95.05"
	major   int
	open    bool // its kernel modules are the open ones
}

var driverVersion = regexp.MustCompile(`\b(\d{3,})\.\d+(\.\d+)?\b`)

func (s *System) nvidiaDriver() (nvidiaDriver, error) {
	text, err := s.text("proc/driver/nvidia/version")
	if err != nil {
		return nvidiaDriver{}, err
	}
	first, _, _ := strings.Cut(text, "\n")
	d := nvidiaDriver{open: strings.Contains(first, "Open Kernel Module")}
	m := driverVersion.FindStringSubmatch(first)
	if m == nil {
		return d, fmt.Errorf("%w: %q names no version", fs.ErrInvalid, first)
	}
	d.version = m[0]
	d.major, err = strconv.Atoi(m[1])
	return d, err
}
