package peer

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
)

// Text prints results for people.
type Text struct {
	W     io.Writer
	Width int  // columns of the terminal; 0 is no bound
	All   bool // the evidence of what is in order too
	err   error
}

const indent = "               " // as wide as a step's name

// Step prints a step that has ended.
func (t *Text) Step(s *Step) error {
	head := fmt.Sprintf("%-11s %-11s  ", s.Verdict, s.Name)
	t.paragraph(head, s.Summary)
	if t.All || s.Verdict == Fail || s.Verdict == Warn {
		for _, e := range s.Evidence {
			t.paragraph(indent+"here:  ", strings.TrimPrefix(e, "here:  "))
		}
		if s.PeerError != "" {
			t.paragraph(indent+"there: ", s.PeerError)
		}
		for _, e := range s.PeerEvidence {
			t.paragraph(indent+"there: ", e)
		}
	}
	if s.Remedy != "" {
		t.paragraph(indent+"remedy: ", s.Remedy)
	}
	return t.err
}

// End prints what the steps come to.
func (t *Text) End(r *Result) error {
	var not []string
	for i := range r.Steps {
		if r.Steps[i].Verdict == NotReached {
			not = append(not, string(r.Steps[i].Name))
		}
	}
	if r.Role == RoleDialler && len(not) > 0 {
		t.paragraph(fmt.Sprintf("%-11s ", NotReached), strings.Join(not, ", "))
	}
	with := r.Address
	if r.Peer != "" && r.Peer != "token" {
		with += " (" + r.Peer + ")"
	}
	switch {
	case r.Verdict == Fail:
		t.paragraph("", fmt.Sprintf("The path to %s fails at the step %s.", with, r.Failed))
	case r.Verdict == Warn:
		t.paragraph("", fmt.Sprintf("The path to %s works, with warnings.", with))
	default:
		t.paragraph("", fmt.Sprintf("The path to %s works.", with))
	}
	return t.err
}

// paragraph prints a text behind a head, and what does not fit its line below it.
func (t *Text) paragraph(head, text string) {
	if t.err != nil {
		return
	}
	lines := []string{text}
	if room := t.Width - len(head); t.Width > 0 && room >= 20 {
		lines = textwrap.Lines(text, room)
	}
	for i, l := range lines {
		if i > 0 {
			head = strings.Repeat(" ", len(head))
		}
		if _, t.err = fmt.Fprintln(t.W, strings.TrimRight(head+l, " ")); t.err != nil {
			return
		}
	}
}
