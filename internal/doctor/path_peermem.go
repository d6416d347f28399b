package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/pci"
)

// Since when NVIDIA's driver exports dma-bufs: its release notes of 515 and the
// guide to GPUDirect RDMA, which also want the open kernel modules.
const (
	dmabufDriver = 515
	dmabufMajor  = 5 // kernel 5.12
	dmabufMinor  = 12
)

// ways are parameters of NVIDIA's module that change how NICs reach its memory.
var ways = []string{"RegistryDwords", "RegistryDwordsPerDevice", "DmaRemapPeerMmio", "GrdmaPciTopoCheckOverride", "CoherentGPUMemoryMode"}

// checkPeerMemory tells by which way NVIDIA's memory gets to each rail.
func checkPeerMemory(ctx context.Context, s *System) (found []Finding) {
	t, all := s.accelerators()
	var gpus []*pci.Device
	for _, d := range all {
		if d.Vendor == nvidia && (d.Driver == "nvidia" || d.Driver == "") {
			gpus = append(gpus, d)
		}
	}
	const file = "proc/driver/nvidia/version"
	driver, err := s.nvidiaDriver()
	switch {
	case len(gpus) == 0:
		return nil
	case err != nil && s.Live && errors.Is(err, fs.ErrNotExist):
		return nil // no driver: check accelerator-drivers says so
	case err != nil:
		return []Finding{s.missing("", file, err)}
	}
	module, moduleFile := s.peerModule()
	read := []string{fmt.Sprintf("/%s: %s, %s kernel modules", file, driver.version, map[bool]string{true: "open", false: "closed"}[driver.open])}
	unmapped := false
	if words, _ := s.text("proc/driver/nvidia/params"); words != "" {
		for line := range strings.Lines(words) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			unmapped = unmapped || name == "DmaRemapPeerMmio" && value == "0"
			if slices.Contains(ways, name) && value != `""` {
				read = append(read, "/proc/driver/nvidia/params: "+name+": "+value)
			}
		}
	}
	if module != "" {
		read = append(read, moduleFile+": loaded")
	} else {
		read = append(read, "/sys/module: neither nvidia_peermem nor nv_peer_mem nor efa_nv_peermem")
	}
	without := s.noDMABuf(driver)
	if without != "" && s.Live && exportsCUDA() {
		without = "" // the driver itself knows better than its version
	}
	found = append(found, s.peerRails(ctx, t, gpus, module, without, read)...)
	// The driver maps its memory for each NIC (dma_map_resource), but where it is told not to.
	if module != "" && unmapped && s.translates() {
		found = append(found, Finding{Subject: module, Verdict: Warn, Summary: "with DmaRemapPeerMmio=0 it hands NICs physical addresses, and the IOMMU translates: what a NIC writes may go nowhere, without an error",
			Evidence: append(read, "check iommu"), Remedy: "take NVreg_DmaRemapPeerMmio=0 away from the options of module nvidia, boot with iommu=pt, or use dma-bufs, which are mapped for each device"})
	}
	return alike(found)
}

// noDMABuf says why NVIDIA's driver exports no dma-bufs here, "" if it should.
func (s *System) noDMABuf(d nvidiaDriver) string {
	var major, minor int
	n, _ := fmt.Sscanf(s.Kernel(), "%d.%d", &major, &minor)
	switch {
	case !d.open:
		return "its kernel modules are the closed ones"
	case d.major < dmabufDriver:
		return fmt.Sprintf("it is older than %d", dmabufDriver)
	case n == 2 && (major < dmabufMajor || major == dmabufMajor && minor < dmabufMinor):
		return fmt.Sprintf("kernel %d.%d is older than %d.%d", major, minor, dmabufMajor, dmabufMinor)
	}
	return ""
}

