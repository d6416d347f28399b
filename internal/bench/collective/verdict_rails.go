package collective

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// placement looks at where each node's rails and memory are, and what each carried.
func (v *judge) placement() (all []Finding) {
	add := func(falls bool, format string, args ...any) {
		all = append(all, Finding{About: FindPlacement, Nodes: v.most, Falls: falls, Text: fmt.Sprintf(format, args...)})
	}
	if node, text := v.unequal(); node >= 0 {
		add(true, "%s", text)
	}
	known, far := false, 0
	for _, r := range v.Rails {
		if !r.Near {
			far++
		}
		if r.Losses > 0 {
			add(true, "node %d's %s lost its connections %d times", r.Node, r.Device, r.Losses)
		}
		if r.NUMA == nil || r.Memory == nil || !r.Near {
			continue
		}
		known = true
		if *r.NUMA != *r.Memory {
			add(true, "node %d's %s (%s) is on NUMA node %d and the memory on %d", r.Node, r.Device, r.PCI, *r.NUMA, *r.Memory)
		}
	}
	if far > 0 {
		add(false, "%d of %d rails are not near to their node's memory, and carry none of it", far, len(v.Rails))
	}
	if len(all) == 0 {
		switch {
		case v.Conditions.Embedded:
			add(false, "software NICs have no place; each carried an equal share")
		case known:
			add(false, "rails are on the NUMA node of the memory, with equal shares")
		default:
			add(false, "equal shares; where rails and memory are is not known ('peerdirect topo' shows the machine)")
		}
	}
	return all
}

// unequal finds the node whose rails carried the least equal shares; -1 if none did.
func (v *judge) unequal() (node int, text string) {
	node = -1
	worst := uneven
	for at := range v.most {
		var least, most *Rail
		total := uint64(0)
		for i := range v.Rails {
			r := &v.Rails[i]
			if r.Node != at || !r.Near {
				continue
			}
			if total += r.Bytes; least == nil || r.Bytes < least.Bytes {
				least = r
			}
			if most == nil || r.Bytes > most.Bytes {
				most = r
			}
		}
		if least == most || total < little {
			continue
		}
		if by := float64(most.Bytes) / float64(max(least.Bytes, 1)); by > worst {
			worst, node = by, at
			text = fmt.Sprintf("node %d's rails carry unequal shares: %s, %s", at, v.share(least), v.share(most))
		}
	}
	return node, text
}

func (v *judge) share(r *Rail) string {
	where := []string{}
	if r.PCI != "" {
		where = append(where, r.PCI)
	}
	if r.NUMA != nil {
		where = append(where, fmt.Sprintf("NUMA node %d", *r.NUMA))
	}
	s := fmt.Sprintf("%s %v", r.Device, report.Bytes(r.Bytes))
	if len(where) > 0 {
		s += " (" + strings.Join(where, ", ") + ")"
	}
	return s
}

// hops compares the hops alone.
func (v *judge) hops() []Finding {
	if v.largest <= v.latencyBound(v.Conditions.Operations[0], v.most) {
		return nil // hops' rates are their latency
	}
	if slow, others := v.slowHop(); slow != nil {
		return []Finding{{About: FindHop, Nodes: v.most, Bytes: v.largest, Falls: true, Text: fmt.Sprintf(
			"the hop from node %d to node %d moves %s alone, others %s", slow.From, slow.To, rate(slow.GBs), rate(others))}}
	}
	alone := v.aloneRate()
	m := v.find(AllGather, Direct, v.most, v.largest)
	if m == nil || alone == 0 {
		return nil
	}
	f := Finding{About: FindShared, Nodes: v.most, Bytes: v.largest, Text: fmt.Sprintf(
		"a hop alone moves %s; all at once in an all-gather %s each", rate(alone), rate(m.BusGBs))}
	if m.BusGBs < fall*alone {
		f.Falls = true
		f.Text += ": they share what carries them"
		if v.Conditions.Embedded {
			f.Text += ", here this machine's CPUs"
		}
	}
	return []Finding{f}
}

func (v *judge) aloneRate() float64 {
	var rates []float64
	for _, h := range v.Hops {
		rates = append(rates, h.GBs)
	}
	return bench.Median(rates)
}

// slowHop is a hop that alone was slower than the others in every round, if one was.
func (v *judge) slowHop() (slow *Hop, others float64) {
	if len(v.Hops) < 2 {
		return nil, 0
	}
	least := slices.MinFunc(v.Hops, func(a, b Hop) int {
		if a.GBs < b.GBs {
			return -1
		}
		return 1
	})
	var rates []float64
	for _, h := range v.Hops {
		if h != least {
			rates = append(rates, h.GBs)
		}
	}
	if others = bench.Median(rates); least.Most >= fall*others {
		return nil, 0
	}
	return &least, others
}
