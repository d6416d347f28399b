package dmabufprobe

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
)

// Write prints the matrix, and below it why cells are not as one would wish:
// once for all cells that share a reason.
func (m *Matrix) Write(w io.Writer) error {
	var b strings.Builder
	width := len("EXPORTER")
	for _, e := range m.Exporters {
		width = max(width, len(e.Name))
	}
	fmt.Fprintf(&b, "%-*s", width, "EXPORTER")
	for _, d := range m.Devices {
		fmt.Fprintf(&b, "  %-*s", columnWidth(d), d.Name)
	}
	b.WriteByte('\n')
	for _, e := range m.Exporters {
		fmt.Fprintf(&b, "%-*s", width, e.Name)
		for _, d := range m.Devices {
			verdict := "?"
			if c := m.Cell(e.Name, d.Name); c != nil {
				verdict = string(c.Verdict)
			}
			fmt.Fprintf(&b, "  %-*s", columnWidth(d), verdict)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	for _, d := range m.Devices {
		fmt.Fprintf(&b, "%s: driver %s", d.Name, orUnknown(d.Driver))
		if d.Problem == "" {
			fmt.Fprintf(&b, ", %s, ", d.Transport)
			if d.Operation == "" {
				b.WriteString("nothing is moved")
			} else {
				fmt.Fprintf(&b, "moved by %s", d.Operation)
			}
		}
		b.WriteByte('\n')
	}
	for _, r := range m.reasons() {
		b.WriteByte('\n')
		wrap(&b, "", r.head)
		wrap(&b, "  ", r.text)
	}
	out := trimLines(b.String())
	_, err := io.WriteString(w, out)
	return err
}

func columnWidth(d Device) int { return max(len(d.Name), len(Refused)) }

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

type reason struct{ head, text string }

// reasons are why cells did not move, each reason once. An absent exporter is
// told of once for all devices.
func (m *Matrix) reasons() []reason {
	type group struct {
		verdict Verdict
		device  string
		text    string
	}
	var order []group
	rows := map[group][]string{}
	for _, c := range m.Cells {
		if c.Verdict == Moved {
			continue
		}
		g := group{c.Verdict, c.Device, c.Reason}
		if c.Verdict == Absent {
			g.device = ""
		} else {
			g.text = fmt.Sprintf("at %s: %s", c.Stage, c.Reason)
		}
		if len(c.KernelLog) > 0 {
			g.text += "; the kernel says: " + strings.Join(c.KernelLog, "; ")
		}
		if rows[g] == nil {
			order = append(order, g)
		}
		if n := len(rows[g]); n == 0 || rows[g][n-1] != c.Exporter {
			rows[g] = append(rows[g], c.Exporter)
		}
	}
	var out []reason
	for _, g := range order {
		head := strings.Join(rows[g], ", ")
		if g.device != "" {
			head += " on " + g.device
		}
		out = append(out, reason{head + ": " + string(g.verdict), g.text})
	}
	return out
}

// wrap writes text in lines of at most 79 columns.
func wrap(b *strings.Builder, indent, text string) {
	for _, line := range textwrap.Lines(text, 79-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
