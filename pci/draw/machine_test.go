package draw

import (
	"fmt"

	"github.com/peerdirect/peerdirect/pci"
)

// machine is one whose every NUMA node has some root complexes, each with a switch,
// and an accelerator, four NICs and an NVMe below it. The first accelerator's link is
// narrower than it could be.
func machine(nodes, switches int) *pci.Topology {
	t := &pci.Topology{Source: "made up"}
	for i := range nodes {
		n := &pci.Node{Number: i, Present: true, Memory: 512 << 30}
		for c := range 16 {
			n.CPUs = append(n.CPUs, i*16+c)
		}
		for j := range nodes {
			n.Distances = append(n.Distances, map[bool]int{true: 10, false: 21}[i == j])
		}
		t.Nodes = append(t.Nodes, n)
		for s := range switches {
			place := i*switches + s
			domain, bus := uint32(place/15), uint8(place%15*16+16)
			r := &pci.Root{Name: fmt.Sprintf("pci%04x:%02x", domain, bus), Domain: domain, Bus: bus, Node: n}
			t.Roots = append(t.Roots, r)
			add := func(above *pci.Device, bus, device uint8, d pci.Device) *pci.Device {
				d.Address = pci.Address{Domain: domain, Bus: bus, Device: device}
				d.Root, d.Parent, d.Node, d.Group = r, above, n, -1
				t.Devices = append(t.Devices, &d)
				return &d
			}
			port := pci.Device{Kind: pci.Bridge, Vendor: 0x1d0f, Product: 0x200, Class: 0x060400,
				Link: pci.Link{Speed: 32, MaxSpeed: 32, Width: 16, MaxWidth: 16}}
			root, up, down := port, port, port
			root.Port, up.Port, down.Port = pci.RootPort, pci.UpstreamPort, pci.DownstreamPort
			top := add(add(nil, bus, 0, root), bus+1, 0, up)
			hang := func(i uint8, d pci.Device) {
				d.Port = pci.Endpoint
				add(add(top, bus+2, i, down), bus+3+i, 0, d)
			}
			link := port.Link
			if place == 0 {
				link.Width = 8
			}
			hang(0, pci.Device{Kind: pci.Accelerator, Vendor: 0x10de, Product: 0x2330, Class: 0x030200, Link: link})
			for k := range uint8(4) {
				hang(1+k, pci.Device{Kind: pci.RDMANIC, Vendor: 0x1d0f, Product: 0xefa1, Class: 0x020000,
					RDMA: []pci.RDMA{{Name: fmt.Sprintf("rdmap%ds0", int(bus)+4+int(k))}},
					Link: pci.Link{Speed: 16, MaxSpeed: 16, Width: 8, MaxWidth: 8}})
			}
			hang(5, pci.Device{Kind: pci.NVMe, Vendor: 0x1d0f, Product: 0xcd01, Class: 0x010802, NVMe: []string{fmt.Sprintf("nvme%d", place)},
				Link: pci.Link{Speed: 8, MaxSpeed: 8, Width: 4, MaxWidth: 4}})
		}
	}
	pci.Assemble(t)
	return t
}

// paired gives each accelerator the NICs of its root complex, and all of them the
// first NIC if theirs has none.
func paired(t *pci.Topology) *pci.Pairing {
	p := &pci.Pairing{}
	nics := t.Of(pci.RDMANIC)
	for _, a := range t.Of(pci.Accelerator) {
		pair := pci.Pair{Accelerator: a, Class: pci.PIX, Reason: "below one switch"}
		for _, n := range nics {
			if n.PF == nil && n.Root == a.Root && n.Address.Domain == a.Address.Domain {
				pair.Rails = append(pair.Rails, n)
			}
		}
		if len(pair.Rails) == 0 && len(nics) > 0 {
			pair.Rails = nics[:1]
		}
		p.Pairs = append(p.Pairs, pair)
	}
	return p
}
