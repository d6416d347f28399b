package main

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/docs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsInDocuments: a command line that a document shows is one that we take, by
// its commands, the names of its flags and the number of its arguments.
func TestCommandsInDocuments(t *testing.T) {
	tree := os.DirFS("../..")
	names, err := docs.Files(tree)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range names {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range docs.Commands("peerdirect", name, string(text)) {
			seen++
			if err := takes(c.Args[1:]); err != nil {
				t.Errorf("%s:%d: %s: %v", name, c.Line, strings.Join(c.Args, " "), err)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d commands were found in %d documents", seen, len(names))
	}
}

// placeholder is a value in words of ours: ADDR, [CUDA:A], $PEERDIRECT_ADDR.
var placeholder = regexp.MustCompile(`^[\[\]A-Z.,:…$_{}0-9"-]*[A-Z…$][\[\]A-Z.,:…$_{}0-9"-]*$`)

// takes tells what is wrong with a command line. Values of flags are parsed too, but
// where a document has a placeholder for one.
func takes(args []string) error {
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	if !cmd.Runnable() && len(rest) > 0 {
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), rest[0])
	}
	cmd.InitDefaultHelpFlag()
	if cmd.Root() == cmd {
		cmd.InitDefaultVersionFlag()
	}
	if err := cmd.ParseFlags(plainLine(cmd, rest)); err != nil {
		return err
	}
	left := cmd.Flags().Args()
	if at := cmd.ArgsLenAtDash(); at >= 0 && at < len(left) && strings.HasSuffix(left[at], "peerdirect") {
		return takes(left[at+1:]) // lab run -- peerdirect …
	}
	if cmd.Args == nil || strings.Contains(strings.Join(left, " "), "…") {
		return nil
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	return cmd.Args(cmd, left)
}

// plainLine replaces the placeholders among the values of args by the flags' defaults, so
// that they parse.
func plainLine(cmd *cobra.Command, args []string) []string {
	args = append([]string(nil), args...)
	flag := func(word string) *pflag.Flag {
		name, isLong := strings.CutPrefix(word, "--")
		switch {
		case isLong && name != "":
			return cmd.Flags().Lookup(name)
		case len(word) == 2 && word[0] == '-' && word[1] != '-':
			return cmd.Flags().ShorthandLookup(word[1:])
		}
		return nil
	}
	for i, word := range args {
		name, value, joined := strings.Cut(word, "=")
		f := flag(name)
		switch {
		case word == "--":
			return args
		case f == nil:
		case joined && placeholder.MatchString(value):
			args[i] = name + "=" + f.DefValue
		case !joined && f.NoOptDefVal == "" && i+1 < len(args) && placeholder.MatchString(args[i+1]) && f.DefValue != "":
			args[i+1] = f.DefValue
		}
	}
	return args
}

func TestTakes(t *testing.T) {
	for line, want := range map[string]string{
		"devices --json": "", "transfer to ADDR --pages 512": "", "transfer to A,B --pages N": "",
		"lab run --nodes 2 -- peerdirect devices": "", "--version": "",
		"transfer tu ADDR": "unknown command", "devices --jsonn": "unknown flag", "devices all": "unknown command",
		"transfer to ADDR --pages many": "invalid argument", "lab run -- peerdirect devices --x": "unknown flag",
	} {
		if err := takes(strings.Fields(line)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
