package collective

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/textwrap"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// columns is the width of the text.
const columns = 80

// Text writes a report for people.
func Text(w io.Writer, r *Report) error {
	c := r.Conditions
	var b strings.Builder
	paragraph(&b, "", conditions(c))
	for _, op := range c.Operations {
		for _, nodes := range c.Nodes {
			fmt.Fprintf(&b, "\n%s among %d nodes: bus bandwidth, GB/s\n", op, nodes)
			fmt.Fprintf(&b, "%9s %10s %9s %11s %13s %9s %6s\n", "size", "time", Direct, Registered, Staged, TCP, "eff.")
			for _, size := range c.Bytes {
				d := r.find(op, Direct, nodes, size)
				if d == nil {
					continue
				}
				fmt.Fprintf(&b, "%9v %10s", report.Bytes(size), duration(d.Seconds))
				for i, path := range paths {
					width := []int{9, 11, 13, 9}[i]
					if m := r.find(op, path, nodes, size); m != nil {
						fmt.Fprintf(&b, " %*s", width, figure(m.BusGBs))
					} else {
						fmt.Fprintf(&b, " %*s", width, "-")
					}
				}
				fmt.Fprintf(&b, " %6s\n", percent(d.Efficiency))
			}
		}
	}
	fmt.Fprintf(&b, "\nVerdict\n")
	last := ""
	for _, f := range r.Verdict {
		if f.Operation != last && f.Operation != "" {
			fmt.Fprintf(&b, "%s\n", f.Operation)
		} else if f.Operation != last {
			fmt.Fprintf(&b, "the nodes\n")
		}
		last = f.Operation
		mark := "  "
		if f.Falls {
			mark = "! "
		}
		paragraph(&b, mark, fmt.Sprintf("%s: %s.", f.About, f.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// conditions says what the figures hold for.
func conditions(c Conditions) string {
	nics := "one NIC"
	if c.NICs > 1 {
		nics = fmt.Sprintf("%d NICs", c.NICs)
	}
	where := fmt.Sprintf("%s on node 0 (%s), %s, linux %s", c.Device, nics, c.Transport, c.Kernel)
	if c.Embedded {
		where = fmt.Sprintf("All nodes are inside this process, with %s each in software, and share its %d CPUs: the figures show the tool, not hardware; linux %s", nics, c.CPUs[0], c.Kernel)
	}
	memory := c.Memory[0] + " memory"
	for _, m := range c.Memory {
		if m != c.Memory[0] {
			memory = "memory of " + strings.Join(c.Memory, ", ")
			break
		}
	}
	verified := "results compared bit for bit with sums in the order that is defined"
	if !c.Verified {
		verified = "results NOT compared"
	}
	rounds := "One round"
	if c.Rounds > 1 {
		rounds = fmt.Sprintf("Medians of %d alternating rounds", c.Rounds)
	}
	return fmt.Sprintf("Ring collectives of float32 in %s; sums by the CPU. %s. %s; %s. eff.: the direct path's bus bandwidth, of that among %d nodes.",
		memory, where, rounds, verified, c.Nodes[0])
}

// paragraph wraps a text; with a mark before it, lines after the first are indented.
func paragraph(b *strings.Builder, mark, text string) {
	indent := strings.Repeat(" ", 2*len(mark))
	for i, l := range textwrap.Lines(text, columns-len(indent)) {
		if i > 0 {
			mark = indent
		}
		b.WriteString(mark + l + "\n")
	}
}

// figure prints a number with about three digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	case v >= 0.01:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.5f", v)
}

func rate(gbs float64) string { return figure(gbs) + " GB/s" }

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

func times(factor float64) string { return figure(factor) + " times" }

// duration prints seconds with about three digits.
func duration(seconds float64) string {
	d := time.Duration(seconds * 1e9)
	for unit := 100 * time.Second; unit >= 100*time.Nanosecond; unit /= 10 {
		if d >= unit {
			d = d.Round(unit / 100)
			break
		}
	}
	return strings.Replace(d.String(), "µ", "u", 1)
}
