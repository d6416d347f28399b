package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// Placement is a machine's NICs as an engine's rails, by its topology: which worker
// drives which, where that runs, and what memory each is near to.
//
//	p, err := engine.Placed(topology, opener, transfer.Want{Peers: 64}, pci.PairOptions{})
//	e, err := engine.New(engine.Options{Rails: p.Rails, Workers: p.Workers, Near: p.Near})
//	buf, err := p.NewBuffer(64<<20, engine.Place{Device: "0000:53:00.0"}, verbs.BufferOptions{})
type Placement struct {
	Rails   []RailSpec
	Workers []WorkerSpec
	Groups  []RailGroup // by worker

	t       *pci.Topology
	nics    []*pci.Device // by rail; nil of one that the topology does not have
	pairing *pci.Pairing
	found   sync.Map // the place of an exporter's device: string to *pci.Device
}

// RailGroup is the rails of a worker: those of one accelerator, of several that share
// theirs, or those of a NUMA node that no accelerator has.
type RailGroup struct {
	Accelerators []*pci.Device
	Rails        []int
	Node         *pci.Node // nil is unknown, or several; the worker is not bound then
}

// Placed makes rails of the NICs that an opener has, by their names in a topology:
// that of an RDMA device, the one of [pci.Topology.Name] or the address. The pairing
// gives each accelerator its NICs, and each accelerator gets a worker for these. A
// worker is bound to the CPUs of its NUMA node, and opens its rails there, so that
// their queues are in the node's memory; one whose node is unknown is not bound. A
// process that may not run on a node's CPUs (a container's) has engine.New fail:
// clear Workers then.
func Placed(t *pci.Topology, o transfer.Opener, want transfer.Want, pair pci.PairOptions) (*Placement, error) {
	pairing, err := t.Pair(pair)
	if err != nil {
		return nil, err
	}
	nics, ok := o.(transfer.NICs)
	if !ok {
		nics = transfer.NICs{o}
	}
	p := &Placement{Rails: Specs(o, want, 1), t: t, pairing: pairing}
	if len(p.Rails) > MaxRails {
		return nil, &OptionError{Option: "rails", Err: fmt.Errorf("%d of them; there are 1 to %d", len(p.Rails), MaxRails)}
	}
	byName := make(map[string]*pci.Device)
	for _, d := range t.Devices {
		byName[d.Address.String()] = d
		byName[t.Name(d)] = d
		for _, r := range d.RDMA {
			byName[r.Name] = d
		}
	}
	for _, nic := range nics {
		p.nics = append(p.nics, byName[transfer.DeviceName(nic)])
	}
	p.group()
	for w, g := range p.Groups {
		spec := WorkerSpec{}
		if g.Node != nil {
			spec.CPUs = g.Node.CPUs
		}
		p.Workers = append(p.Workers, spec)
		for _, i := range g.Rails {
			p.Rails[i].Worker = w
		}
	}
	return p, nil
}

// group puts the rails of accelerators together that share any, then what is left
// by NUMA node.
func (p *Placement) group() {
	of := make([]int, len(p.nics)) // the rail's group
	for i := range of {
		of[i] = -1
	}
	var groups []RailGroup
	for _, pair := range p.pairing.Pairs {
		at := -1
		for _, i := range p.railsOf(pair.Rails) {
			if at < 0 && of[i] < 0 {
				groups = append(groups, RailGroup{})
				at = len(groups) - 1
			}
			switch was := of[i]; {
			case was < 0:
			case at < 0:
				at = was
			case was != at: // the accelerator joins two
				groups[at].Accelerators = append(groups[at].Accelerators, groups[was].Accelerators...)
				groups[was].Accelerators = nil
				for k := range of {
					if of[k] == was {
						of[k] = at
					}
				}
			}
			of[i] = at
		}
		if at >= 0 {
			groups[at].Accelerators = append(groups[at].Accelerators, pair.Accelerator)
		}
	}
	byNode := make(map[*pci.Node]int)
	for i, d := range p.nics {
		if of[i] >= 0 {
			continue
		}
		var node *pci.Node
		if d != nil {
			node = d.Node
		}
		at, ok := byNode[node]
		if !ok {
			groups = append(groups, RailGroup{})
			at = len(groups) - 1
			byNode[node] = at
		}
		of[i] = at
	}
	for i, at := range of {
		groups[at].Rails = append(groups[at].Rails, i)
	}
	for _, g := range groups {
		if len(g.Rails) > 0 {
			g.Node = p.node(g)
			p.Groups = append(p.Groups, g)
		}
	}
}

// node is the node that all devices of a group have, if it has CPUs.
func (p *Placement) node(g RailGroup) *pci.Node {
	devices := slices.Clone(g.Accelerators)
	for _, i := range g.Rails {
		devices = append(devices, p.nics[i])
	}
	var node *pci.Node
	for _, d := range devices {
		if d == nil || d.Node == nil || len(d.Node.CPUs) == 0 || node != nil && node != d.Node {
			return nil
		}
		node = d.Node
	}
	return node
}

// railsOf are the rails of some NICs, in order.
func (p *Placement) railsOf(nics []*pci.Device) (rails []int) {
	for i, d := range p.nics {
		if d != nil && slices.Contains(nics, d) {
			rails = append(rails, i)
		}
	}
	return rails
}

// Near is for Options.Near: the rails that the pairing gives an accelerator, or, if
// none of these is there, the nearest that are; of host memory those of its node.
// What is not known to be near to any is near to all.
func (p *Placement) Near(at Place) []int {
	if d := p.device(at); d != nil {
		for _, pair := range p.pairing.Pairs {
			if pair.Accelerator == d {
				if rails := p.railsOf(pair.Rails); rails != nil {
					return rails
				}
			}
		}
		return p.nearest(d)
	}
	var rails []int
	for i, d := range p.nics {
		if at.Node != 0 && d != nil && d.Node != nil && NUMANode(d.Node.Number) == at.Node {
			rails = append(rails, i)
		}
	}
	return rails
}

// nearest are the rails of the least distance that is known.
func (p *Placement) nearest(d *pci.Device) (rails []int) {
	least := pci.ClassUnknown
	for i, nic := range p.nics {
		if nic == nil {
			continue
		}
		switch c := p.t.Distance(d, nic).Class; {
		case c == pci.ClassUnknown:
		case least == pci.ClassUnknown || c < least:
			least, rails = c, []int{i}
		case c == least:
			rails = append(rails, i)
		}
	}
	return rails
}

// device is the one that a place names, nil if it is none of the topology's. An
// exporter that does not tell has none.
func (p *Placement) device(at Place) *pci.Device {
	find := func(address string) *pci.Device {
		a, err := pci.ParseAddress(address)
		if err != nil {
			return nil
		}
		return p.t.Device(a)
	}
	if at.Device != "" || at.Exporter == "" {
		return find(at.Device)
	}
	if d, ok := p.found.Load(at.Exporter); ok {
		return d.(*pci.Device)
	}
	address, err := dmabuf.PCIAddress(at.Exporter)
	d := find(address)
	if err == nil {
		p.found.Store(at.Exporter, d)
	}
	return d
}

// NewBuffer maps host memory on the NUMA node of a place: that of a device, or of
// the node itself; anywhere if it is unknown. It is registered best by RegisterAt
// with the same place.
func (p *Placement) NewBuffer(length int, at Place, o verbs.BufferOptions) (*verbs.Buffer, error) {
	if d := p.device(at); d != nil && d.Node != nil {
		at.Node = NUMANode(d.Node.Number)
	}
	o.Node = int(at.Node)
	return verbs.NewBuffer(length, o)
}
