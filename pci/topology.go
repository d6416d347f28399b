package pci

import (
	"cmp"
	"slices"
)

// Device finds a function; nil if there is none.
func (t *Topology) Device(a Address) *Device {
	i, ok := slices.BinarySearchFunc(t.Devices, a, func(d *Device, a Address) int { return d.Address.Compare(a) })
	if !ok {
		return nil
	}
	return t.Devices[i]
}

// Of gives the functions of a kind, in order of address.
func (t *Topology) Of(kind Kind) (found []*Device) {
	for _, d := range t.Devices {
		if d.Kind == kind {
			found = append(found, d)
		}
	}
	return found
}

// Assemble joins what a reader has found into a Topology: each device's Root and
// Parent are set, and its PF; everything that follows from these is made here: the
// order, Children, VFs, Cards, Switches, and the Kind where it is Other.
func Assemble(t *Topology) {
	slices.SortStableFunc(t.Devices, func(a, b *Device) int { return a.Address.Compare(b.Address) })
	slices.SortStableFunc(t.Roots, func(a, b *Root) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Path, b.Path))
	})
	slices.SortStableFunc(t.Nodes, func(a, b *Node) int { return cmp.Compare(a.Number, b.Number) })
	t.Switches, t.Cards = nil, nil
	for _, r := range t.Roots {
		r.Children = nil
	}
	for _, d := range t.Devices {
		d.Children, d.VFs, d.Switch, d.Card = nil, nil, nil, nil
	}
	breakCircles(t)
	for _, d := range t.Devices {
		switch {
		case d.Parent != nil:
			d.Parent.Children = append(d.Parent.Children, d)
		case d.Root != nil:
			d.Root.Children = append(d.Root.Children, d)
		}
		if d.PF == d {
			d.PF = nil
		}
		if d.PF != nil {
			d.PF.VFs = append(d.PF.VFs, d)
		}
	}
	for _, d := range t.Devices {
		if d.Kind == Other {
			d.Kind = kindOf(d)
		}
	}
	for _, r := range t.Roots {
		for _, d := range r.Children {
			joinSwitches(t, d)
		}
	}
	slices.SortFunc(t.Switches, func(a, b *Switch) int { return a.Upstream.Address.Compare(b.Upstream.Address) })
	joinCards(t)
}

// breakCircles lets no device be its own ancestor: whoever reads the tree goes up
// and down in it without looking.
func breakCircles(t *Topology) {
	const visiting, done = 1, 2
	state := make(map[*Device]int8, len(t.Devices))
	var way []*Device
	for _, d := range t.Devices {
		way = way[:0]
		for at := d; at != nil && state[at] != done; at = at.Parent {
			state[at] = visiting
			way = append(way, at)
			if at.Parent != nil && state[at.Parent] == visiting {
				at.Parent = nil
			}
		}
		for _, at := range way {
			state[at] = done
		}
	}
}

// joinSwitches finds the switches at and below a device that is on a root bus.
// Where config space was not readable a switch is known by its shape: below a root
// port its ports come in pairs of levels, upstream and downstream.
func joinSwitches(t *Topology, top *Device) {
	type step struct {
		d     *Device
		depth int // below the root bus
	}
	for todo := []step{{top, 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s := switchAt(at.d, at.depth); s != nil {
			s.Upstream.Switch = s
			for _, d := range s.Downstream {
				d.Switch = s
			}
			t.Switches = append(t.Switches, s)
		}
		for _, c := range at.d.Children {
			todo = append(todo, step{c, at.depth + 1})
		}
	}
}

func switchAt(d *Device, depth int) *Switch {
	if d.Kind != Bridge || d.Switch != nil || d.Port != UpstreamPort && d.Port != PortUnknown {
		return nil
	}
	s := &Switch{Upstream: d}
	told := d.Port == UpstreamPort
	for _, c := range d.Children {
		if c.Kind == Bridge && (c.Port == DownstreamPort || c.Port == PortUnknown) {
			s.Downstream = append(s.Downstream, c)
			told = told || c.Port == DownstreamPort
		}
	}
	if !told && (depth%2 == 0 || len(s.Downstream) == 0) {
		return nil
	}
	return s
}

// joinCards makes one card of the functions of one slot. Bridges are ports, each
// for itself, and virtual functions belong to their physical one.
func joinCards(t *Topology) {
	for from := 0; from < len(t.Devices); {
		a := t.Devices[from].Address
		to := from
		var card Card
		matters := false // a chipset's functions are no card
		for ; to < len(t.Devices); to++ {
			d := t.Devices[to]
			if b := d.Address; b.Domain != a.Domain || b.Bus != a.Bus || b.Device != a.Device ||
				d.Root != t.Devices[from].Root {
				break
			}
			if d.Kind != Bridge && d.PF == nil {
				card.Functions = append(card.Functions, d)
				matters = matters || d.Kind != Other
			}
		}
		from = to
		if len(card.Functions) < 2 || !matters {
			continue
		}
		for _, d := range card.Functions {
			d.Card = &card
		}
		t.Cards = append(t.Cards, &card)
	}
}
