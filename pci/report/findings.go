package report

import (
	"io"

	"github.com/peerdirect/peerdirect/pci"
)

// mostDevices bounds how many devices of a finding are named, without Options.All.
const mostDevices = 16

// Findings prints what is found of a machine with the rails of Options.Pairing, a
// paragraph each; without them Topology.Pair gives them. Its errors are w's.
func Findings(w io.Writer, t *pci.Topology, o Options) error {
	if t == nil {
		return errNoTopology
	}
	p := newPage(t, o.Width)
	found := t.FindingsOf(o.Pairing)
	if len(found) == 0 {
		p.line("Nothing found that costs bandwidth or misleads.")
	}
	most := mostDevices
	if o.All {
		most = 0
	}
	for _, f := range found {
		p.section(f.Severity.String() + ": " + f.Code)
		p.paragraph("  ", safe(f.What))
		devices := "the machine"
		if len(f.Devices) > 0 {
			devices = p.list(f.Devices, most)
		}
		for _, part := range [][2]string{{"devices", devices}, {"cost", f.Cost}, {"remedy", f.Remedy}} {
			if part[1] != "" {
				p.paragraph("  "+pad(part[0], 9), safe(part[1]))
			}
		}
	}
	return p.flush(w)
}
