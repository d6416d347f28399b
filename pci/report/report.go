// Package report prints a machine's topology: as a JSON document, and as text for an
// engineer's terminal: the tree, the matrix of nvidia-smi topo -m, the pairs with
// their reasons, and what was found.
//
// The same topology always gives the same bytes. Names come from another side, as all
// of a capture does: in text what is not a visible character is escaped, and no line
// of the tree is wider than it may be. Names of makers and products are printed where
// names.Fill has filled them, and their numbers where not.
package report

import (
	"errors"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// Options are those of the text views; the zero value is a good one.
type Options struct {
	Pairing *pci.Pairing // rails that the tree shows, and findings look at; nil is none
	Width   int          // columns of a line; 0 is no bound
	All     bool         // nothing is left out: functions of no interest, virtual ones and ports in the tree, devices of findings
}

var errNoTopology = errors.New("report: no topology to print; read one with pci.Read")

// page gathers what is printed, and knows the names of one machine.
type page struct {
	t       *pci.Topology
	width   int
	domains bool // a domain other than 0: addresses are given whole
	names   map[*pci.Device]string
	out     []byte
}

func newPage(t *pci.Topology, width int) *page {
	p := &page{t: t, width: width, names: map[*pci.Device]string{}}
	for _, d := range t.Devices {
		p.domains = p.domains || d.Address.Domain != 0
	}
	return p
}

// line prints one, cut to the width.
func (p *page) line(s string) {
	s = strings.TrimRight(s, " ")
	if p.width > 0 {
		s = cut(s, p.width)
	}
	p.whole(s)
}

// whole prints a line as it is.
func (p *page) whole(s string) { p.out = append(append(p.out, s...), '\n') }

// flush writes what was gathered.
func (p *page) flush(w io.Writer) error {
	_, err := w.Write(p.out)
	p.out = p.out[:0]
	return err
}

// name is a device's short name; Topology.Name counts through all devices.
func (p *page) name(d *pci.Device) string {
	name, known := p.names[d]
	if !known {
		name = cut(safe(p.t.Name(d)), longestName)
		p.names[d] = name
	}
	return name
}

// list joins names, and says of how many it leaves out; most of 0 is all.
func (p *page) list(devices []*pci.Device, most int) string {
	var names []string
	for _, d := range devices {
		if most > 0 && len(names) == most && len(devices) > most {
			return strings.Join(names, ", ") + " and " + plural(len(devices)-most, "more", "more")
		}
		names = append(names, p.name(d))
	}
	return strings.Join(names, ", ")
}

// address leaves the domain out where all are 0, as lspci does.
func (p *page) address(a pci.Address) string {
	s := a.String()
	if !p.domains {
		_, s, _ = strings.Cut(s, ":")
	}
	return s
}