// peerRails judges each rail of the GPUs.
func (s *System) peerRails(ctx context.Context, t *pci.Topology, gpus []*pci.Device, module, without string, read []string) (found []Finding) {
	rails := map[string]bool{}
	for _, p := range s.rails().Pairs {
		for _, g := range gpus {
			for _, r := range p.Rails {
				if p.Accelerator == g && len(r.RDMA) > 0 {
					rails[r.RDMA[0].Name] = true
				}
			}
		}
	}
	for _, d := range s.rdmaDevices(ctx) {
		if !rails[d.Name] {
			continue
		}
		yes, why, _ := s.imports(ctx, d)
		f := Finding{Subject: d.Name, Evidence: append(append([]string{}, read...), why...)}
		peers := module != "" && (module == "efa_nv_peermem") == (rdmaDriver(d) == "efa")
		version, _ := s.text("sys/module/efa/version")
		own := rdmaDriver(d) == "efa" && version != "" // versions of it before efa_nv_peermem did
		switch {
		case without == "" && yes == pci.Yes:
			f.Summary = "dma-buf: NVIDIA's driver exports, the NIC's driver registers"
		case peers:
			f.Summary = "NVIDIA's memory gets to it by " + module
			if without != "" {
				f.Evidence = append(f.Evidence, "not by dma-buf: of NVIDIA's driver "+without)
			}
		case own && (without != "" || yes != pci.Yes):
			f.Verdict, f.Summary = Unknown, "by dma-buf it is not, and whether its driver, which is not the kernel's own, takes NVIDIA's memory by itself is not in files"
			f.Evidence = append(f.Evidence, "/sys/module/efa/version: "+version, cmpOr(without, "its driver is not known to register dma-bufs"))
		case without != "":
			f.Verdict, f.Cause = Fail, CauseUnsupported
			f.Summary = "neither way is open: NVIDIA's driver exports no dma-bufs (" + without + "), and no peer memory module is loaded"
			f.Remedy = "install NVIDIA's open kernel modules, from 515 on (Turing and later); or load nvidia_peermem, which takes the NIC vendor's RDMA stack"
			if rdmaDriver(d) == "efa" {
				f.Remedy = "install NVIDIA's open kernel modules, from 515 on (Turing and later), or the vendor's EFA driver with its efa_nv_peermem"
				break
			}
			if s.peerClients() {
				f.Commands = s.modprobe("nvidia_peermem")
			}
		case yes == pci.No:
			f.Verdict, f.Cause = Fail, CauseUnsupported
			f.Summary = "neither way is open: the NIC's driver registers no dma-bufs, and no peer memory module is loaded"
			f.Remedy = "take a kernel or a driver that does, or load nvidia_peermem where the NIC's RDMA stack has peer memory"
		default:
			f.Verdict, f.Summary = Unknown, "NVIDIA's driver exports dma-bufs; whether the NIC's registers them cannot be told"
		}
		found = append(found, f)
	}
	return found
}

// peerClients tells whether the kernel's RDMA core takes peer memory modules: a
// vendor's does, which is built outside of the kernel's tree, and Ubuntu's own. In
// others loading one fails with EINVAL.
func (s *System) peerClients() bool {
	text, _ := s.text("proc/modules")
	release, _ := s.text("etc/os-release")
	return strings.Contains(parseModules(text)["ib_core"], "(O") || slices.Contains(strings.Split(release, "\n"), "ID=ubuntu")
}

// exportsCUDA asks the driver whether it exports memory of a GPU.
func exportsCUDA() bool {
	for _, x := range dmabuf.Exporters() {
		if family, _, _ := strings.Cut(x.Name(), ":"); family == "cuda" && x.Available() == nil {
			return true
		}
	}
	return false
}

// translates tells whether the IOMMU translates what accelerators or NICs address.
func (s *System) translates() bool {
	_, all := s.endpoints()
	for _, d := range all {
		if strings.HasPrefix(d.GroupType, "DMA") {
			return true
		}
	}
	return false
}
