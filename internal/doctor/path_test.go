package doctor

import (
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

func TestP2P(t *testing.T) {
	const redirect = pci.ACSSourceValidation | pci.ACSRequestRedirect | pci.ACSCompletionRedirect | pci.ACSUpstreamForward
	nodes(t, "p2p", []struct {
		name  string
		node  paired
		wants string
	}{
		{"below one switch", paired{driver: "amdgpu"}, "ok GPU0 -> mlx5_0: direct: traffic turns at a bridge above both\n"},
		{"source validation is harmless", paired{driver: "amdgpu", acs: pci.ACSSourceValidation}, "ok GPU0 -> mlx5_0"},
		{"redirected, and the driver asks", paired{driver: "amdgpu", acs: redirect},
			"fail GPU0 -> mlx5_0: the kernel refuses peer-to-peer access: access control redirects to a host bridge that is not on the kernel's list; driver amdgpu: it moves the buffer to host memory {other}\n"},
		{"redirected, and the driver does not ask", paired{driver: "nvidia", acs: redirect},
			"unknown GPU0 -> mlx5_0: the kernel's rules refuse it (access control redirects|and driver nvidia does not ask|!fail"},
		{"the driver is unknown", paired{acs: redirect}, "unknown GPU0 -> mlx5_0|whether the accelerator's driver asks the kernel is not known|!fail"},
		{"redirected to a root that the kernel trusts", paired{driver: "amdgpu", acs: redirect, cpu: "AuthenticAMD", more: []string{zen}}, "note GPU0 -> mlx5_0: allowed, and traffic goes up to the root complex\n"},
		{"config space not readable", paired{driver: "amdgpu", unreadable: true}, "unknown GPU0 -> mlx5_0: whether it is direct cannot be told: a bridge is above both|!fail"},
		{"two root ports", paired{driver: "habanalabs", flat: true}, "fail GPU0 -> mlx5_0|no bridge is above both, and their host bridge is not on the kernel's list; driver habanalabs: registration fails with EPERM {other}"},
		{"two root ports of Zen", paired{driver: "amdgpu", flat: true, cpu: "AuthenticAMD", more: []string{zen}}, "note GPU0 -> mlx5_0: allowed, and traffic goes up"},
		{"two root ports, nobody asks", paired{driver: "nvidia", flat: true}, "unknown GPU0 -> mlx5_0|!fail"},
		{"a kernel without the option", paired{driver: "amdgpu", noP2PDMA: true}, "fail GPU0 -> mlx5_0|it is built without CONFIG_PCI_P2PDMA; driver amdgpu: it moves the buffer to host memory {unsupported}"},
		{"the lab's driver does not ask such a kernel", paired{driver: "peerdirect_accel", noP2PDMA: true}, "ok GPU0 -> mlx5_0: direct"},
		{"NVIDIA's asks none", paired{driver: "nvidia", noP2PDMA: true}, "ok GPU0 -> mlx5_0: direct"},
		{"and across root ports", paired{driver: "nvidia", noP2PDMA: true, flat: true}, "unknown GPU0 -> mlx5_0|!CONFIG_PCI_P2PDMA"},
	})
}

// zen replaces the processor of a node by one whose root complex the kernel trusts.
const zen = `proc/cpuinfo = vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t: 17`

func TestACS(t *testing.T) {
	const on = pci.ACSRequestRedirect | pci.ACSUpstreamForward
	nodes(t, "acs", []struct {
		name  string
		node  paired
		wants string
	}{
		{"off", paired{}, "ok : no access control redirects on the 1 way that a switch carries\n"},
		{"on", paired{acs: on}, "warn 0000:02:00.0: access control on 1 switch port turns peer-to-peer traffic up to the root complex, for one between GPU0|$ setpci -s 0000:02:00.0 ECAP_ACS+6.w=0:1c\n"},
		{"not readable", paired{unreadable: true}, "unknown 0000:02:00.0, 0000:02:01.0: whether access control|!warn"},
		{"no switch", paired{flat: true}, "!ok|!warn"},
	})
}

func TestIOMMU(t *testing.T) {
	nodes(t, "iommu", []struct {
		name  string
		node  paired
		wants string
	}{
		{"none", paired{}, "ok : no IOMMU translates what accelerators and NICs address\n"},
		{"passes through", paired{group: "identity"}, "ok : the IOMMU translates nothing of accelerators and NICs (group type identity)\n"},
		{"translates", paired{group: "DMA-FQ"}, "warn GPU0 (0000:03:00.0), mlx5_0 (0000:04:00.0): the IOMMU translates every address|!$"},
		{"translates, on Debian", paired{group: "DMA-FQ", more: []string{"etc/os-release = ID=debian"}}, "$ mkdir -p /etc/default/grub.d $ echo|>/etc/default/grub.d/iommu.cfg $ update-grub\n|!grubby"},
		{"translates, on Rocky Linux", paired{group: "DMA-FQ", more: []string{`etc/os-release = ID="rocky"\nID_LIKE="rhel centos fedora"`}}, "$ grubby --update-kernel=ALL --args=iommu=pt\n|!grub.d"},
	})
}

func TestLinksAndBARs(t *testing.T) {
	nodes(t, "pcie-links", []struct {
		name  string
		node  paired
		wants string
	}{
		{"all they can", paired{}, "ok GPU0 (0000:03:00.0): its link runs at 32 GT/s x16, all it can\nok mlx5_0|!warn"},
		{"lanes lost", paired{nicLanes: 8},
			"warn mlx5_0 (0000:04:00.0): the link runs at 32 GT/s x8; the device can 32 GT/s x16|ok GPU0|!ok mlx5_0"},
		{"an accelerator at rest", paired{gpuSpeed: 1},
			"note GPU0 (0000:03:00.0): the link runs at 2.5 GT/s x16|!warn"},
	})
	nodes(t, "bar-size", []struct {
		name  string
		node  paired
		wants string
	}{
		{"large", paired{}, "ok GPU0 (0000:03:00.0): its largest BAR has 128 GiB\n"},
		{"a window", paired{bar: "0x00000000d0000000 0x00000000dfffffff 0x000000000014220c"}, "note GPU0 (0000:03:00.0): the largest BAR has 256 MiB"},
		{"none", paired{bar: "0x0000000000000000 0x0000000000000000 0x0000000000000000"}, "warn GPU0 (0000:03:00.0): it has no memory BAR"},
	})
}

func TestPairing(t *testing.T) {
	nodes(t, "pairing", []struct {
		name  string
		node  paired
		wants string
	}{
		{"one each", paired{}, "ok GPU0 (0000:03:00.0): rails mlx5_0 (PIX)\n|!warn"},
	})
	want(t, told(runCheck(t, machine(t, gpu("nvidia")), "pairing")), "note GPU0 (0000:02:00.0): it has no rail")
}

func TestAccelerators(t *testing.T) {
	nodes(t, "accelerator-drivers", []struct {
		name  string
		node  paired
		wants string
	}{
		{"driven", paired{driver: "nvidia"}, "ok GPU0 (0000:03:00.0): driver nvidia\n"},
		{"nobody's", paired{gpu: "1002:74a1"}, "warn GPU0 (0000:03:00.0): no driver is bound to it: nothing exports its memory $ modprobe -v"},
		{"nobody's, of NVIDIA", paired{}, "warn GPU0 (0000:03:00.0): no driver is bound to it: nothing exports its memory\n|!$"},
		{"nouveau's", paired{driver: "nouveau"}, "warn GPU0 (0000:03:00.0): nouveau drives it, which gives no memory to NICs"},
		{"given away", paired{driver: "vfio-pci"}, "note GPU0 (0000:03:00.0): its memory is for whom vfio-pci gave it to"},
	})
	want(t, told(runCheck(t, machine(t, nic("mlx5_core")), "accelerators")), "note : there is no accelerator")
	want(t, told(runCheck(t, machine(t, "sys/class/"), "accelerators")), "unknown : the capture does not hold /sys/bus/pci/devices")
}

// Ways that are alike are one paragraph, and what is in order is told one by one.
func TestAlike(t *testing.T) {
	var all []Finding
	for _, name := range strings.Fields("a b c d e f g h i j k l") {
		all = append(all, Finding{Subject: name, Verdict: Warn, Summary: "s", Remedy: "r", Evidence: []string{"e " + name}, Commands: []string{"c " + name, "same"}},
			Finding{Subject: name, Summary: "fine"})
	}
	got := alike(all)
	if len(got) != 13 || got[0].Subject != "a, b, c, d and 8 more" || len(got[0].Evidence) != mostEvidence+1 || len(got[0].Commands) != 13 ||
		got[0].Evidence[mostEvidence] != "and 4 more like these" {
		t.Errorf("%d: %+v", len(got), got[0])
	}
}
