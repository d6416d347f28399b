package ncclxml

import (
	"fmt"
	"math/rand/v2"

	"github.com/peerdirect/peerdirect/pci"
)

// machine is a topology to be.
type machine struct{ pci.Topology }

func (m *machine) node(number int, cpus ...int) *pci.Node {
	n := &pci.Node{Number: number, Present: true, CPUs: cpus, Memory: -1}
	m.Nodes = append(m.Nodes, n)
	return n
}

func (m *machine) root(name string, node *pci.Node) *pci.Root {
	r := &pci.Root{Name: name, Path: name, Node: node}
	r.Domain, r.Bus, _ = scanRoot(name)
	m.Roots = append(m.Roots, r)
	return r
}

// add puts a device on a root bus, or below a bridge.
func (m *machine) add(address string, root *pci.Root, above *pci.Device, class uint32, port pci.Port) *pci.Device {
	a, err := pci.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	d := &pci.Device{Address: a, Root: root, Parent: above, Class: class, Port: port, Group: -1}
	if root != nil {
		d.Node = root.Node
	}
	m.Devices = append(m.Devices, d)
	return d
}

func (m *machine) done() *pci.Topology {
	pci.Assemble(&m.Topology)
	return &m.Topology
}

const (
	bridge   = 0x060400
	gpu      = 0x030200
	ethernet = 0x020000
)

// crowd is a machine with that many accelerators, and many times more NICs than a
// file takes, under one switch each.
func crowd(accelerators, nics int) *pci.Topology {
	var m machine
	node := m.node(0, 0, 1)
	for i := range accelerators {
		domain := "00" + string("0123456789abcdef"[i]) + "0:"
		root := m.root("pci"+domain+"00", node)
		port := m.add(domain+"00:00.0", root, nil, bridge, pci.RootPort)
		up := m.add(domain+"01:00.0", root, port, bridge, pci.UpstreamPort)
		down := m.add(domain+"02:00.0", root, up, bridge, pci.DownstreamPort)
		m.add(domain+"03:00.0", root, down, gpu, pci.Endpoint)
		down = m.add(domain+"02:01.0", root, up, bridge, pci.DownstreamPort)
		for n := range nics / accelerators {
			d := m.add(domain+"04:00.0", root, down, ethernet, pci.Endpoint)
			d.Address.Device, d.Address.Function = uint8(n/8), uint8(n%8)
		}
	}
	return m.done()
}

// random is a machine as machines are built: root ports with switches below, which
// have more of them, devices of several functions, and some on root buses. Where
// config space is not readable no port is known.
func random(seed uint64) *pci.Topology {
	r := rand.New(rand.NewPCG(seed, 1))
	var m machine
	var nodes []*pci.Node
	for i := range 1 + r.IntN(3) {
		nodes = append(nodes, m.node(i, i))
	}
	known, budget := r.IntN(2) == 0, 70
	port := func(p pci.Port) pci.Port {
		if !known {
			return pci.PortUnknown
		}
		return p
	}
	for i := range 1 + r.IntN(4) {
		node := append(nodes, nil)[r.IntN(len(nodes)+1)]
		root := m.root(fmt.Sprintf("pci%04x:00", i), node)
		bus := 0
		endpoint := func(bus, device int, above *pci.Device) {
			class := []uint32{gpu, ethernet, 0x020700, 0x010802}[r.IntN(4)]
			for f := range 1 + r.IntN(4)/3 {
				m.add(fmt.Sprintf("%04x:%02x:%02x.%d", i, bus, device, f), root, above, class, port(pci.Endpoint))
				budget--
			}
		}
		var link func(above *pci.Device, depth int)
		link = func(above *pci.Device, depth int) { // what is at the other end of a port
			bus++
			if depth == 3 || budget < 0 || r.IntN(2) == 0 {
				endpoint(bus, 0, above)
				return
			}
			up := m.add(fmt.Sprintf("%04x:%02x:00.0", i, bus), root, above, bridge, port(pci.UpstreamPort))
			bus++
			inner := bus
			for device := range 1 + r.IntN(4) {
				link(m.add(fmt.Sprintf("%04x:%02x:%02x.0", i, inner, device), root, up, bridge, port(pci.DownstreamPort)), depth+1)
			}
		}
		for device := range 1 + r.IntN(3) {
			if r.IntN(4) == 0 {
				endpoint(0, device, nil)
				continue
			}
			link(m.add(fmt.Sprintf("%04x:00:%02x.0", i, device), root, nil, bridge, port(pci.RootPort)), 0)
		}
	}
	return m.done()
}
