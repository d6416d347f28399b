package hwlocxml

import (
	"fmt"
	"slices"

	"github.com/peerdirect/peerdirect/pci"
)

// placeDevices gives every function its place. hwloc makes a host bridge for each
// bus that it knows no bridge to. Where the file does not tell which buses a bridge
// leads to, those are none: such functions, as those of files without bridges, get a
// root complex of their own without a node, so that every distance from them is
// unknown.
func (r *reader) placeDevices() {
	blind := map[uint32]*device{} // by domain the one on the lowest bus
	for _, d := range r.devices {
		if first := blind[d.Address.Domain]; d.blind && (first == nil || d.Address.Bus < first.Address.Bus) {
			blind[d.Address.Domain] = d
		}
	}
	type slot struct {
		domain      uint32
		bus, device uint8
	}
	alone := map[slot]*pci.Root{}
	placed := map[*pci.Root]bool{}
	hidden := map[*device]int{} // functions by the bridge that may be above
	for _, d := range r.devices {
		if d.up != nil {
			d.Parent, d.Root, d.Node, d.CPUs, d.area = d.up.Device, d.up.Root, d.up.Node, d.up.CPUs, d.up.area
			continue
		}
		if d.area != nil {
			d.CPUs = d.area.cpus
		}
		above := blind[d.Address.Domain]
		if above != nil && above.Address.Bus >= d.Address.Bus {
			above = nil // a bridge leads to higher buses
		}
		if d.host != nil && above == nil {
			d.Root, d.Node = d.host, r.nodeOf(d.area)
			d.Root.Node = d.Node
		} else {
			hidden[above]++
			s := slot{d.Address.Domain, d.Address.Bus, d.Address.Device}
			if alone[s] == nil {
				alone[s] = newRoot(s.domain, s.bus)
			}
			d.Root = alone[s]
		}
		if !placed[d.Root] {
			placed[d.Root] = true
			r.t.Roots = append(r.t.Roots, d.Root)
		}
	}
	r.checkBuses()
	for _, d := range r.devices {
		r.t.Devices = append(r.t.Devices, d.Device)
		slices.SortFunc(d.RDMA, func(a, b pci.RDMA) int { return byNumber(a.Name, b.Name) })
		slices.SortFunc(d.Net, byNumber)
		slices.SortFunc(d.NVMe, byNumber)
		slices.SortFunc(d.Dev, byNumber)
		d.NVMe, d.Dev = slices.Compact(d.NVMe), slices.Compact(d.Dev)
		if n := hidden[d]; n > 0 {
			r.fail(d.line, d.Address.String(), fmt.Errorf("a bridge, and the file does not tell to which buses: the places of %d "+
				"functions on higher ones are unknown; export it where hwloc can read config space", n))
		}
	}
	if n := hidden[nil]; n > 0 {
		r.fail(0, "", fmt.Errorf("it leaves bridges out: the places of %d functions are unknown; export it without --no-bridges", n))
	}
}

// checkBuses looks for bridges that are left out: what is directly below a bridge is
// on the first of its buses; on others are only virtual functions, beside their
// physical one.
func (r *reader) checkBuses() {
	first := map[*object]bool{} // something is on it
	for _, d := range r.devices {
		if d.over != nil && d.over.below != nil && d.Address.Bus == d.over.below.first {
			first[d.over] = true
		}
	}
	for _, d := range r.devices {
		o, bus := d.over, d.Address.Bus
		if o == nil || o.below == nil || first[o] || bus < o.below.first || bus > o.below.last {
			continue
		}
		first[o] = true // told
		r.fail(d.line, d.Address.String(), fmt.Errorf("the bridge above it leads to the buses %s, and one from the first of "+
			"them to its own is left out: it may be farther from others than it seems", o.below))
	}
}
