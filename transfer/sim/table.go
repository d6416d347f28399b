package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/units"
)

// Schema names the form of a Report as JSON. Times are in nanoseconds, virtual.
const Schema = "peerdirect.bench.simulate/1"

// Title is said before anything else.
const Title = "SIMULATION, not a measurement: the engine on a virtual clock and a modelled fabric"

// Report is runs that differ by the size of a page or the number of workers.
type Report struct {
	Schema  string    `json:"schema"`
	Title   string    `json:"title"`
	Figures []*Figure `json:"figures"`
}

// NewReport puts figures together.
func NewReport(f []*Figure) *Report { return &Report{Schema: Schema, Title: Title, Figures: f} }

// Table writes a report for people.
func Table(w io.Writer, r *Report) error {
	var b strings.Builder
	b.WriteString(Title + "\n")
	if len(r.Figures) > 0 {
		conditions(&b, r.Figures[0])
	}
	lines := [][]string{{"page", "Gbit/s", "of line", "of limit", "set by", "p50 us", "p99 us", "p99.9", "least", "tail"}}
	for _, f := range r.Figures {
		lines = append(lines, []string{
			size(f), fmt.Sprintf("%.0f", f.Gbits), percent(f.OfLine), percent(f.OfLimit), f.Limit.By,
			micros(f.Latency.P50), micros(f.Latency.P99), micros(f.Latency.P999), micros(f.Limit.Latency), fmt.Sprintf("%.2f", f.Tail()),
		})
	}
	fmt.Fprintf(&b, "\nbandwidth of a node that writes, and latency of a transfer\n")
	columns(&b, lines)
	b.WriteString("least: what the mean latency cannot be below; tail: p99.9 over that\n")

	lines = [][]string{{"page", "requests/s, M", "a core at work, M", "cores at work"}}
	for _, f := range r.Figures {
		lines = append(lines, []string{size(f), fmt.Sprintf("%.2f", f.Requests/1e6), fmt.Sprintf("%.2f", f.PerCore/1e6), percent(f.Busy)})
	}
	b.WriteString("\nwork requests of a node that writes\n")
	columns(&b, lines)

	if len(r.Figures) > 0 && r.Figures[0].Run.Pattern == Scatter {
		lines = [][]string{{"page", "first to last post, p50 us", "p99", "call to last post, p50", "p99", "least"}}
		for _, f := range r.Figures {
			lines = append(lines, []string{size(f), micros(f.Posting.P50), micros(f.Posting.P99), micros(f.Called.P50), micros(f.Called.P99), micros(f.Limit.Posting)})
		}
		b.WriteString("\nposting of a scatter\n")
		columns(&b, lines)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func conditions(b *strings.Builder, f *Figure) {
	r, m := &f.Run, &f.Run.Model
	fmt.Fprintf(b, "%s: %d NICs of %v Gbit/s, %d workers; %d nodes, pattern %s, seed %d\n",
		r.Shape.Name, r.Shape.NICs, r.Shape.Gbits, r.Shape.Workers, r.Nodes, r.Pattern, r.Seed)
	pages := "1 page"
	if r.Pages > 1 {
		pages = fmt.Sprintf("%d pages", r.Pages)
	}
	fmt.Fprintf(b, "transfers of %s and a notice, %d at once of a node that writes;\n%d measured; %d requests a doorbell\n",
		pages, r.Window, f.Transfers, r.Batch)
	core := "without limit"
	if m.Oversubscribed > 1 {
		core = fmt.Sprintf("oversubscribed %v times", m.Oversubscribed)
	}
	fmt.Fprintf(b, "a NIC: %v a request at least, %d deep; the way: %v and up to %v more;\na core of the fabric %s\n",
		m.Request, m.Depth, m.Latency, m.Jitter, core)
	c := &m.Costs
	fmt.Fprintf(b, "a worker: %v a step, %v an operation, %v a doorbell, %v a request,\n%v a poll, %v a completion", c.Step, c.Command, c.Doorbell, c.Post, c.Poll, c.Completion)
	if c.Factor != 1 {
		fmt.Fprintf(b, "; all of it times %v", c.Factor)
	}
	b.WriteByte('\n')
}

func size(f *Figure) string { return units.Bytes(f.Run.Page).String() }

func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

func micros(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1000) }

// columns writes lines of cells, all but the first to the right.
func columns(b *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, cell := range l {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, l := range lines {
		for i, cell := range l {
			if i == 0 {
				fmt.Fprintf(b, "%-*s", width[i], cell)
				continue
			}
			fmt.Fprintf(b, "  %*s", width[i], cell)
		}
		b.WriteByte('\n')
	}
}
