package path

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// Finding is a sentence of the verdict.
type Finding struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// even is how near two ways are that count as equal: no more than rounds differ.
const even = 0.05

// verdict says in words what the rows show, and what the topology says of it.
func verdict(r *Report) (all []Finding) {
	add := func(code, text string) {
		if text != "" {
			all = append(all, Finding{code, text})
		}
	}
	add("access", r.accessVerdict())
	add("best", r.bestVerdict("Back to back, ", func(row *Row) float64 { return row.Rate.Median }))
	add("alone", r.bestVerdict("One copy alone, ", func(row *Row) float64 { return 1 / row.Alone.Median }))
	add("host", r.hostVerdict())
	add("half", r.halfVerdict())
	add("no-access", r.noAccessVerdict())
	add("direction", r.directionVerdict())
	add("both", r.bothVerdict())
	add("placement", r.placementVerdict())
	code, text := r.pathVerdict()
	add(code, text)
	add("spread", r.spreadVerdict())
	return all
}

// largest is the largest size.
func (r *Report) largest() uint64 {
	if sizes := r.sizes(); len(sizes) > 0 {
		return sizes[len(sizes)-1]
	}
	return 0
}

// rateOf is a way's rate at the largest size; 0 if it was not measured.
func (r *Report) rateOf(w Way, direction string) float64 {
	if row := r.find(w, direction, r.largest()); row != nil {
		return row.Rate.Median
	}
	return 0
}

func (r *Report) accessVerdict() string {
	a, b := r.GPUs[0].Name, r.GPUs[1].Name
	switch {
	case r.Access.First && r.Access.Second:
		return ""
	case r.Access.First:
		return fmt.Sprintf("Peer access is possible by %s only (cuDeviceCanAccessPeer answers 0 for %s): it has to make the copies of both directions.", a, b)
	case r.Access.Second:
		return fmt.Sprintf("Peer access is possible by %s only (cuDeviceCanAccessPeer answers 0 for %s): it has to make the copies of both directions.", b, a)
	}
	text := fmt.Sprintf("Peer access between %s and %s is not possible (cuDeviceCanAccessPeer answers 0): all that goes between them goes through the host's memory.", a, b)
	if v := r.rateOf(NoAccess, r.directions()[0]); v > 0 {
		text += fmt.Sprintf(" cuMemcpyPeerAsync works all the same, for the driver stages it: %s GB/s at %v.", rate(v), report.Bytes(r.largest()))
	}
	return text + " Causes are a model without it, access control or an IOMMU on the path, or a hypervisor: see peerdirect topo --findings and nvidia-smi topo -p2p r."
}

// stretch is a range of sizes that one way is the best of.
type stretch struct {
	from, to uint64
	way      Way
}

// best cuts the sizes into stretches. Of ways that are even the first in the order of
// Ways counts.
func (r *Report) best(direction string, score func(*Row) float64) (cuts []stretch) {
	for _, size := range r.sizes() {
		most := 0.0
		for _, w := range Ways() {
			if row := r.find(w, direction, size); row != nil {
				most = max(most, score(row))
			}
		}
		for _, w := range Ways() {
			row := r.find(w, direction, size)
			if row == nil || score(row) < most*(1-even) {
				continue
			}
			if n := len(cuts); n > 0 && cuts[n-1].way == w {
				cuts[n-1].to = size
			} else {
				cuts = append(cuts, stretch{size, size, w})
			}
			break
		}
	}
	return cuts
}

func (r *Report) bestVerdict(lead string, score func(*Row) float64) string {
	d := r.directions()
	there, back := r.best(d[0], score), r.best(d[1], score)
	if len(there) == 0 || len(back) == 0 {
		return ""
	}
	if slices.Equal(there, back) {
		return lead + "the best way is " + inWords(there) + "."
	}
	return lead + "the best way from " + d[0] + " is " + inWords(there) + "; from " + d[1] + " " + inWords(back) + "."
}

