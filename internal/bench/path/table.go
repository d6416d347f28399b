package path

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// Table writes a report for people, in 80 columns.
func Table(w io.Writer, r *Report) error {
	var b strings.Builder
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "%s: %s at %s, NUMA node %s, %d copy engines\n", g.Name, g.Model, g.Address, known(g.Node), g.Engines)
	}
	fmt.Fprintf(&b, "peer access %s; CUDA %s; linux/%s\n", r.Access.words(), r.Conditions.CUDA, r.Conditions.Arch)
	rounds := "one round"
	if n := r.Conditions.Rounds; n > 1 {
		rounds = fmt.Sprintf("medians of %d alternating rounds", n)
	}
	checked := "NOTHING WAS VERIFIED"
	if v := r.Conditions.Verified; v > 0 {
		checked = report.Bytes(v).String() + " verified"
	}
	fmt.Fprintf(&b, "%s of %.3g ms a value; %s\n", rounds, r.Conditions.Seconds*1e3, checked)

	for _, d := range r.directions() {
		grid(&b, r, d+": GB/s, copies back to back", d, func(row *Row) string { return rate(row.Rate.Median) })
		grid(&b, r, d+": us of one copy alone", d, func(row *Row) string { return micros(row.Alone.Median) })
	}
	grid(&b, r, "both directions at once: GB/s of both together", Both, func(row *Row) string { return rate(row.Rate.Median) })
	byNode(&b, r)
	legend(&b, r)

	b.WriteString("\n")
	for _, f := range r.Verdict {
		for i, line := range textwrap.Lines(f.Text, 78) {
			lead := "- "
			if i > 0 {
				lead = "  "
			}
			fmt.Fprintf(&b, "%s%s\n", lead, line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func known(v *int) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

func (a Access) words() string {
	switch {
	case a.First && a.Second:
		return "both ways"
	case a.First:
		return "by the first GPU only"
	case a.Second:
		return "by the second GPU only"
	}
	return "not possible"
}

// ways are those of a direction, in order.
func (r *Report) ways(direction string) (ways []Way) {
	for _, row := range r.Rows {
		if row.Direction == direction && row.Node == nil && !slices.Contains(ways, row.Way) {
			ways = append(ways, row.Way)
		}
	}
	return ways
}

// grid writes sizes by ways.
func grid(b *strings.Builder, r *Report, title, direction string, cell func(*Row) string) {
	ways := r.ways(direction)
	if len(ways) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n%-9s", title, "size")
	for _, w := range ways {
		fmt.Fprintf(b, " %10s", w.label())
	}
	b.WriteString("\n")
	for _, size := range r.sizes() {
		fmt.Fprintf(b, "%-9v", report.Bytes(size))
		for _, w := range ways {
			text := "-"
			if row := r.find(w, direction, size); row != nil {
				text = cell(row)
			}
			fmt.Fprintf(b, " %10s", text)
		}
		b.WriteString("\n")
	}
}

// byNode compares pinned memory of NUMA nodes, as many as fit.
func byNode(b *strings.Builder, r *Report) {
	const fit = 6
	nodes := r.compared()
	for _, d := range r.directions() {
		for first := 0; first < len(nodes); first += fit {
			some := nodes[first:min(first+fit, len(nodes))]
			fmt.Fprintf(b, "\n%s: GB/s, piped, by the NUMA node of the pinned memory\n%-9s", d, "size")
			for _, n := range some {
				fmt.Fprintf(b, " %10s", fmt.Sprintf("node %d", n))
			}
			b.WriteString("\n")
			for _, size := range r.sizes() {
				fmt.Fprintf(b, "%-9v", report.Bytes(size))
				for _, n := range some {
					text := "-"
					if row := r.onNode(n, d, size); row != nil {
						text = rate(row.Rate.Median)
					}
					fmt.Fprintf(b, " %10s", text)
				}
				b.WriteString("\n")
			}
		}
	}
}

// compared are the nodes whose memory was compared.
func (r *Report) compared() (nodes []int) {
	for _, row := range r.Rows {
		if row.Node != nil && !slices.Contains(nodes, *row.Node) {
			nodes = append(nodes, *row.Node)
		}
	}
	return nodes
}

// legend says what the ways are that were measured.
func legend(b *strings.Builder, r *Report) {
	d := r.directions()
	ways := append(r.ways(d[0]), r.ways(d[1])...)
	b.WriteString("\n")
	for _, w := range Ways() {
		if !slices.Contains(ways, w) {
			continue
		}
		fmt.Fprintf(b, "%-10s  %s\n", w.label(), map[Way]string{
			PeerWrite: "straight, the source's GPU copies",
			PeerRead:  "straight, the destination's GPU copies",
			NoAccess:  "cuMemcpyPeerAsync, peer access not enabled: the driver chooses",
			Piped:     fmt.Sprintf("through %d pinned buffers of %v, down and up at once", r.Conditions.Buffers, report.Bytes(r.Conditions.Chunk)),
			Plain:     "through one pinned buffer, down and then up",
			Pageable:  "the same, through memory that is not pinned",
		}[w])
	}
}

// rate prints GB/s with three digits.
func rate(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func micros(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
