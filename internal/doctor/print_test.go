package doctor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/golden"
)

// report has a finding of each kind, and what hostile sides may put into one.
func report() *Report {
	one := Check{Name: "memlock", Group: "limits"}
	two := Check{Name: "modules", Group: "kernel"}
	three := Check{Name: "gids", Group: "ports"}
	return &Report{Source: "node7.tgz", Kernel: "6.12.0", Checked: []Checked{
		{two, []Finding{
			{Check: "modules", Subject: "ib_core", Verdict: OK, Summary: "it runs", Evidence: []string{"/proc/modules: ib_core Live"}},
			{Check: "modules", Subject: "ib_uverbs", Verdict: Fail, Cause: CauseUnsupported, Summary: "not loaded: through it programs open RDMA devices",
				Evidence: []string{"neither /proc/modules nor /sys/module has ib_uverbs", "/lib/modules/6.12.0/kernel/drivers/infiniband/core/ib_uverbs.ko.xz"},
				Remedy:   "load it; rdma-core's rules for udev load what a NIC needs when it appears", Commands: []string{"modprobe ib_uverbs"}},
		}},
		{Check{Name: "command-line", Group: "kernel"}, []Finding{{Check: "command-line", Verdict: OK, Summary: "it has nothing that matters here"}}},
		{Check{Name: "nothing", Group: "kernel"}, nil},
		{one, []Finding{
			{Check: "memlock", Subject: "process 7", Verdict: Warn, Summary: "8 MiB of host memory may be pinned", Remedy: "raise it", Commands: []string{"modprobe ib_uverbs", "prlimit --pid 7 --memlock=unlimited:unlimited"}},
			{Check: "memlock", Subject: "process 8", Verdict: Unknown, Summary: "the capture does not hold /proc/8/limits", missing: true},
		}},
		{three, []Finding{
			{Check: "gids", Subject: "evil\x1b[2J\n# 0", Verdict: Warn, Summary: "a name with a line break\nrm -rf /", Remedy: "rename it\nreboot", Commands: []string{"rdma dev set " + quote("evil\x1b[2J\n# 0; reboot") + " name good"}},
			{Check: "gids", Verdict: Note, Summary: "worth knowing", Evidence: []string{"shown with --all"}},
			{Check: "gids", Subject: "mlx5_0/1", Verdict: Unknown, Summary: "it could not be told", Evidence: []string{"/sys/x: permission denied"}, Counters: map[string]uint64{"rx_discards": 3}},
		}},
	}}
}

func TestPrinted(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"report.txt":        func(w io.Writer) error { return WriteText(w, report(), TextOptions{}) },
		"report-40.txt":     func(w io.Writer) error { return WriteText(w, report(), TextOptions{Width: 40}) },
		"report-all.txt":    func(w io.Writer) error { return WriteText(w, report(), TextOptions{All: true}) },
		"report-colour.txt": func(w io.Writer) error { return WriteText(w, report(), TextOptions{Width: 60, Colour: true}) },
		"report.json":       func(w io.Writer) error { return WriteJSON(w, report(), 1) },
		"fix.sh":            func(w io.Writer) error { return WriteFix(w, report()) },
		"empty.txt":         func(w io.Writer) error { return WriteText(w, &Report{}, TextOptions{}) },
		"empty.sh":          func(w io.Writer) error { return WriteFix(w, &Report{Source: "/"}) },
		"list.txt":          func(w io.Writer) error { return WriteList(w, systemChecks, TextOptions{Width: 80}) },
		"list.json":         func(w io.Writer) error { return WriteListJSON(w, systemChecks[:2]) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, b.Bytes())
			for line := range strings.Lines(b.String()) {
				if name == "report-40.txt" && len(line) > 41 && !strings.Contains(line, "$ ") && len(strings.Fields(line)) > 1 {
					t.Errorf("a line of %d: %q", len(line), line)
				}
			}
			// What cannot be written is the error, and nothing is written after it.
			broken := &brokenPipe{left: b.Len() / 2}
			if err := write(broken); !errors.Is(err, io.ErrClosedPipe) || broken.after > 1 {
				t.Errorf("%v, and %d writes after it", err, broken.after)
			}
		})
	}
}

