package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMain lets the test binary be the command itself, under its name: examples
// are shell lines, and run as they are.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "peerdirect" {
		main()
	}
	os.Exit(m.Run())
}

// example is a line of a command's help, and how testdata/examples.txt has it run.
type example struct {
	command    string   // "perf write bw"; the root's is ""
	line       string   // for a shell, without its comment
	place      string   // where it runs, a word of examplePlaces
	exit       string   // the code that is right; "" is 0, "any" a verdict's
	background bool     // runs beside the lines after it, and ends by itself
	port       string   // that a background one listens on; "" is one that prints when it does
	interrupt  bool     // ends by Ctrl-C: after its first output, or those lines
	silent     bool     // prints nothing: it writes a file
	args       []string // that the test adds, to be quick
}

// examplePlaces are the kinds of places that examples are for, and the test that
// runs them there.
var examplePlaces = map[string]string{
	"here":     "any machine: TestExamplesHere",
	"rxe":      "the lab with an rxe device: TestExamples",
	"efa":      "the lab with EFA devices: TestEFAExamples",
	"trace":    "the lab, to attach programs to: TestTraceExamples",
	"lab":      "a host of the lab: TestHostExamples",
	"gpus":     "two NVIDIA GPUs; elsewhere the refusal: TestExamplesHere",
	"hardware": "an mlx5 NIC beside a GPU; elsewhere the refusal: TestExamplesHere",
}

// TestEveryExampleHasAPlace: each command has an example, and the table has each
// example's lines, in the order of the help, and no other.
func TestEveryExampleHasAPlace(t *testing.T) {
	var helps, table strings.Builder
	for _, e := range helpExamples(t, newRoot()) {
		fmt.Fprintf(&helps, "[%s] %s\n", e.command, e.line)
	}
	ran := map[string]bool{}
	for _, e := range listedExamples(t) {
		fmt.Fprintf(&table, "[%s] %s\n", e.command, e.line)
		ran[e.place] = true
		if examplePlaces[e.place] == "" {
			t.Errorf("[%s] %s: %q is no place", e.command, e.line, e.place)
		}
	}
	have, want := strings.Split(table.String(), "\n"), strings.Split(helps.String(), "\n")
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i] != want[i] {
			t.Fatalf("testdata/examples.txt and the help part at example %d:\nhelp:  %s\ntable: %s", i+1,
				strings.Join(want[min(i, len(want)):], "\n       "), strings.Join(have[min(i, len(have)):], "\n       "))
		}
	}
	for place := range examplePlaces {
		if !ran[place] {
			t.Errorf("no example is for %s", place)
		}
	}
}

// helpExamples collects the lines of all commands that a user sees and that do
// something.
func helpExamples(t *testing.T, cmd *cobra.Command) (all []example) {
	name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "peerdirect"), " ")
	lines := shellLines(cmd.Example)
	if len(lines) == 0 && !cmd.HasAvailableSubCommands() {
		t.Errorf("%s: its help has no example", cmd.CommandPath())
	}
	for _, line := range lines {
		if !strings.Contains(line, "peerdirect ") && !strings.Contains(cmd.Example, "\n") {
			t.Errorf("%s: %s does not run it", cmd.CommandPath(), line)
		}
		all = append(all, example{command: name, line: line})
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			all = append(all, helpExamples(t, sub)...)
		}
	}
	return all
}

var (
	exampleComment = regexp.MustCompile(`(^|\s)#.*$`)
	exampleGoesOn  = regexp.MustCompile(`(\\|\|)$`)
)

// shellLines takes an example's text apart: comments go, and lines that go on in
// the next are joined.
func shellLines(text string) (lines []string) {
	whole := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(exampleComment.ReplaceAllString(strings.TrimRight(line, "\n"), ""))
		goesOn := exampleGoesOn.MatchString(line)
		whole = strings.TrimSpace(whole + " " + strings.TrimSuffix(line, `\`))
		if whole != "" && !goesOn {
			lines, whole = append(lines, whole), ""
		}
	}
	return lines
}

// listedExamples reads testdata/examples.txt.
func listedExamples(t *testing.T) (all []example) {
	t.Helper()
	text, err := os.ReadFile("testdata/examples.txt")
	if err != nil {
		t.Fatal(err)
	}
	command := ""
	for n, line := range strings.Split(string(text), "\n") {
		how, shell, found := strings.Cut(line, " | ")
		words := strings.Fields(how)
		switch {
		case strings.HasPrefix(line, "#") || len(words) == 0:
			continue
		case strings.HasPrefix(line, "["):
			command = strings.Trim(line, "[]")
			continue
		case !found:
			t.Fatalf("testdata/examples.txt:%d: no ' | '", n+1)
		}
		e := example{command: command, line: shell, place: words[0]}
		for _, w := range words[1:] {
			code, isExit := strings.CutPrefix(w, "exit=")
			switch {
			case isExit:
				e.exit = code
			case w == "silent":
				e.silent = true
			case w == "interrupt":
				e.interrupt = true
			case strings.HasPrefix(w, "background"):
				e.background = true
				_, e.port, _ = strings.Cut(w, ":")
			case strings.HasPrefix(w, "-"):
				e.args = append(e.args, w)
			default:
				t.Fatalf("testdata/examples.txt:%d: %q", n+1, w)
			}
		}
		e.exit = cmp.Or(e.exit, "0")
		all = append(all, e)
	}
	return all
}
