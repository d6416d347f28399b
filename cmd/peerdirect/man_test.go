package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestManualPages: a page for each command, the same bytes each time, with the
// sections that a reader looks for, and without a warning of mandoc's.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	write := func() string {
		dir := filepath.Join(t.TempDir(), "man")
		if stdout, stderr, code := execute(t.Context(), "man "+dir); code != exitOK || stdout+stderr != "" {
			t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
		}
		return dir
	}
	dir, again := write(), write()
	var files []string
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := os.ReadFile(filepath.Join(again, name)); !bytes.Equal(page, second) {
			t.Errorf("%s is another each time", name)
		}
		files = append(files, filepath.Join(dir, name))
		want := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"}
		if cmd.Example != "" {
			want = append(want, "EXAMPLES")
		}
		for _, section := range want {
			if !bytes.Contains(page, []byte("\n.SH "+section+"\n")) {
				t.Errorf("%s has no section %s", name, section)
			}
		}
		if !bytes.Contains(page, []byte(` 1 "2023-11-14" `)) {
			t.Errorf("%s: the date is not that of SOURCE_DATE_EPOCH", name)
		}
		checkExits(t, name, page)
	})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(files) {
		t.Errorf("%d pages of %d commands, %v", len(entries), len(files), err)
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("needs mandoc ('scripts/deps test' installs it)")
	}
	if out, err := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

var exitEntry = regexp.MustCompile(`(?m)^\.TP\n\.B (\d)\n(.*)$`)

// checkExits: the codes stand in order, each with its meaning.
func checkExits(t *testing.T, name string, page []byte) {
	_, exits, _ := bytes.Cut(page, []byte("\n.SH EXIT STATUS\n"))
	exits, _, _ = bytes.Cut(exits, []byte("\n.SH "))
	all := exitEntry.FindAllSubmatch(exits, -1)
	for i, m := range all {
		if i > 0 && m[1][0] <= all[i-1][1][0] || len(m[2]) < 4 {
			t.Errorf("%s: exit status %s after %s: %s", name, m[1], all[max(i-1, 0)][1], m[2])
		}
	}
	if len(all) < 2 {
		t.Errorf("%s: %d exit codes", name, len(all))
	}
}

func TestManualPagesUsage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	_, stderr, code := execute(t.Context(), "man "+t.TempDir())
	if code != exitUsage || !strings.Contains(stderr, "number of seconds") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
