package pci

import "testing"

func TestAssembleBreaksCircles(t *testing.T) {
	a := &Device{Address: Address{0, 0, 1, 0}, Class: 0x060400}
	b := &Device{Address: Address{0, 1, 0, 0}, Class: 0x060400, Parent: a}
	c := &Device{Address: Address{0, 2, 0, 0}, Class: 0x060400, Parent: b}
	self := &Device{Address: Address{0, 3, 0, 0}}
	a.Parent, self.Parent, self.PF = c, self, self
	topo := &Topology{Devices: []*Device{c, self, b, a}}
	Assemble(topo)
	for _, d := range topo.Devices {
		n := 0
		for up := d; up != nil; up = up.Parent {
			if n++; n > len(topo.Devices) {
				t.Fatalf("%v is its own ancestor", d.Address)
			}
		}
	}
	if self.PF != nil || len(self.VFs) != 0 {
		t.Error("a function is its own physical function")
	}
}

func TestAssembleTwice(t *testing.T) {
	root := &Root{Name: "pci0000:00"}
	up := &Device{Address: Address{0, 1, 0, 0}, Class: 0x060400, Port: UpstreamPort, Root: root}
	down := &Device{Address: Address{0, 2, 0, 0}, Class: 0x060400, Port: DownstreamPort, Root: root, Parent: up}
	nic0 := &Device{Address: Address{0, 3, 0, 0}, Class: 0x020700, Root: root, Parent: down}
	nic1 := &Device{Address: Address{0, 3, 0, 1}, Class: 0x020700, Root: root, Parent: down}
	vf := &Device{Address: Address{0, 3, 0, 2}, Class: 0x020700, Root: root, Parent: down, PF: nic0}
	topo := &Topology{Roots: []*Root{root}, Devices: []*Device{vf, nic1, nic0, down, up}}
	const want = `pci0000:00 
  0000:01:00.0 bridge 0000:01:00.0 switch of 1
    0000:02:00.0 bridge 0000:02:00.0 port
      0000:03:00.0 RDMA NIC NIC0 card of 2
      0000:03:00.1 RDMA NIC NIC1 card of 2
      0000:03:00.2 RDMA NIC NIC2 of 0000:03:00.0
`
	for range 2 {
		Assemble(topo)
		if got := tree(topo); got != want || len(nic0.VFs) != 1 || len(topo.Switches) != 1 || len(topo.Cards) != 1 {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
	}
}

func TestSwitchesByShape(t *testing.T) {
	// Ports of unknown type: on a root bus a root port, below it upstream,
	// downstream, and again.
	m := newMachine()
	place := "pci0000:00"
	for i := range 6 {
		place += "/0000:0" + string(rune('0'+i)) + ":00.0"
		m.device(place, bridge, plx)
	}
	m.device(place+"/0000:06:00.0", gpu, h100)
	topo, err := Read(m)
	if err != nil || len(topo.Switches) != 2 || topo.Switches[0].Upstream.Address.Bus != 1 ||
		topo.Switches[1].Upstream.Address.Bus != 3 {
		t.Errorf("%v\n%s", err, tree(topo))
	}
}

func TestNames(t *testing.T) {
	topo := &Topology{Devices: []*Device{
		{Address: Address{0, 1, 0, 0}, Kind: Accelerator, Dev: []string{"nvidia1"}},
		{Address: Address{0, 2, 0, 0}, Kind: RDMANIC, RDMA: []RDMA{{Name: "mlx5_0"}}, Net: []string{"eth0"}},
		{Address: Address{0, 3, 0, 0}, Kind: OtherNIC, Net: []string{"eth1"}},
		{Address: Address{0, 4, 0, 0}, Kind: RDMANIC},
		{Address: Address{0, 5, 0, 0}, Kind: NVMe, NVMe: []string{"nvme0"}},
		{Address: Address{0, 6, 0, 0}, Kind: Accelerator},
		{Address: Address{0, 7, 0, 0}, Kind: Bridge},
	}}
	for i, want := range []string{"GPU0", "mlx5_0", "eth1", "NIC2", "nvme0", "GPU1", "0000:07:00.0"} {
		if got := topo.Name(topo.Devices[i]); got != want {
			t.Errorf("%v is %s; want %s", topo.Devices[i].Address, got, want)
		}
	}
	if got := topo.Name(nil) + topo.Name(&Device{Kind: NVSwitch}); got != "0000:00:00.0" {
		t.Error("devices of no machine:", got)
	}
}
