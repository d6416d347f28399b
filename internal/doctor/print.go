package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/internal/textwrap"
)

// TextOptions are how findings are printed.
type TextOptions struct {
	Width  int  // columns of the terminal; 0 is no bound
	Colour bool // verdicts are coloured
	All    bool // what is as it should be is printed too, and all evidence
}

// Text prints findings as they come, a group under its heading. Its first error is
// the writer's, and nothing is written after it.
type Text struct {
	w     io.Writer
	o     TextOptions
	group string
	fine  []string // checks of the group that found something in order
	lacks []string // checks of the group for which a capture has nothing
	err   error
}

// NewText gives a printer.
func NewText(w io.Writer, o TextOptions) *Text { return &Text{w: w, o: o} }

// Add prints what a check found; of what is in order only a line at the group's end.
func (t *Text) Add(c Checked) error {
	if len(c.Findings) == 0 {
		return t.err
	}
	if c.Check.Group != t.group {
		if t.end(); t.group != "" {
			t.line("")
		}
		t.line(t.paint("\x1b[1m", c.Check.Group))
		t.group = c.Check.Group
	}
	fine, lacks := 0, 0
	for _, f := range c.Findings {
		switch {
		case f.Verdict == OK && !t.o.All:
			fine++
		case f.missing && !t.o.All:
			lacks++
		default:
			t.finding(f)
		}
	}
	t.fine = tally(t.fine, c.Check.Name, fine)
	t.lacks = tally(t.lacks, c.Check.Name, lacks)
	return t.err
}

func tally(list []string, name string, n int) []string {
	switch n {
	case 0:
		return list
	case 1:
		return append(list, name)
	}
	return append(list, fmt.Sprintf("%s (%d)", name, n))
}

// End ends the last group, and tells the whole in a line.
func (t *Text) End(r *Report) error {
	if t.end(); t.group != "" {
		t.line("")
	}
	t.group = ""
	n := r.Counts()
	var parts []string
	for v := Fail + 1; v > 0; v-- {
		if n[v-1] > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n[v-1], v-1))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing to tell"}
	}
	text := strings.Join(parts, ", ") + "."
	if slices.ContainsFunc(r.Findings(), func(f Finding) bool { return f.Verdict >= Warn && len(f.Commands) > 0 }) {
		text += " --fix prints the commands as a script."
	}
	t.paragraph("", text)
	return t.err
}

// end prints the lines that stand for many findings.
func (t *Text) end() {
	if len(t.lacks) > 0 {
		t.paragraph(t.head(Unknown), "the capture does not hold what it takes for: "+strings.Join(t.lacks, ", "))
	}
	if len(t.fine) > 0 {
		t.paragraph(t.head(OK), strings.Join(t.fine, ", "))
	}
	t.fine, t.lacks = nil, nil
}

// finding prints one: its line, and under it by what evidence and what to do.
func (t *Text) finding(f Finding) {
	t.paragraph(t.head(f.Verdict), f.title())
	const indent = "           "
	if t.o.All || f.Verdict > Note {
		for _, e := range f.Evidence {
			t.paragraph(indent, clean(e))
		}
	}
	if f.Remedy != "" {
		t.paragraph(indent+"remedy: ", clean(f.Remedy))
	}
	for _, c := range f.Commands {
		t.line(indent + "$ " + clean(c)) // whole: it is there to be copied
	}
}

// title is the finding in a line.
func (f Finding) title() string {
	if f.Subject == "" {
		return clean(f.Summary)
	}
	return clean(f.Subject) + ": " + clean(f.Summary)
}

// colours are of a terminal's first eight, which every scheme makes readable.
var colours = [...]string{OK: "\x1b[32m", Note: "\x1b[36m", Unknown: "\x1b[35m", Warn: "\x1b[33m", Fail: "\x1b[31m"}

// head begins a finding's line.
func (t *Text) head(v Verdict) string {
	return "  " + t.paint(colours[v], v.String()) + strings.Repeat(" ", len("unknown")-len(v.String())+2)
}

func (t *Text) paint(colour, s string) string {
	if !t.o.Colour {
		return s
	}
	return colour + s + "\x1b[0m"
}

// paragraph prints text after a head, and what does not fit under its start.
func (t *Text) paragraph(head, text string) {
	indent := utf8.RuneCountInString(head)
	if t.o.Colour && strings.Contains(head, "\x1b") {
		indent = 2 + len("unknown") + 2
	}
	columns := t.o.Width - indent
	if t.o.Width == 0 {
		columns = len(text)
	}
	for _, line := range textwrap.Lines(text, columns) {
		t.line(head + line)
		head = strings.Repeat(" ", indent)
	}
}

func (t *Text) line(s string) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(s, " "))
	}
}

// clean keeps what another side wrote (names of devices, files of a capture) from
// moving the cursor or beginning a line.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

// WriteList prints the checks there are, a group under its heading.
func WriteList(w io.Writer, checks []Check, o TextOptions) error {
	t, wide := NewText(w, o), 0
	for _, c := range checks {
		wide = max(wide, len(c.Name))
	}
	for i, c := range checks {
		if c.Group != t.group {
			if t.group = c.Group; i > 0 {
				t.line("")
			}
			t.line(t.paint("\x1b[1m", c.Group))
		}
		about := c.About
		if c.Live {
			about += " (only of a running machine)"
		}
		t.paragraph(fmt.Sprintf("  %-*s  ", wide, c.Name), about)
	}
	return t.err
}

// WriteText prints a whole report.
func WriteText(w io.Writer, r *Report, o TextOptions) error {
	t := NewText(w, o)
	for _, c := range r.Checked {
		t.Add(c)
	}
	return t.End(r)
}