// brokenPipe takes some bytes, then no more.
type brokenPipe struct{ left, after int }

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		p.after++
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// A shell takes the script for what it says: commands, and comments.
func TestFixIsAScript(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	var b bytes.Buffer
	if err := WriteFix(&b, report()); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"modprobe", "prlimit", "rdma", "reboot", "rm"} {
		if err := os.WriteFile(folder+"/"+name, []byte("#!"+shell+"\necho \"${0##*/}:$#:$*\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell)
	cmd.Stdin, cmd.Env = &b, []string{"PATH=" + folder}
	got, err := cmd.CombinedOutput()
	want := "modprobe:1:ib_uverbs\nprlimit:3:--pid 7 --memlock=unlimited:unlimited\nrdma:5:dev set evil?[2J?# 0; reboot name good\n"
	if err != nil || string(got) != want {
		t.Errorf("%v: %q; want %q", err, got, want)
	}
}

func TestWorst(t *testing.T) {
	of := func(found ...Finding) *Report { return &Report{Checked: []Checked{{Findings: found}}} }
	for name, c := range map[string]struct {
		r     *Report
		worst Verdict
		cause Cause
	}{
		"nothing":           {of(), OK, CauseOther},
		"a note":            {of(Finding{Verdict: OK}, Finding{Verdict: Note}), Note, CauseOther},
		"unknown and warn":  {of(Finding{Verdict: Warn}, Finding{Verdict: Unknown}), Warn, CauseOther},
		"one cause":         {of(Finding{Verdict: Warn}, Finding{Verdict: Fail, Cause: CauseNoDevice}, Finding{Verdict: Fail, Cause: CauseNoDevice}), Fail, CauseNoDevice},
		"two causes":        {of(Finding{Verdict: Fail, Cause: CauseNoDevice}, Finding{Verdict: Fail, Cause: CausePermission}), Fail, CauseOther},
		"a cause and other": {of(Finding{Verdict: Fail}, Finding{Verdict: Fail, Cause: CausePermission}), Fail, CauseOther},
	} {
		if worst, cause := c.r.Worst(); worst != c.worst || cause != c.cause {
			t.Errorf("%s: %v, %v; want %v, %v", name, worst, cause, c.worst, c.cause)
		}
	}
}

func TestSelect(t *testing.T) {
	names := func(checks []Check) string {
		var all []string
		for _, c := range checks {
			all = append(all, c.Name)
		}
		return strings.Join(all, " ")
	}
	all := []Check{{Name: "a", Group: "g"}, {Name: "b", Group: "g"}, {Name: "c", Group: "h"}}
	for _, c := range []struct {
		only, skip []string
		want, err  string
	}{
		{nil, nil, "a b c", ""}, {[]string{"g"}, nil, "a b", ""}, {[]string{"c", "a"}, nil, "a c", ""}, {nil, []string{"g"}, "c", ""},
		{[]string{"g"}, []string{"a"}, "b", ""}, {[]string{"x"}, nil, "", "there are g, a, b, h, c"}, {nil, []string{""}, "", `""`}, {[]string{"a"}, []string{"g"}, "", "no check is left"},
	} {
		got, err := Select(all, c.only, c.skip)
		if c.err == "" && (err != nil || names(got) != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%v without %v: %s, %v; want %s, %s", c.only, c.skip, names(got), err, c.want, c.err)
		}
	}
}

// Each check has what the list shows of it, and a name of its own.
func TestChecksAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		switch {
		case c.Run == nil, c.About == "", c.Group == "", c.Name == "", strings.ToLower(c.Name) != c.Name, strings.ContainsAny(c.Name, " _,"), strings.ContainsAny(c.Group, ","):
			t.Errorf("%+v lacks something", c)
		case seen[c.Name]:
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
	}
}
