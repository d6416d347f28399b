package draw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// draw lays the whole picture out.
func (pl *plan) draw(s *scene, title string) {
	inner := Width - 2*margin
	y := pl.heading(s, title, margin)
	for i, b := range pl.bands {
		if i > 0 {
			y = pl.joint(s, pl.bands[i-1], b, y)
		}
		y = pl.band(s, b, margin, y, inner)
	}
	if len(pl.bands) == 0 {
		s.box(box{x: margin, y: y, w: inner, h: 44, round: 6, class: "frame-node", lines: []line{
			{x: margin + 12, y: y + 27, size: normal, text: "No PCI device is known."}}})
		y += 44
	}
	s.height = pl.legend(s, y+gap) + margin
}

// heading is the picture's title and what the machine has.
func (pl *plan) heading(s *scene, title string, y float64) float64 {
	inner := Width - 2*margin
	var parts []string
	count := func(kinds []pci.Kind, one, many string) {
		n := 0
		for _, k := range kinds {
			for _, d := range pl.t.Of(k) {
				if d.PF == nil {
					n++
				}
			}
		}
		if n == 1 {
			parts = append(parts, "1 "+one)
		} else if n > 1 {
			parts = append(parts, strconv.Itoa(n)+" "+many)
		}
	}
	count([]pci.Kind{pci.Accelerator}, "accelerator", "accelerators")
	count([]pci.Kind{pci.RDMANIC}, "RDMA NIC", "RDMA NICs")
	count([]pci.Kind{pci.OtherNIC}, "other NIC", "other NICs")
	count([]pci.Kind{pci.NVMe}, "NVMe", "NVMe")
	count([]pci.Kind{pci.NVSwitch}, "NVSwitch", "NVSwitches")
	if n := len(pl.t.Switches); n == 1 {
		parts = append(parts, "1 PCIe switch")
	} else if n > 1 {
		parts = append(parts, strconv.Itoa(n)+" PCIe switches")
	}
	if len(parts) == 0 {
		parts = []string{strconv.Itoa(len(pl.t.Devices)) + " PCI functions"}
	}
	s.box(box{x: margin, y: y, w: inner, h: 46, class: "plain", tip: clean(title) + ", PCI Express topology", lines: []line{
		{x: margin, y: y + 18, size: 20, bold: true, text: shorten(title, inner, 20, true)},
		{x: margin, y: y + 38, size: 13, class: "q", text: clip(strings.Join(parts, " · "), inner, 13, false)},
	}})
	return y + 46 + 6
}

// joint is what lies between two nodes below each other.
func (pl *plan) joint(s *scene, a, b *band, y float64) float64 {
	i := len(pl.t.Nodes)
	for k, n := range pl.t.Nodes {
		if n == b.node {
			i = k
		}
	}
	if a.node == nil || b.node == nil || len(pl.t.Nodes) != 2 {
		return y + gap
	}
	text := "between the nodes"
	if i < len(a.node.Distances) {
		text += ", distance " + strconv.Itoa(a.node.Distances[i])
	}
	const height = 24
	middle := Width / 2.0
	for _, dx := range []float64{-4, 4} {
		s.wire(middle+dx, y, middle+dx, y+height, "joint")
	}
	s.box(box{x: middle + 14, y: y + 4, w: 300, h: 16, class: "plain", lines: []line{
		{x: middle + 14, y: y + 16, size: small, class: "q", text: text}}})
	return y + height
}

// band draws a NUMA node.
func (pl *plan) band(s *scene, b *band, x, y, w float64) float64 {
	frame := len(s.boxes)
	s.box(box{})
	class, name, about := "frame-node", "", ""
	if b.node == nil {
		class, name = "frame-unknown", "NUMA node unknown"
	} else {
		name, about = "NUMA node "+strconv.Itoa(b.node.Number), aboutNode(b.node)
	}
	lines := []line{
		{x: x + pad + 2, y: y + 19, size: 14, bold: true, text: name},
		{x: x + w - pad - 2, y: y + 19, size: small, right: true, class: "q", text: clip(about, w-textWidth(name, 14, true)-40, small, false)},
	}
	end := y + 28
	var big, little, quiet []*container
	for _, c := range b.roots {
		switch {
		case c.quiet():
			quiet = append(quiet, c)
		case c.big(pl):
			big = append(big, c)
		default:
			little = append(little, c)
		}
	}
	both := slices.DeleteFunc(slices.Clone(b.roots), (*container).quiet)
	if len(big) > 0 && pl.oneLine(both, w-2*pad) {
		big, little = both, nil
	}
	end = pl.roots(s, big, x+pad, end, w-2*pad, true)
	end = pl.roots(s, little, x+pad, end, w-2*pad, false)
	if text := pl.quietText(quiet); text != "" || len(b.roots) == 0 {
		if text == "" {
			text = "no PCI function"
		}
		lines = append(lines, line{x: x + pad + 2, y: end + 10, size: small, class: "q", text: clip(text, w-2*pad-4, small, false)})
		end += 18
	}
	s.boxes[frame] = box{x: x, y: y, w: w, h: end - y, round: 6, class: class, lines: lines}
	return end
}

