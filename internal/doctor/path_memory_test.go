package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/inventory"
)

func TestImport(t *testing.T) {
	const kernel515, kernel73 = "proc/sys/kernel/osrelease = 5.15.0-100-generic\n", "proc/sys/kernel/osrelease = 7.3.4\n"
	up := func(driver string) string {
		return nic(driver) + "\n" + rdma("a", nicAt, "4: ACTIVE", hdr, "Ethernet") + "\n"
	}
	second := func(driver string) string {
		return function(farOther, "15b3", "1021", "020700", driver) + "\n" + rdma("b", farOther, "4: ACTIVE", hdr, "Ethernet") + "\n"
	}
	const soft = "sys/class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0\nsys/devices/virtual/infiniband/rxe0/node_type = 1: CA\n"
	cases(t, "dmabuf-import", []struct{ name, system, wants string }{
		{"mlx5", kernel73 + up("mlx5_core"), "ok a: its driver registers dma-bufs\n"},
		{"mlx4", kernel73 + up("mlx4_core"), "fail a: its driver registers no dma-bufs: accelerator memory does not go through it directly {unsupported}\n"},
		{"rxe alone", kernel73 + soft, "fail rxe0: its driver registers no dma-bufs|{unsupported}"},
		{"rxe beside mlx5", kernel73 + up("mlx5_core") + soft, "ok a|note rxe0: its driver registers no dma-bufs|!fail"},
		{"mlx4 beside mlx5, and nobody's rail", kernel73 + up("mlx5_core") + second("mlx4_core"), "ok a|note b|!fail"},
		{"mlx4 beside mlx5, an accelerator's rail", kernel73 + up("mlx5_core") + second("mlx4_core") + gpu("amdgpu"), "ok a|warn b|!fail"},
		{"efa of an old kernel", kernel515 + up("efa"), "fail a: its driver registers no dma-bufs|{unsupported}"},
		{"efa from elsewhere in an old kernel", kernel515 + up("efa") + "sys/module/efa/version = 2.17.2g", "unknown a: whether its driver registers dma-bufs cannot be told\n|!fail"},
		{"a kernel that is not captured", up("mana"), "unknown a: whether its driver registers dma-bufs cannot be told\n|!fail"},
		{"peermem instead", kernel515 + up("efa") + "sys/module/nvidia_peermem/", "note a|but by nvidia_peermem (check peer-memory)\n|!fail"},
	})
}

// What was asked goes before what the table says.
func TestImportAsked(t *testing.T) {
	for _, yes := range []bool{true, false} {
		s := machine(t, "proc/sys/kernel/osrelease = 7.3.4")
		s.rdma.gathered = true
		s.rdma.all = inventory.Inventory{Devices: []inventory.Device{{Name: "mlx5_0", Driver: new("mlx5"), DMABuf: &yes}}}
		wants := "ok mlx5_0: its driver registers dma-bufs\n"
		if !yes {
			wants = "fail mlx5_0|{unsupported}"
		}
		want(t, told(runCheck(t, s, "dmabuf-import")), wants)
	}
	// And of a device that could not be opened why.
	s := running(t, "proc/sys/kernel/osrelease = 7.3.4")
	s.rdma.gathered = true
	name := "mana_0"
	s.rdma.all = inventory.Inventory{
		Devices:  []inventory.Device{{Name: name}},
		Problems: []inventory.Problem{{Device: &name, Part: "verbs", Error: "permission denied"}},
	}
	f := checkImport(context.Background(), s)
	if len(f) != 1 || f[0].Verdict != Unknown || f[0].missing || f[0].Evidence[0] != "verbs: permission denied" {
		t.Errorf("%+v", f)
	}
}

// Exporters tell of the accelerators that a process is given; that others are there is
// no fault, and that none is told of is.
func TestExportOfSome(t *testing.T) {
	s := machine(t, gpu("nvidia"), function(farOther, "10de", "2330", "030200", "nvidia"))
	topo, all := s.accelerators()
	for name, c := range map[string]struct {
		at     map[string][]string
		cannot map[string][]error
		wants  string
	}{
		"both":             {map[string][]string{gpuAt: {"cuda:0"}, farOther: {"cuda:1"}}, nil, "ok GPU0|ok GPU1|!note"},
		"one is not given": {map[string][]string{gpuAt: {"cuda:0"}}, nil, "ok GPU0 (0000:02:00.0): its memory can be exported: cuda:0\n|note GPU1 (0000:03:00.0): this process is not given it"},
		"one fails":        {map[string][]string{gpuAt: {"cuda:0"}}, map[string][]error{"cuda": {dmabuf.ErrUnsupported}}, "ok GPU0|fail GPU1 (0000:03:00.0): its memory cannot be exported|{unsupported}"},
		"nobody tells":     {nil, nil, "unknown GPU0|unknown GPU1|!note"},
	} {
		t.Run(name, func(t *testing.T) {
			var found []Finding
			for _, d := range all {
				if f, ok := s.judgeExport(topo, d, all, c.at, c.cannot); ok {
					found = append(found, f)
				}
			}
			want(t, told(found), c.wants)
		})
	}
}

