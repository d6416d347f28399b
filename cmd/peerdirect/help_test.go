package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls look with each command that a user sees.
func everyCommand(cmd *cobra.Command, look func(*cobra.Command)) {
	look(cmd)
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			everyCommand(sub, look)
		}
	}
}

// TestHelpIsInOneForm: what every help text has alike.
func TestHelpIsInOneForm(t *testing.T) {
	root := newRoot()
	everyCommand(root, func(cmd *cobra.Command) {
		var text bytes.Buffer
		cmd.SetOut(&text)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpColumns {
				t.Errorf("%s --help has a line of %d columns:\n%s", cmd.CommandPath(), n, line)
			}
		}
		if end := cmd.Short[len(cmd.Short)-1]; end == '.' || cmd.Short[0] < 'A' || cmd.Short[0] > 'Z' {
			t.Errorf("%s: %q is not in the form of the others", cmd.CommandPath(), cmd.Short)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { checkFlag(t, cmd, f) })
	})
}

var saysDefault = regexp.MustCompile(`\(default .*\)|\(required\)|\(default: .*\)`)

// checkFlag: a flag tells its unit and its default, and means everywhere the same.
func checkFlag(t *testing.T, cmd *cobra.Command, f *pflag.Flag) {
	name := cmd.CommandPath() + " --" + f.Name
	kind, usage := pflag.UnquoteUsage(f)
	if f.Hidden || f.Name == "help" {
		return
	}
	zero := map[string]bool{"": true, "0": true, "0s": true, "[]": true, "false": true}[f.DefValue]
	if f.Value.Type() != "bool" && zero && !saysDefault.MatchString(usage) {
		t.Errorf("%s: %q does not tell the default", name, usage)
	}
	if strings.Contains(f.Usage, "\n") {
		t.Errorf("%s: its usage has a line break: they are wrapped when they are printed", name)
	}
	if short, ok := map[string]string{
		"device": "d", "memory": "m", "ib-port": "i", "gid-index": "x", "qp": "q", "rounds": "n",
	}[f.Name]; ok && f.Shorthand != short && kind != "MiB" { // a lab machine's --memory
		t.Errorf("%s has -%s for short; elsewhere it is -%s", name, f.Shorthand, short)
	}
	if f.Name == "json" && !regexp.MustCompile(`schema peerdirect\.[a-z.-]+/\d`).MatchString(usage) {
		t.Errorf("%s: %q does not tell the schema", name, usage)
	}
}
