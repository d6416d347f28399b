package pci

import "testing"

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		what            string
		class           uint32
		vendor, product uint16
		driver          string
		want            Kind
	}{
		{"H100", 0x030200, 0x10de, 0x2330, "nvidia", Accelerator},
		{"GeForce", 0x030000, 0x10de, 0x2684, "", Accelerator},
		{"MI60", 0x038000, 0x1002, 0x66a1, "amdgpu", Accelerator},
		{"MI210", 0x038000, 0x1002, 0x740f, "amdgpu", Accelerator},
		{"MI300A, a processor's", 0x120000, 0x1002, 0x74a0, "amdgpu", Accelerator},
		{"Radeon RX 7900", 0x030000, 0x1002, 0x744c, "amdgpu", Accelerator},
		{"Raphael, in a processor", 0x030000, 0x1002, 0x164e, "amdgpu", Other},
		{"Strix Halo, in a processor", 0x038000, 0x1002, 0x1586, "amdgpu", Other},
		{"Carrizo, in a processor", 0x030000, 0x1002, 0x9874, "", Other},
		{"Gaudi", 0x120000, 0x1da3, 0x1020, "", Accelerator},
		{"Vector Engine", 0x0b4000, 0x1bcf, 0x001c, "", Accelerator},
		{"Xeon Phi", 0x0b4000, 0x8086, 0x225c, "mic", Accelerator},
		{"QuickAssist", 0x0b4000, 0x8086, 0x4940, "4xxx", Other},
		{"Trainium", 0x088000, 0x1d0f, 0x7164, "neuron", Accelerator},
		{"Wormhole", 0x000000, 0x1e52, 0x401e, "", Accelerator},
		{"accelerator of the lab", 0x050000, 0x1af4, 0x1110, "peerdirect_accel", Accelerator},
		{"ivshmem of another", 0x050000, 0x1af4, 0x1110, "", Other},
		{"EFA", 0x020000, 0x1d0f, 0xefa2, "", RDMANIC},
		{"ENA", 0x020000, 0x1d0f, 0xec20, "ena", OtherNIC},
		{"ConnectX-7 InfiniBand", 0x020700, 0x15b3, 0x1021, "", RDMANIC},
		{"ConnectX-7 Ethernet", 0x020000, 0x15b3, 0x1021, "", RDMANIC},
		{"ConnectX-3", 0x028000, 0x15b3, 0x1003, "", RDMANIC},
		{"InfiniBand of the old class", 0x0c0600, 0x15b3, 0x5a44, "", RDMANIC},
		{"Omni-Path", 0x020800, 0x8086, 0x24f0, "hfi1", RDMANIC},
		{"Ethernet", 0x020000, 0x8086, 0x1521, "igb", OtherNIC},
		{"virtio-net", 0x020000, 0x1af4, 0x1041, "virtio-pci", OtherNIC},
		{"NVMe", 0x010802, 0x144d, 0xa808, "nvme", NVMe},
		{"SATA", 0x010601, 0x8086, 0x2922, "ahci", Other},
		{"bridge", 0x060400, 0x10b5, 0x9797, "pcieport", Bridge},
		{"bridge of a BMC", 0x060400, 0x1a03, 0x1150, "", Bridge},
		{"host bridge", 0x060000, 0x8086, 0x29c0, "", Other},
		{"NVSwitch", 0x068000, 0x10de, 0x1ac2, "", NVSwitch},
		{"power management, of the same class", 0x068000, 0x8086, 0x7113, "", Other},
		{"display of a BMC", 0x030000, 0x1a03, 0x2000, "ast", BMC},
		{"Matrox", 0x030000, 0x102b, 0x0536, "mgag200", BMC},
		{"iLO", 0x088000, 0x103c, 0x3306, "hpilo", BMC},
		{"display of a guest", 0x030000, 0x1d0f, 0x1111, "", Other},
		{"virtio-gpu", 0x030000, 0x1af4, 0x1050, "", Other},
		{"nothing known", 0, 0, 0, "", Other},
	} {
		d := &Device{Class: c.class, Vendor: c.vendor, Product: c.product, Driver: c.driver}
		if got := kindOf(d); got != c.want {
			t.Errorf("%s: %v; want %v", c.what, got, c.want)
		}
	}
	if got := kindOf(&Device{Class: 0x020000, Vendor: 0x14e4, RDMA: []RDMA{{Name: "bnxt_re0"}}}); got != RDMANIC {
		t.Errorf("Ethernet with an infiniband device: %v", got)
	}
	// Graphics of a processor, and a card at its place in a domain of its own, or below a port.
	own := &Device{Address: Address{0, 0, 2, 0}, Class: 0x030000, Vendor: intel, Product: 0x9a49, Driver: "i915"}
	if got := kindOf(own); got != Other {
		t.Errorf("graphics of the processor: %v", got)
	}
	for _, card := range []*Device{
		{Address: Address{0, 3, 0, 0}, Parent: &Device{}, Class: 0x030000, Vendor: intel, Product: 0x56a0, Driver: "xe"},
		{Address: Address{0, 0, 5, 0}, Class: 0x038000, Vendor: intel, Product: 0x0bd5},
		{Address: Address{0, 0, 2, 0}, Class: 0x030000, Vendor: nvidia, Product: 0x2684},
	} {
		if got := kindOf(card); got != Accelerator {
			t.Errorf("%v of %04x: %v", card.Address, card.Vendor, got)
		}
	}
	if got := kindOf(&Device{Children: []*Device{{}}}); got != Bridge {
		t.Errorf("what others are below, of unknown class: %v", got)
	}
	if s := Kind(99).String() + Port(99).String(); s != "unknownunknown" {
		t.Error(s)
	}
}
