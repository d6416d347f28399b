// Package man writes manual pages from a tree of commands: one for the program
// and one for each command, from the texts that --help prints.
package man

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Options say what stands on every page.
type Options struct {
	Date    time.Time // of the sources, so that two builds write the same bytes
	Version string    // "peerdirect 1.2"
	// Sections gives more sections of a command, by its path ("peerdirect topo"):
	// title, then term and text of each entry.
	Sections map[string][]Section
}

// Section is one of a page, as FILES or ENVIRONMENT.
type Section struct {
	Title   string
	Entries [][2]string
}

// Write writes the pages of root and of every command below it that is not hidden
// into dir, which it makes. It gives the names of the files.
func Write(dir string, root *cobra.Command, o Options) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, cmd := range commands(root) {
		name := filepath.Join(dir, pageName(cmd)+".1")
		if err := os.WriteFile(name, Page(cmd, o), 0o644); err != nil {
			return files, err
		}
		files = append(files, name)
	}
	return files, nil
}

// commands are cmd and those below it that have pages.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, commands(sub)...)
		}
	}
	return all
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// Page is the page of a command in the language of man(7).
func Page(cmd *cobra.Command, o Options) []byte {
	p := &page{}
	p.line(`.TH "%s" 1 "%s" "%s" "User Commands"`, escape(strings.ToUpper(pageName(cmd))), o.Date.UTC().Format(time.DateOnly), escape(o.Version))
	p.line(".nh\n.ad l") // commands and names stay whole
	p.section("NAME")
	p.line(`%s \-`, escape(pageName(cmd)))
	p.fill(lowerFirst(cmd.Short))
	p.section("SYNOPSIS")
	p.synopsis(cmd)
	p.section("DESCRIPTION")
	long, exits := cutExits(cmd.Long)
	if long == "" {
		long = cmd.Short + "."
	}
	p.text(long)
	p.commands(cmd)
	p.flags(cmd)
	p.exits(cmd, exits)
	for _, s := range o.Sections[cmd.CommandPath()] {
		p.section(s.Title)
		for _, e := range s.Entries {
			p.entry(`.B `+escape(e[0]), e[1])
		}
	}
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.verbatim(strings.Split(cmd.Example, "\n"))
	}
	p.seeAlso(cmd)
	return p.Bytes()
}

type page struct {
	bytes.Buffer
	begun bool // the section has text
}

func (p *page) line(format string, args ...any) {
	fmt.Fprintf(&p.Buffer, format+"\n", args...)
	p.begun = true
}

func (p *page) section(title string) {
	p.line(".SH %s", title)
	p.begun = false
}

// paragraph begins one, except at a section's begin.
func (p *page) paragraph() {
	if p.begun {
		p.line(".PP")
	}
}

// entry is one of a list: a term, in roff, and its text.
func (p *page) entry(term, text string) {
	p.line(".TP\n%s", term)
	p.fill(text)
}

// synopsis is the command's form, and that with a command of its own.
func (p *page) synopsis(cmd *cobra.Command) {
	words := strings.Fields(cmd.UseLine())
	own := len(strings.Fields(cmd.CommandPath()))
	p.line(".B %s", escape(strings.Join(words[:own], " ")))
	for _, w := range words[own:] {
		p.line(".I %s", escape(w))
	}
	if cmd.HasAvailableSubCommands() {
		p.line(".br\n.B %s\n.I COMMAND\n.I [flags]", escape(cmd.CommandPath()))
	}
}

// commands lists those below.
func (p *page) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			p.entry(`.BR `+escape(pageName(sub))+` (1)`, sub.Short+".")
		}
	}
}

func (p *page) flags(cmd *cobra.Command) {
	p.section("OPTIONS")
	show := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		term := `\fB\-\-` + escape(f.Name) + `\fR`
		if f.Shorthand != "" {
			term = `\fB\-` + f.Shorthand + `\fR, ` + term
		}
		switch {
		case f.Value.Type() == "bool" && f.DefValue == "true":
			term += `=\fIfalse\fR`
		case kind != "":
			term += ` \fI` + escape(kind) + `\fR`
		}
		if !isZero(f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		p.entry(term, usage)
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	cmd.NonInheritedFlags().VisitAll(show)
	cmd.InheritedFlags().VisitAll(show)
}

// isZero tells defaults that go without saying, as in pflag's usages.
func isZero(value string) bool {
	return slices.Contains([]string{"", "0", "0s", "false", "[]"}, value)
}

var (
	exitsBegin = regexp.MustCompile(`(?s)(?:^|\n\n)Exit codes?: (.*?)(\n\n|$)`)
	exitCode   = regexp.MustCompile(`(?:^|[;,] )(\d)\s`)
)

// cutExits takes the paragraph of exit codes out of a text.
func cutExits(long string) (rest, exits string) {
	at := exitsBegin.FindStringSubmatchIndex(long)
	if at == nil {
		return strings.TrimSpace(long), ""
	}
	rest = strings.TrimSpace(long[:at[0]] + "\n\n" + long[at[1]:])
	return rest, strings.Join(strings.Fields(long[at[2]:at[3]]), " ")
}

// exits has an entry for each code; a command that tells none has the program's.
func (p *page) exits(cmd *cobra.Command, exits string) {
	p.section("EXIT STATUS")
	if exits == "" {
		_, exits = cutExits(cmd.Root().Long)
	}
	at := exitCode.FindAllStringSubmatchIndex(exits, -1)
	for i, m := range at {
		end := len(exits)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		p.entry(`.B `+exits[m[2]:m[3]], strings.TrimRight(strings.TrimSpace(exits[m[1]:end]), ";,.")+".")
	}
}

// seeAlso names the pages around.
func (p *page) seeAlso(cmd *cobra.Command) {
	var names []string
	add := func(c *cobra.Command) { names = append(names, `.BR `+escape(pageName(c))+` (1)`) }
	for c := cmd.Parent(); c != nil; c = c.Parent() {
		add(c)
	}
	around := cmd
	if !cmd.HasAvailableSubCommands() && cmd.HasParent() && cmd.Parent().HasParent() {
		around = cmd.Parent() // the others of its group
	}
	for _, c := range around.Commands() {
		if c != cmd && c.IsAvailableCommand() && c.Name() != "help" {
			add(c)
		}
	}
	if len(names) > 0 {
		p.section("SEE ALSO")
		p.line("%s", strings.Join(names, ",\n"))
	}
}