func TestPeerMemory(t *testing.T) {
	const (
		open   = `proc/driver/nvidia/version = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-H05-01-2)\nGCC version:  gcc version 13.3.0`
		closed = `proc/driver/nvidia/version = NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Fri Oct 25 22:43:06 UTC 2024\nGCC version:  gcc version 12.3.0`
		early  = `proc/driver/nvidia/version = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  510.47.03`
	)
	at := func(group, driver string, more ...string) paired {
		return paired{driver: "nvidia", group: group, nic: driver, more: more}
	}
	nodes(t, "peer-memory", []struct {
		name  string
		node  paired
		wants string
	}{
		{"open modules", at("", "", open), "ok mlx5_0: dma-buf: NVIDIA's driver exports, the NIC's driver registers\n"},
		{"closed modules", at("", "", closed), "fail mlx5_0: neither way is open: NVIDIA's driver exports no dma-bufs (its kernel modules are the closed ones), and no peer memory module is loaded {unsupported}\n|!$"},
		{"closed modules, and a vendor's RDMA stack", at("", "", closed, "proc/modules = ib_core 1 0 - Live 0x0 (OE)"), "fail mlx5_0|{unsupported} $ modprobe nvidia_peermem\n"},
		{"closed modules, and the kernel's", at("", "", closed, "proc/modules = ib_core 1 0 - Live 0x0", "etc/os-release = ID=debian"), "fail mlx5_0|!$"},
		{"closed modules, and Ubuntu's", at("", "", closed, "etc/os-release = NAME=Ubuntu\\nID=ubuntu"), "fail mlx5_0|$ modprobe nvidia_peermem\n"},
		{"closed modules and peermem", at("", "", closed, "sys/module/nvidia_peermem/"), "ok mlx5_0: NVIDIA's memory gets to it by nvidia_peermem\n|!fail"},
		{"an open module before 515", at("", "", early), "fail mlx5_0|it is older than 515"},
		{"a kernel before 5.12", at("", "", open, "proc/sys/kernel/osrelease = 5.4.0"), "fail mlx5_0|kernel 5.4 is older than 5.12"},
		{"a NIC that registers none", at("", "mlx4_core", open), "fail mlx5_0: neither way is open: the NIC's driver registers no dma-bufs"},
		{"peermem behind an IOMMU", at("DMA-FQ", "", closed, "sys/module/nvidia_peermem/"), "ok mlx5_0|!warn"},
		{"and mapped for it", at("DMA-FQ", "", closed, "sys/module/nvidia_peermem/", "proc/driver/nvidia/params = DmaRemapPeerMmio: 1"), "ok mlx5_0|!warn"},
		{"and not mapped", at("DMA-FQ", "", closed, "sys/module/nvidia_peermem/", "proc/driver/nvidia/params = DmaRemapPeerMmio: 0"), "ok mlx5_0|warn nvidia_peermem: with DmaRemapPeerMmio=0 it hands NICs physical addresses, and the IOMMU translates"},
		{"not mapped, and nothing translates", at("identity", "", closed, "sys/module/nvidia_peermem/", "proc/driver/nvidia/params = DmaRemapPeerMmio: 0"), "ok mlx5_0|!warn"},
		{"dma-bufs behind an IOMMU", at("DMA-FQ", "", open), "ok mlx5_0|!warn"},
		{"EFA's own peermem is not for others", at("", "", closed, "sys/module/efa_nv_peermem/"), "fail mlx5_0"},
		{"EFA's own peermem", at("", "efa", closed, "sys/module/efa_nv_peermem/"), "ok mlx5_0: NVIDIA's memory gets to it by efa_nv_peermem\n"},
		{"a driver of EFA that is not the kernel's", at("", "efa", closed, "sys/module/efa/version = 2.1.0g"), "unknown mlx5_0: by dma-buf it is not|!fail"},
		{"not captured", at("", ""), "unknown : the capture does not hold /proc/driver/nvidia/version"},
		{"a version that is none", at("", "", "proc/driver/nvidia/version = NVRM version: ?"), "unknown|!fail"},
		{"AMD's", paired{driver: "amdgpu", gpu: "1002:74a1"}, "!mlx5_0|!unknown"},
	})
}

// What changes the way to NVIDIA's memory is told with it, and defaults are not.
func TestPeerMemoryTellsParameters(t *testing.T) {
	n := paired{driver: "nvidia", more: []string{
		`proc/driver/nvidia/version = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)`,
		`proc/driver/nvidia/params = EnableMSI: 1\nDmaRemapPeerMmio: 1\nRegistryDwords: "RMForceStaticBar1=1"\nCoherentGPUMemoryMode: ""`,
	}}
	got := strings.Join(runCheck(t, NewSystem(n.build(t), false), "peer-memory")[0].Evidence, "\n")
	want(t, got, `580.159.04, open kernel modules|/proc/driver/nvidia/params: DmaRemapPeerMmio: 1|RegistryDwords: "RMForceStaticBar1=1"|!EnableMSI|!Coherent`)
}
