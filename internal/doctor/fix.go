package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
)

// WriteFix prints the commands of what is wrong or slow as a shell script, in the
// order of the checks, each once, with what it is for. Nothing is run. What only
// words can say is a comment.
func WriteFix(w io.Writer, r *Report) error {
	s := &script{w: w}
	s.line("#!/bin/sh")
	s.line("# Machine: " + clean(r.Source))
	s.comment("Written by 'peerdirect doctor --fix', which has run nothing of it. " +
		"Read it, take out what you do not want, then run it as root on that machine. It ends at the first command that fails.")
	s.line("set -e")
	seen, n := map[string]bool{}, 0
	for _, f := range r.Findings() {
		if f.Verdict < Warn {
			continue
		}
		n++
		s.line("")
		s.comment(fmt.Sprintf("%d. %v, %s: %s", n, f.Verdict, f.Check, f.title()))
		if f.Remedy != "" {
			s.comment("Remedy: " + clean(f.Remedy))
		}
		if len(f.Commands) == 0 {
			s.comment("No command does this.")
		}
		for _, c := range f.Commands {
			if seen[c] {
				s.comment("Done above: " + clean(c))
				continue
			}
			seen[c] = true
			s.line(clean(c))
		}
	}
	if n == 0 {
		s.line("")
		s.comment("Nothing fails, and nothing is slower than it could be.")
	}
	return s.err
}

type script struct {
	w   io.Writer
	err error
}

func (s *script) line(text string) {
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.w, text)
	}
}

// comment prints what is clean: a line break in it would end the comment.
func (s *script) comment(text string) {
	for _, line := range textwrap.Lines(text, 76) {
		s.line(strings.TrimRight("# "+line, " "))
	}
}

// quote makes a word of the shell of what another side wrote, a device's name or a
// path: in single quotes nothing has a meaning but the quote.
func quote(s string) string {
	plain := s != ""
	for _, c := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%", c) {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(clean(s), "'", `'\''`) + "'"
}
