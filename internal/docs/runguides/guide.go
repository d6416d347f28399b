package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/internal/docs"
)

// step is one block of a guide's code, and what it is expected to do.
type step struct {
	docs.Block
	place string
	file  string           // the block is written to this file instead of run
	want  []*regexp.Regexp // found in the output, in this order
	exit  int
	tries int // how often it is run, 2 s apart, until it exits so
}

// title names a step in what is printed.
func (s *step) title() string {
	if s.file != "" {
		return fmt.Sprintf("%s:%d %s: the file %s", s.File, s.Line, s.place, s.file)
	}
	first := "…"
	for line := range strings.Lines(s.Text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			first = line
			break
		}
	}
	return fmt.Sprintf("%s:%d %s: %s", s.File, s.Line, s.place, first)
}

// machines are those of one run of the lab: the places that its nodes are, and how it
// is told to make them.
type machines struct {
	places []string
	flags  []string
}

// lab lists what a place in the lab can be. A place that is hardware is not run.
var lab = []machines{
	{[]string{"rxe"}, []string{"--link", "rxe", "--accelerator", "1", "--cpus", "2"}},
	{[]string{"node0", "node1"}, []string{"--link", "rxe", "--nodes", "2", "--cpus", "1"}},
	{[]string{"efa"}, []string{"--efa", "2", "--accelerator", "1", "--iommu", "--cpus", "2"}},
	{[]string{"efa0", "efa1"}, []string{"--efa", "1", "--accelerator", "1", "--nodes", "2", "--cpus", "1"}},
	{[]string{"acs"}, []string{"--efa", "2", "--accelerator", "1", "--iommu", "--acs", "--cpus", "2"}},
}

const (
	onHost     = "host"
	callsLab   = "lab"
	onHardware = "hardware"
)

// here tells whether a step runs on this machine.
func (s *step) here() bool { return s.place == onHost || s.place == callsLab }

// steps gives those of a guide: every block whose fence has a place behind it.
func steps(file, text string) ([]step, error) {
	var all []step
	for _, b := range docs.Blocks(file, text) {
		if len(b.Words) == 0 {
			continue
		}
		s := step{Block: b, place: b.Words[0]}
		if !s.here() && s.place != onHardware && !slices.ContainsFunc(lab, func(m machines) bool { return slices.Contains(m.places, s.place) }) {
			return nil, fmt.Errorf("%s:%d: no place is named %q", file, b.Line, s.place)
		}
		for _, w := range b.Words[1:] {
			name, ok := strings.CutPrefix(w, "file=")
			if !ok || s.place != onHost {
				return nil, fmt.Errorf("%s:%d: %q behind the place: only file=NAME, of %s", file, b.Line, w, onHost)
			}
			s.file = name
		}
		if s.file == "" && b.Lang != "sh" {
			return nil, fmt.Errorf("%s:%d: a block of %s cannot be run: use sh, or file=NAME", file, b.Line, b.Lang)
		}
		if err := s.expect(); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// expect reads the lines "# prints: REGEXP", "# exits: N" and "# tries: N".
func (s *step) expect() error {
	s.tries = 1
	for line := range strings.Lines(s.Text) {
		line = strings.TrimSpace(line)
		if pattern, ok := strings.CutPrefix(line, "# prints: "); ok {
			re, err := regexp.Compile("(?m)" + pattern)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", s.File, s.Line, err)
			}
			s.want = append(s.want, re)
		}
		for prefix, to := range map[string]*int{"# exits: ": &s.exit, "# tries: ": &s.tries} {
			if number, ok := strings.CutPrefix(line, prefix); ok {
				n, err := strconv.Atoi(number)
				if err != nil {
					return fmt.Errorf("%s:%d: %w", s.File, s.Line, err)
				}
				*to = n
			}
		}
	}
	return nil
}

// judge tells what is wrong with how the step ended, nil if nothing is.
func (s *step) judge(output string, exit int) error {
	if exit != s.exit {
		return fmt.Errorf("exit status %d, not %d", exit, s.exit)
	}
	rest := output
	for _, re := range s.want {
		at := re.FindStringIndex(rest)
		if at == nil {
			return fmt.Errorf("it does not print %q, or not behind what is expected before", strings.TrimPrefix(re.String(), "(?m)"))
		}
		rest = rest[at[1]:]
	}
	return nil
}
