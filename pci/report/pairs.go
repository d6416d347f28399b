package report

import (
	"errors"
	"io"
	"strconv"

	"github.com/peerdirect/peerdirect/pci"
)

var errNoPairing = errors.New("report: no pairing to print; Topology.Pair makes one")

// Pairs prints each accelerator with the class of its farthest rail and its rails, and
// below it the reason, which may be that of the ones above it too; then the NICs that
// are nobody's, what takes no part and why, and notes. Its errors are w's.
func Pairs(w io.Writer, t *pci.Topology, pairing *pci.Pairing, o Options) error {
	switch {
	case t == nil:
		return errNoTopology
	case pairing == nil:
		return errNoPairing
	}
	p := newPage(t, o.Width)
	p.pairs(pairing.Pairs)
	if len(pairing.Unpaired) > 0 {
		p.section("Nobody's rails")
		p.paragraph("  ", p.list(pairing.Unpaired, 0))
	}
	if len(pairing.Ignored) > 0 {
		p.section("Left out")
		p.ignored(pairing.Ignored)
	}
	if len(pairing.Notes) > 0 {
		p.section("Notes")
		for _, note := range pairing.Notes {
			p.paragraph("  ", safe(note))
		}
	}
	return p.flush(w)
}

func (p *page) pairs(pairs []pci.Pair) {
	if len(pairs) == 0 {
		p.line("No accelerator.")
		return
	}
	rows := [][3]string{{"ACCELERATOR", "CLASS", "RAILS"}}
	var first, second int
	for _, pair := range pairs {
		rails := p.list(pair.Rails, 0)
		if rails == "" {
			rails = "none"
		}
		rows = append(rows, [3]string{p.label(pair.Accelerator), classWord(pair.Class), rails})
	}
	for _, row := range rows {
		first, second = max(first, columns(row[0])), max(second, columns(row[1]))
	}
	for i, row := range rows {
		p.paragraph(pad(row[0], first)+"  "+pad(row[1], second)+"  ", row[2])
		if i > 0 && (i == len(pairs) || pairs[i].Reason != pairs[i-1].Reason) {
			p.paragraph("  ", safe(pairs[i-1].Reason))
		}
	}
}

// ignored groups devices by why they take no part.
func (p *page) ignored(all []pci.Ignored) {
	var whys []string
	devices := map[string][]*pci.Device{}
	for _, i := range all {
		if devices[i.Why] == nil {
			whys = append(whys, i.Why)
		}
		devices[i.Why] = append(devices[i.Why], i.Device)
	}
	for _, why := range whys {
		head := safe(why)
		if n := len(devices[why]); n > 1 {
			head += " (" + strconv.Itoa(n) + ")"
		}
		p.paragraph("  ", head+": "+p.list(devices[why], 0))
	}
}

// section begins a part, with an empty line if it is not the first.
func (p *page) section(title string) {
	if len(p.out) > 0 {
		p.line("")
	}
	p.line(title)
}

// label is a device's name and its address.
func (p *page) label(d *pci.Device) string {
	name, address := p.name(d), p.address(d.Address)
	if name == d.Address.String() {
		return address
	}
	return name + " " + address
}

func classWord(c pci.Class) string {
	if c == pci.ClassUnknown {
		return "?"
	}
	return c.String()
}
