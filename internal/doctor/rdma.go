package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/pci"
)

// rdmaFacts are what several checks read, gathered once for a System.
type rdmaFacts struct {
	lock     sync.Mutex
	gathered bool
	all      inventory.Inventory
	err      error
	pairing  *pci.Pairing
}

// inventory is what there is of RDMA devices, whichever are asked about. As with
// inventory.Collect there may be some beside an error.
func (s *System) inventory(ctx context.Context) (*inventory.Inventory, error) {
	s.rdma.lock.Lock()
	defer s.rdma.lock.Unlock()
	if !s.rdma.gathered {
		o := inventory.Options{Brief: true}
		if !s.Live {
			o.Root = s.Root
		}
		s.rdma.all, s.rdma.err = inventory.Collect(ctx, o)
		s.rdma.gathered = ctx.Err() == nil
	}
	return &s.rdma.all, s.rdma.err
}

// rdmaDevices are the RDMA devices that are asked about.
func (s *System) rdmaDevices(ctx context.Context) (asked []*inventory.Device) {
	inv, _ := s.inventory(ctx)
	for i := range inv.Devices {
		if d := &inv.Devices[i]; s.asks(d.Name) {
			asked = append(asked, d)
		}
	}
	return asked
}

// asks tells whether a device is asked about.
func (s *System) asks(name string) bool {
	return len(s.Devices) == 0 || slices.Contains(s.Devices, name)
}

// rails is the pairing of the machine by distance; nil without a topology.
func (s *System) rails() *pci.Pairing {
	t, _ := s.Topology()
	if t == nil {
		return nil
	}
	s.rdma.lock.Lock()
	defer s.rdma.lock.Unlock()
	if s.rdma.pairing == nil {
		s.rdma.pairing, _ = t.Pair(pci.PairOptions{}) // fails by overrides alone
	}
	return s.rdma.pairing
}

// function finds the PCI function of an RDMA device; nil is none, or unknown.
func (s *System) function(name string) *pci.Device {
	t, _ := s.Topology()
	if t == nil {
		return nil
	}
	for _, d := range t.Devices {
		if slices.ContainsFunc(d.RDMA, func(r pci.RDMA) bool { return r.Name == name }) {
			return d
		}
	}
	return nil
}

// wouldServe gives an accelerator that has rails of a NIC's kind that are no nearer
// than it: rails are chosen among what is up and fast. nil is none.
func (s *System) wouldServe(nic *pci.Device) *pci.Device {
	t, _ := s.Topology()
	for _, p := range s.rails().Pairs {
		c := t.Distance(p.Accelerator, nic).Class
		if c != pci.ClassUnknown && c <= p.Class &&
			slices.ContainsFunc(p.Rails, func(r *pci.Device) bool { return r.Vendor == nic.Vendor && r.Product == nic.Product }) {
			return p.Accelerator
		}
	}
	return nil
}

// matters is Warn for a device that is, or could be, an accelerator's rail, and for
// any where there is no accelerator; Note for others: a NIC for management may be
// slow, and one whose virtual functions are used need have no address.
func (s *System) matters(d *inventory.Device) Verdict {
	_, all := s.accelerators()
	own := s.function(d.Name)
	switch {
	case own != nil && len(own.VFs) > 0:
		return Note
	case len(all) == 0, own != nil && (s.isRail(d.Name) || s.wouldServe(own) != nil):
		return Warn
	}
	return Note
}

// kind is what an RDMA device's port speaks, as far as it changes what to look for.
type kind uint8

const (
	kindUnknown kind = iota
	kindInfiniBand
	kindRoCE
	kindIWARP
	kindEFA
)

func kindOf(d *inventory.Device, p *inventory.Port) kind {
	layer := value(p.LinkLayer)
	switch {
	case value(d.Driver) == "efa":
		return kindEFA
	case value(d.NodeType) == "rnic", value(d.Protocol) == "iw":
		return kindIWARP
	case layer == "InfiniBand":
		return kindInfiniBand
	case layer == "Ethernet":
		return kindRoCE
	}
	return kindUnknown
}

// software tells a device without hardware: rxe, siw.
func software(d *inventory.Device) bool { return value(d.Software) }

// value is what a pointer points to, zero for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// portName names a port as the rdma tool does, where its device has several.
func portName(d *inventory.Device, p *inventory.Port) string {
	if len(d.Ports) < 2 {
		return d.Name
	}
	return fmt.Sprintf("%s/%d", d.Name, p.Number)
}

// classFolder is where a device's files are.
func classFolder(name string) string { return "sys/class/infiniband/" + name }

// eachPort has look say what it finds of each port that is asked about. A capture
// without a device's ports is told once.
func (s *System) eachPort(ctx context.Context, look func(d *inventory.Device, p *inventory.Port) []Finding) (found []Finding) {
	for _, d := range s.rdmaDevices(ctx) {
		if len(d.Ports) == 0 {
			found = append(found, s.missing(d.Name, classFolder(d.Name)+"/ports", fs.ErrNotExist))
		}
		for i := range d.Ports {
			found = append(found, look(d, &d.Ports[i])...)
		}
	}
	return alike(found)
}

// alike joins findings that differ in their subjects and commands alone, but those
// of what is in order: 32 NICs with one fault are one paragraph. One with counters
// stays alone: a watch follows it by its subject, and they rise apart.
func alike(found []Finding) (joined []Finding) {
	type same struct {
		verdict         Verdict
		cause           Cause
		summary, remedy string
	}
	at, subjects := map[same]int{}, map[int][]string{}
	for _, f := range found {
		k := same{f.Verdict, f.Cause, f.Summary, f.Remedy}
		if f.missing {
			k.summary = "" // the files differ by their device
		}
		i, ok := at[k]
		if !ok || f.Verdict == OK || len(f.Counters) > 0 {
			if len(f.Counters) == 0 {
				at[k] = len(joined)
			}
			subjects[len(joined)] = []string{f.Subject}
			joined = append(joined, f)
			continue
		}
		j := &joined[i]
		if !slices.Contains(subjects[i], f.Subject) {
			subjects[i] = append(subjects[i], f.Subject)
		}
		j.Evidence = union(j.Evidence, f.Evidence)
		j.Commands = union(j.Commands, f.Commands)
	}
	for i := range joined {
		j := &joined[i]
		j.Subject = several(subjects[i])
		if more := len(j.Evidence) - mostEvidence; len(subjects[i]) > 1 && more > 1 {
			j.Evidence = append(j.Evidence[:mostEvidence:mostEvidence], fmt.Sprintf("and %d more like these", more))
		}
	}
	return joined
}

// mostEvidence bounds what is told of findings that are one.
const mostEvidence = 8

// several names many things; the evidence has what each is about.
func several(names []string) string {
	const most = 4
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(slices.Clip(a), x)
		}
	}
	return a
}

// count is "1 device", "2 devices".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
