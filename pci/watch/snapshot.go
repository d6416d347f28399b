package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// snapshot is what Watch compares: for each device the fields in words. A nil
// word is unknown.
type snapshot struct {
	order   []pci.Address
	devices map[pci.Address]device
	bad     string // why overrides cannot be followed now: a device of them may have gone
}

type device struct {
	name, kind string
	fields     []field
}

type field struct {
	name  string
	value *string
}

func newSnapshot(t *pci.Topology, o pci.PairOptions) *snapshot {
	s := &snapshot{devices: map[pci.Address]device{}}
	rails := map[*pci.Device][]string{}
	for _, d := range t.Of(pci.Accelerator) {
		rails[d] = []string{}
	}
	p, err := t.Pair(o)
	if err != nil {
		s.bad = err.Error()
	} else {
		for _, pair := range p.Pairs {
			for _, r := range pair.Rails {
				rails[pair.Accelerator] = append(rails[pair.Accelerator], r.Address.String())
			}
		}
	}
	findings := map[*pci.Device][]string{}
	for _, f := range t.FindingsOf(p) {
		for _, d := range f.Devices {
			findings[d] = append(findings[d], f.Code)
		}
	}
	for _, d := range t.Devices {
		one := device{name: t.Name(d), kind: d.Kind.String()}
		add := func(name string, value *string) { one.fields = append(one.fields, field{name, value}) }
		add("parent", parent(d))
		add("driver", new(words(strings.Fields(d.Driver))))
		add("node", node(d))
		add("link", link(d.Link.Speed, d.Link.Width))
		add("max link", link(d.Link.MaxSpeed, d.Link.MaxWidth))
		add("bars", new(bars(d)))
		add("acs", acs(d))
		add("iommu group type", known(d.GroupType))
		add("net", new(words(d.Net)))
		add("nvme", new(words(d.NVMe)))
		add("dev", new(words(d.Dev)))
		add("rdma", new(rdma(d)))
		if r, ok := rails[d]; ok && s.bad == "" {
			add("rails", new(words(r)))
		} else if ok {
			add("rails", nil)
		}
		add("findings", new(words(findings[d])))
		s.order = append(s.order, d.Address)
		s.devices[d.Address] = one
	}
	return s
}

func (s *snapshot) record(event string, a pci.Address) Record {
	r := record("compare", event)
	d := s.devices[a]
	r.Address, r.Name, r.Kind = new(a.String()), &d.name, &d.kind
	return r
}

func (s *snapshot) present() (records []Record) {
	for _, a := range s.order {
		records = append(records, s.record(Present, a))
	}
	return records
}

// compare tells what is gone, what has come, and then what is different.
func (s *snapshot) compare(now *snapshot) (records []Record) {
	if now.bad != "" && now.bad != s.bad {
		r := record("compare", Problem)
		r.Detail = new(now.bad + "; rails are unknown until it comes back")
		records = append(records, r)
	}
	for _, a := range s.order {
		if _, ok := now.devices[a]; !ok {
			records = append(records, s.record(Removed, a))
		}
	}
	for _, a := range now.order {
		if _, ok := s.devices[a]; !ok {
			records = append(records, now.record(Added, a))
		}
	}
	for _, a := range now.order {
		old, ok := s.devices[a]
		if !ok {
			continue
		}
		d := now.devices[a]
		if old.kind != d.kind {
			r := now.record(Changed, a)
			r.Field, r.From, r.To = new("kind"), new(old.kind), new(d.kind)
			records = append(records, r)
		}
		for _, f := range union(old.fields, d.fields) {
			from, to := value(old.fields, f), value(d.fields, f)
			if (from == nil) == (to == nil) && (from == nil || *from == *to) {
				continue
			}
			r := now.record(Changed, a)
			r.Field, r.From, r.To = new(f), from, to
			records = append(records, r)
		}
	}
	return records
}

func union(a, b []field) (names []string) {
	for _, f := range append(slices.Clone(a), b...) {
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

func value(fields []field, name string) *string {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// words joins names; nothing is "none".
func words(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func parent(d *pci.Device) *string {
	switch {
	case d.Parent != nil:
		return new(d.Parent.Address.String())
	case d.Root != nil:
		return new(d.Root.Name)
	}
	return nil
}

func node(d *pci.Device) *string {
	if d.Node == nil {
		return nil
	}
	return new(fmt.Sprint(d.Node.Number))
}

func link(speed float64, width int) *string {
	if speed == 0 && width == 0 {
		return nil
	}
	return new(fmt.Sprintf("%gGT/s x%d", speed, width))
}

func bars(d *pci.Device) string {
	var list []string
	for _, b := range d.BARs {
		list = append(list, fmt.Sprintf("%d:%d", b.Index, b.Size))
	}
	return words(list)
}

func acs(d *pci.Device) *string {
	switch {
	case d.ACS != nil:
		return new(fmt.Sprintf("%#04x", d.ACS.Control))
	case d.ACSKnown:
		return new("none")
	}
	return nil
}

func rdma(d *pci.Device) string {
	var list []string
	for _, r := range d.RDMA {
		list = append(list, r.Name)
		for _, p := range r.Ports {
			list = append(list, fmt.Sprintf("%d:%s", p.Number, p.State))
		}
	}
	return words(list)
}
