package report

import (
	"io"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// Headings of the columns behind the classes.
const (
	cpuAffinity  = "CPU Affinity"
	numaAffinity = "NUMA Affinity"
	gpuNode      = "GPU NUMA ID"
)

// Matrix prints how far accelerators and RDMA NICs are apart in the form of
// nvidia-smi topo -m: GPUs, then NICs, in order of address. Between accelerators it
// is the way over PCI Express, as topo -mp has it: what NVLink joins is not read
// here. What is unknown is "?". A virtual function without an RDMA device of its own
// is left out. Its errors are w's.
func Matrix(w io.Writer, t *pci.Topology) error {
	if t == nil {
		return errNoTopology
	}
	m := &matrix{page: newPage(t, 0), cpuWidth: len(cpuAffinity)}
	for _, d := range t.Of(pci.Accelerator) {
		m.add(m.name(d), d)
		m.cpuWidth = max(m.cpuWidth, len(cpusBeside(d)))
	}
	m.gpus = len(m.devices)
	for _, d := range t.Of(pci.RDMANIC) {
		if d.PF == nil || len(d.RDMA) > 0 {
			m.add("NIC"+strconv.Itoa(len(m.devices)-m.gpus), d)
		}
	}
	if len(m.devices) == 0 {
		m.line("No accelerator and no RDMA NIC.")
		return m.flush(w)
	}
	m.classes = make([]pci.Class, len(m.devices)*len(m.devices))
	m.header()
	for i := range m.devices {
		m.row(i)
		// Of thousands of devices the matrix is too large to hold.
		if len(m.out) > 64<<10 {
			if err := m.flush(w); err != nil {
				return err
			}
		}
	}
	m.legend()
	return m.flush(w)
}

type matrix struct {
	*page
	devices  []*pci.Device
	heads    []string // of their columns and rows
	gpus     int      // the first of the devices
	first    int      // width of the first column
	cpuWidth int
	classes  []pci.Class // row for row, those that are known so far
}

func (m *matrix) add(head string, d *pci.Device) {
	m.devices, m.heads = append(m.devices, d), append(m.heads, head)
	m.first = max(m.first, len(head))
}

// cell fills a column up to the next stop of eight, as nvidia-smi's tabs do.
func (m *matrix) cell(s string, width int) {
	m.out = append(m.out, s...)
	for n := len(s); n < (width/8+1)*8; n++ {
		m.out = append(m.out, ' ')
	}
}

// end ends a line; the last column's blanks go.
func (m *matrix) end() {
	for m.out[len(m.out)-1] == ' ' {
		m.out = m.out[:len(m.out)-1]
	}
	m.out = append(m.out, '\n')
}

func (m *matrix) header() {
	m.cell("", m.first)
	for _, h := range m.heads {
		m.cell(h, len(h))
	}
	if m.gpus > 0 {
		m.cell(cpuAffinity, m.cpuWidth)
		m.cell(numaAffinity, len(numaAffinity))
		m.cell(gpuNode, len(gpuNode))
	}
	m.end()
}

func (m *matrix) row(i int) {
	a := m.devices[i]
	m.cell(m.heads[i], m.first)
	for j, b := range m.devices {
		class := &m.classes[i*len(m.devices)+j]
		switch {
		case i == j:
			m.cell(" X", len(m.heads[j]))
			continue
		case i > j: // as far as the other way
			*class = m.classes[j*len(m.devices)+i]
		default:
			*class = m.t.Distance(a, b).Class
		}
		m.cell(classWord(*class), len(m.heads[j]))
	}
	if i < m.gpus {
		node := "?"
		if n := nodeBeside(a); n != nil {
			node = strconv.Itoa(n.Number)
		}
		m.cell(cpusBeside(a), m.cpuWidth)
		m.cell(node, len(numaAffinity))
		m.cell("N/A", len(gpuNode))
	}
	m.end()
}

// nodeBeside is the NUMA node that a device is at: its own, or that of what is above.
// One without processors, and one that the kernel does not list, is no place.
func nodeBeside(d *pci.Device) *pci.Node {
	n := d.Node
	for up := d.Parent; n == nil && up != nil; up = up.Parent {
		n = up.Node
	}
	if n == nil && d.Root != nil {
		n = d.Root.Node
	}
	if n == nil || !n.Present || n.CPUs != nil && len(n.CPUs) == 0 {
		return nil
	}
	return n
}

// cpusBeside lists the processors near a device; "?" is unknown.
func cpusBeside(d *pci.Device) string {
	if len(d.CPUs) > 0 {
		return d.CPUs.String()
	}
	if n := nodeBeside(d); n != nil && len(n.CPUs) > 0 {
		return n.CPUs.String()
	}
	return "?"
}

// meanings explains the words, the farthest first.
var meanings = [...][2]string{
	{"X", "the device itself"},
	{"SYS", "over the link between NUMA nodes (UPI, Infinity Fabric)"},
	{"NODE", "over different root complexes of one NUMA node"},
	{"C2C", "as NODE, the last stretch over the chip-to-chip link between processor and accelerator"},
	{"PHB", "over the root complex, which is in the processor"},
	{"PXB", "over several PCI Express bridges, not over the root complex"},
	{"PIX", "over one PCI Express bridge or switch at most"},
	{"?", "unknown, since a NUMA node is"},
}

func (m *matrix) legend() {
	m.line("")
	m.line("Legend:")
	m.line("")
	for _, word := range meanings {
		m.line("  " + pad(word[0], 4) + " = " + word[1])
	}
	m.line("")
	m.line("  All of it is over PCI Express; which accelerators NVLink joins is not read.")
	if m.gpus == len(m.devices) {
		return
	}
	m.line("")
	m.line("NIC Legend:")
	m.line("")
	for i := m.gpus; i < len(m.devices); i++ {
		m.line("  " + m.heads[i] + ": " + m.ibv(m.devices[i]))
	}
}

// ibv is what libibverbs calls a NIC; one without an RDMA device is told by its
// address.
func (m *matrix) ibv(d *pci.Device) string {
	var names []string
	for _, r := range d.RDMA {
		names = append(names, cut(safe(r.Name), longestName))
	}
	if len(names) == 0 {
		return d.Address.String() + " (no RDMA device)"
	}
	return strings.Join(names, ", ")
}