func aboutNode(n *pci.Node) string {
	var parts []string
	if !n.Present {
		parts = append(parts, "named by devices only")
	}
	if n.CPUs != nil {
		if len(n.CPUs) == 0 {
			parts = append(parts, "no CPUs")
		} else {
			parts = append(parts, "CPUs "+n.CPUs.String())
		}
	}
	if n.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB", float64(n.Memory)/(1<<30)))
	}
	return strings.Join(parts, " · ")
}

// quietText tells of root complexes that are not drawn.
func (pl *plan) quietText(quiet []*container) string {
	if len(quiet) == 0 {
		return ""
	}
	functions := 0
	var names []string
	for _, c := range quiet {
		functions += c.count()
		if c.root != nil {
			names = append(names, c.root.Name)
		}
	}
	return fmt.Sprintf("also %d other functions at %s", functions, strings.Join(names, ", "))
}

// roots draws root complexes in rows of like length; stretched, they fill the rows.
func (pl *plan) roots(s *scene, roots []*container, x, y, w float64, stretch bool) float64 {
	if len(roots) == 0 {
		return y
	}
	widths := make([]float64, len(roots))
	rows, used := 1, 0.0
	for i, c := range roots {
		widths[i] = pl.frameWidth(c, w)
		if used > 0 && used+gap+widths[i] > w {
			rows, used = rows+1, 0
		} else if used > 0 {
			used += gap
		}
		used += widths[i]
	}
	perRow := (len(roots) + rows - 1) / rows
	for i := 0; i < len(roots); {
		// As many as an even row has, if they fit.
		n, sum := 1, widths[i]
		for n < perRow && i+n < len(roots) && sum+gap+widths[i+n] <= w {
			sum += gap + widths[i+n]
			n++
		}
		if stretch {
			share(widths[i:i+n], w-gap*float64(n-1), sum-gap*float64(n-1))
		}
		left, end := x, y
		frames := len(s.boxes)
		for k := i; k < i+n; k++ {
			s.box(box{})
		}
		for k := i; k < i+n; k++ {
			width := widths[k]
			pl.bar(s, roots[k], left+pad, y+pad, width-2*pad)
			bottom := pl.place(s, roots[k], left+pad, y+pad+barH, width-2*pad) + pad
			s.boxes[frames+k-i] = box{x: left, y: y, w: width, round: 5, class: "frame-root"}
			end = max(end, bottom)
			left += width + gap
		}
		for k := range n {
			s.boxes[frames+k].h = end - y
		}
		y = end + pad
		i += n
	}
	return y
}

// frameWidth is the width at which a root complex looks best.
func (pl *plan) frameWidth(c *container, w float64) float64 {
	width := pl.desired(c)
	if !c.big(pl) {
		width = max(width, pl.oneRow(c))
	}
	return min(w, width+2*pad)
}

// oneLine: the root complexes fit side by side.
func (pl *plan) oneLine(roots []*container, w float64) bool {
	used := -gap
	for _, c := range roots {
		used += pl.frameWidth(c, w) + gap
	}
	return used <= w
}

// oneRow is the width at which all groups of a container are side by side.
func (pl *plan) oneRow(c *container) float64 {
	width := indent - gap
	for _, g := range c.groups {
		width += max(pl.space(g), min(pl.captionWidth(g), 220)) + gap
	}
	return width
}

// share stretches widths to fill a row, but none beyond reason: all the same if that
// is enough for each.
func share(widths []float64, w, sum float64) {
	each := w / float64(len(widths))
	even := slices.Max(widths) <= each
	for i, width := range widths {
		if even {
			widths[i] = max(width, min(each, widest))
		} else {
			widths[i] = max(width, min(width+(w-sum)/float64(len(widths)), widest))
		}
	}
}
