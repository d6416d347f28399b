package path

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// halfVerdict: the size at which a way carries half of its most.
func (r *Report) halfVerdict() string {
	d := r.directions()[0]
	var parts []string
	for _, w := range r.ways(d) {
		most := 0.0
		for _, size := range r.sizes() {
			if row := r.find(w, d, size); row != nil {
				most = max(most, row.Rate.Median)
			}
		}
		for i, size := range r.sizes() {
			if row := r.find(w, d, size); row != nil && row.Rate.Median >= most/2 {
				if i == 0 {
					break // it may be so at sizes that were not measured, too
				}
				parts = append(parts, fmt.Sprintf("%s %v", w.label(), report.Bytes(size)))
				break
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Smaller copies pay for being begun: half of its best rate a way has from this size on, back to back: " + strings.Join(parts, ", ") + "."
}

// placementVerdict: whether it matters on which NUMA node pinned memory lies.
func (r *Report) placementVerdict() string {
	nodes := r.compared()
	switch {
	case r.Conditions.Nodes == nil:
		return "Whether the place of the host's memory matters is not known: its NUMA nodes are not."
	case len(r.Conditions.Nodes) == 1:
		text := fmt.Sprintf("All of the host's memory is of one NUMA node, %d: there is no place to choose", r.Conditions.Nodes[0])
		if r.Conditions.Virtual {
			text += " in this virtual machine; whether its host has one is not seen"
		}
		return text + "."
	case r.Conditions.Unbound != "":
		return "Whether the place of the host's memory matters is not known: no memory of a given NUMA node is to be had (" + r.Conditions.Unbound + "); containers allow mbind with CAP_SYS_NICE."
	case len(nodes) < 2:
		return "Whether the place of the host's memory matters was not measured: that takes the way pinned-piped."
	}
	size := r.largest()
	text, matters := "", false
	for i, d := range r.directions() {
		best, worst := -1, -1
		at := func(n int) float64 {
			if row := r.onNode(n, d, size); row != nil {
				return row.Rate.Median
			}
			return 0
		}
		for _, n := range nodes {
			if best < 0 || at(n) > at(best) {
				best = n
			}
			if worst < 0 || at(n) < at(worst) {
				worst = n
			}
		}
		if at(worst) >= at(best)*(1-even) {
			continue
		}
		matters = true
		text += fmt.Sprintf(" From %s, piped, memory of node %d carries %s GB/s, of node %d %s (%s is of node %s).", d,
			best, rate(at(best)), worst, rate(at(worst)), r.GPUs[i].Name, known(r.GPUs[i].Node))
	}
	if !matters {
		return fmt.Sprintf("Through the host at %v, it does not matter on which NUMA node the pinned memory lies.", report.Bytes(size))
	}
	return fmt.Sprintf("Through the host at %v, the NUMA node of the pinned memory matters.", report.Bytes(size)) + text
}

// pathVerdict puts the topology beside what peer copies carried: whether they can
// have gone over PCI Express at all, and whether that is a detour. The code is
// "detour" where peer copies take one, as far as is known.
func (r *Report) pathVerdict() (string, string) {
	peer := 0.0
	for _, d := range r.directions() {
		_, v := r.straight(d)
		peer = max(peer, v)
	}
	text := ""
	link, piped := r.link(), r.rateOf(Piped, r.directions()[0])
	switch {
	case peer > 0 && link > 0 && peer > link:
		text = fmt.Sprintf("Peer copies carry %s GB/s, more than a PCI Express link of theirs at most (%s): they go over another link: NVLink, with GPUs of NVIDIA's.", rate(peer), rate(link))
	case peer > 0 && link == 0 && piped > 0 && peer > 2*piped:
		text = fmt.Sprintf("Peer copies carry %s GB/s, %.1f times what goes through the host; what the PCI Express links carry is not known here, nor so whether peer copies go over them.", rate(peer), peer/piped)
	}
	p := r.PCI
	if p == nil {
		return "path", join(text, "Where the two are on PCI Express is not known, nor so whether that path is a detour.")
	}
	over, code, is := "Over PCI Express they are", "detour", "is"
	if text != "" && link > 0 {
		code, is = "path", "would be"
		over = "Over PCI Express, which that way does not take, they are"
	}
	seen := ""
	if r.Conditions.Virtual {
		seen = " in the tree that this virtual machine is shown"
	}
	text = join(text, fmt.Sprintf("%s %v%s: %s.", over, p.Class, seen, p.Reason))
	switch {
	case p.Turns == string(pci.WayHostBridge):
		text += " Traffic from one to the other " + is + " a detour there, up to the host bridge: " + p.Why
		if p.Nodes {
			text += ", and from one processor to another"
		}
		text += "."
	case p.Turns == string(pci.WayBridge):
		code = "path"
		text += " Traffic from one to the other turns below the host: " + p.Why + "."
	default:
		code = "path"
		text += " Where traffic from one to the other turns is not known: " + p.Why + "."
	}
	return code, text
}

// link is what the slower of the two PCI Express links carries at most; 0 where one
// is not known.
func (r *Report) link() float64 {
	links := []float64{r.GPUs[0].Link, r.GPUs[1].Link}
	if slices.Contains(links, 0) {
		return 0
	}
	return slices.Min(links)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}