func inWords(cuts []stretch) string {
	if len(cuts) == 1 && cuts[0].from != cuts[0].to {
		return fmt.Sprintf("%s at every size", cuts[0].way.label())
	}
	var parts []string
	for _, c := range cuts {
		if c.from == c.to {
			parts = append(parts, fmt.Sprintf("%s at %v", c.way.label(), report.Bytes(c.from)))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s from %v to %v", c.way.label(), report.Bytes(c.from), report.Bytes(c.to)))
	}
	return strings.Join(parts, ", ")
}

// straight is the faster peer way at the largest size.
func (r *Report) straight(direction string) (Way, float64) {
	w, v := PeerWrite, r.rateOf(PeerWrite, direction)
	if read := r.rateOf(PeerRead, direction); read > v*(1+even) {
		w, v = PeerRead, read
	}
	return w, v
}

func (r *Report) hostVerdict() string {
	d := r.directions()[0]
	against, most := r.straight(d)
	ways := []Way{Piped, Plain, Pageable}
	if most == 0 {
		against, most = Piped, r.rateOf(Piped, d)
		ways = ways[1:]
	}
	var parts []string
	for _, w := range ways {
		if v := r.rateOf(w, d); v > 0 && most > 0 {
			parts = append(parts, fmt.Sprintf("%s carries %s GB/s, %s of it", w.label(), rate(v), percent(v/most)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := fmt.Sprintf("At %v from %s, %s carries %s GB/s; through the host, %s.", report.Bytes(r.largest()), d, against.label(), rate(most), strings.Join(parts, ", "))
	least := r.sizes()[0]
	if a, b := r.find(against, d, least), r.find(Piped, d, least); against != Piped && a != nil && b != nil {
		text += fmt.Sprintf(" A copy of %v alone takes %s us by %s, %s us piped.", report.Bytes(least), micros(a.Alone.Median), against.label(), micros(b.Alone.Median))
	}
	return text
}

func percent(part float64) string {
	if part < 0.095 {
		return fmt.Sprintf("%.1f %%", 100*part)
	}
	return fmt.Sprintf("%.0f %%", 100*part)
}

func (r *Report) noAccessVerdict() string {
	d := r.directions()[0]
	way, most := r.straight(d)
	v := r.rateOf(NoAccess, d)
	switch {
	case v == 0 || most == 0:
		return ""
	case v < most*(1-2*even):
		return fmt.Sprintf("Where peer access is not enabled, cuMemcpyPeerAsync carries %s GB/s at %v, %s of %s: a program has to call cuCtxEnablePeerAccess.",
			rate(v), report.Bytes(r.largest()), percent(v/most), way.label())
	}
	return "Where peer access is not enabled, cuMemcpyPeerAsync carries as much."
}

func (r *Report) directionVerdict() string {
	d := r.directions()
	var parts []string
	for _, w := range r.ways(d[0]) {
		a, b := r.rateOf(w, d[0]), r.rateOf(w, d[1])
		if a == 0 || b == 0 || math.Abs(a-b) <= 2*even*max(a, b) {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s and %s GB/s", w.label(), rate(a), rate(b)))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("The directions differ at %v, %s and back: %s.", report.Bytes(r.largest()), d[0], strings.Join(parts, ", "))
}

func (r *Report) bothVerdict() string {
	d := r.directions()
	var parts []string
	for _, w := range r.ways(Both) {
		together, one := r.rateOf(w, Both), max(r.rateOf(w, d[0]), r.rateOf(w, d[1]))
		if together > 0 && one > 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f times", w.label(), together/one))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("Both directions at once carry, against one alone at %v: %s.", report.Bytes(r.largest()), strings.Join(parts, ", "))
}

// spreadVerdict says what the figures are worth.
func (r *Report) spreadVerdict() string {
	if r.Conditions.Rounds < 2 || len(r.Rows) == 0 {
		return ""
	}
	var all []float64
	worst := &r.Rows[0]
	spread := func(v Value) float64 { return (v.Most - v.Least) / v.Median }
	for i := range r.Rows {
		all = append(all, spread(r.Rows[i].Rate))
		if spread(r.Rows[i].Rate) > spread(worst.Rate) {
			worst = &r.Rows[i]
		}
	}
	return fmt.Sprintf("From the least to the most of the rounds a rate spreads over %s of its median, as a median over all; over %s at most (%s, %v, %s).",
		percent(bench.Median(all)), percent(spread(worst.Rate)), worst.Way.label(), report.Bytes(worst.Size), worst.Direction)
}
