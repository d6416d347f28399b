package ncclxml

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// Write writes a file for NCCL_TOPO_FILE: the accelerators, the NICs and the
// switches that they are in, each pair as far apart for NCCL as Topology.Distance
// finds them, where PHB stands for NODE too. A bridge whose link cannot be as slow
// as it says (FindingBridgeVirtual) has that of the fastest device below. NICs that
// are more than NCCL has room for are left to it to find, and a comment counts them.
// Its errors are those of w.
func Write(w io.Writer, t *pci.Topology) error {
	out := &writer{Writer: bufio.NewWriter(w), t: t, made: map[*pci.Device]bool{}}
	for _, f := range t.Findings() {
		if f.Code == pci.FindingBridgeVirtual {
			for _, d := range f.Devices {
				out.made[d] = true
			}
		}
	}
	cpus, left := plan(t)
	if left > 0 {
		fmt.Fprintf(out, "<!-- %d functions are left for NCCL to find, which takes %d elements. -->\n", left, maxElements)
	}
	fmt.Fprintln(out, `<system version="1">`)
	for _, number := range slices.Sorted(maps.Keys(cpus)) {
		out.cpu(number, cpus[number])
	}
	fmt.Fprintln(out, `</system>`)
	return out.Flush()
}

// writer is one writing of a file. It notes the first error and tells at the end.
type writer struct {
	*bufio.Writer
	t    *pci.Topology
	made map[*pci.Device]bool // bridges whose speed is made up
}

func (w *writer) cpu(number int, tops []*branch) {
	fmt.Fprintf(w, `  <cpu numaid="%d"`, number)
	for _, n := range w.t.Nodes {
		if n.Number == number {
			w.attribute("affinity", mask(n.CPUs))
		}
	}
	p := w.t.Platform
	switch p.Arch {
	case "x86_64", "amd64":
		w.attribute("arch", "x86_64")
		w.attribute("vendor", clean(p.CPU))
		if p.Family > 0 {
			fmt.Fprintf(w, ` familyid="%d" modelid="%d"`, p.Family, p.Model)
		}
	case "aarch64", "arm64":
		w.attribute("arch", "arm64")
	case "ppc64", "ppc64le":
		w.attribute("arch", "ppc64")
	}
	fmt.Fprintln(w, ">")
	for _, top := range tops {
		w.pci(top, number, 4)
	}
	fmt.Fprintln(w, "  </cpu>")
}

// attribute writes one that is known.
func (w *writer) attribute(name, value string) {
	if value != "" {
		fmt.Fprintf(w, ` %s="%s"`, name, value)
	}
}

func (w *writer) pci(b *branch, cpu, indent int) {
	d := b.d
	fmt.Fprintf(w, `%*s<pci busid="%s"`, indent, "", d.Address)
	class := d.Class
	if class == 0 && d.Kind == pci.Bridge {
		class = 0x060400
	}
	for _, id := range []struct {
		name   string
		value  uint32
		digits int
	}{{"class", class, 6}, {"vendor", uint32(d.Vendor), 4}, {"device", uint32(d.Product), 4},
		{"subsystem_vendor", uint32(d.SubVendor), 4}, {"subsystem_device", uint32(d.SubProduct), 4}} {
		if id.value != 0 {
			fmt.Fprintf(w, ` %s="0x%0*x"`, id.name, id.digits, id.value)
		}
	}
	speed, width := w.link(b)
	if speed > 0 {
		// As kernels from 5.7 on spell it: NCCL looks the text up.
		fmt.Fprintf(w, ` link_speed="%.1f GT/s PCIe"`, speed)
	}
	if width > 0 {
		fmt.Fprintf(w, ` link_width="%d"`, width)
	}
	if indent == 4 {
		w.root(d, cpu)
	}
	w.attribute("rdma", list(names(d)))
	w.attribute("net", list(d.Net))
	if told := asRead(b); told != d.Kind {
		w.attribute("kind", d.Kind.String())
	}
	if len(b.subs) == 0 {
		fmt.Fprintln(w, "/>")
		return
	}
	fmt.Fprintln(w, ">")
	for _, sub := range b.subs {
		w.pci(sub, cpu, indent+2)
	}
	fmt.Fprintf(w, "%*s</pci>\n", indent, "")
}

// root names the root complex for Read, unless it is that of the <cpu> itself.
func (w *writer) root(d *pci.Device, cpu int) {
	switch {
	case d.Root == nil:
		fmt.Fprint(w, ` root=""`)
	case d.Root.Name != fmt.Sprintf("cpu%d", cpu):
		w.attribute("root", clean(d.Root.Name))
	}
}

// asRead gives the kind that Read finds by what else is written.
func asRead(b *branch) pci.Kind {
	d := pci.Device{Class: b.d.Class, Vendor: b.d.Vendor, Product: b.d.Product}
	if list(names(b.d)) != "" {
		d.RDMA = b.d.RDMA
	}
	t := pci.Topology{Devices: []*pci.Device{&d}}
	if len(b.subs) > 0 {
		t.Devices = append(t.Devices, &pci.Device{Parent: &d})
	}
	pci.Assemble(&t)
	return d.Kind
}

// names are those of a function's RDMA devices.
func names(d *pci.Device) (names []string) {
	for _, r := range d.RDMA {
		names = append(names, r.Name)
	}
	return names
}

// list joins names, as many as NCCL's reader takes.
func list(names []string) string {
	var s strings.Builder
	for _, name := range names {
		if name = clean(name); name == "" || s.Len()+1+len(name) > maxValue {
			continue
		}
		if s.Len() > 0 {
			s.WriteByte(',')
		}
		s.WriteString(name)
	}
	return s.String()
}

// link is the most that the link above a branch can: what both its ends can, as NCCL
// would read it from /sys.
func (w *writer) link(b *branch) (speed float64, width int) {
	if w.made[b.d] {
		for _, sub := range b.subs {
			if s, n := w.link(sub); s*float64(n) > speed*float64(width) {
				speed, width = s, n
			}
		}
		return speed, width
	}
	speed, width = most(b.d.Link)
	// The link of a port above is this one, but for an upstream port's.
	if port := b.d.Parent; port != nil && port.Port != pci.UpstreamPort && !w.made[port] {
		s, n := most(port.Link)
		if s > 0 && (speed == 0 || s < speed) {
			speed = s
		}
		if n > 0 && (width == 0 || n < width) {
			width = n
		}
	}
	return speed, width
}

// most is what a link can at most, or does now where that is unknown.
func most(l pci.Link) (speed float64, width int) {
	speed, width = l.MaxSpeed, l.MaxWidth
	if speed == 0 {
		speed = l.Speed
	}
	if width == 0 {
		width = l.Width
	}
	return speed, width
}
