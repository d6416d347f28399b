package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/doctor"
	"github.com/peerdirect/peerdirect/internal/golden"
)

// doctorMachine is topoMachine with what doctor asks of a machine's process 7.
const doctorMachine = `proc/modules = ext4 1 0 - Live 0x0
lib/modules/6.12.0/modules.dep = kernel/drivers/infiniband/core/ib_core.ko.xz:
proc/7/comm = trainer
proc/cmdline = iommu=pt
proc/7/cgroup = 0::/system.slice/trainer.service
sys/devices/system/clocksource/clocksource0/current_clocksource = hpet
sys/devices/system/clocksource/clocksource0/available_clocksource = tsc hpet
`

// doctorRoot writes it; memlock is the soft and hard limit of process 7.
func doctorRoot(t *testing.T, memlock string) string {
	t.Helper()
	root := topoRoot(t, doctorMachine)
	limits := "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max open files            1024                 524288               files     \n" +
		"Max locked memory         " + memlock + "                    bytes     \n"
	if err := os.WriteFile(filepath.Join(root, "proc/7/limits"), []byte(limits), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func doctorRun(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	var out, words bytes.Buffer
	code = run(t.Context(), append([]string{"doctor"}, args...), stdin, &out, &words)
	return code, out.String(), words.String()
}

// systemGroups are those whose findings the tests here are about.
const systemGroups = "kernel-options,modules,command-line,memlock,nofile,clock-source,process-libraries"

func TestDoctorShows(t *testing.T) {
	root := doctorRoot(t, "0  0")
	for name, args := range map[string][]string{
		"doctor.txt":     nil,
		"doctor-all.txt": {"--all"},
		"doctor.json":    {"--json"},
		"doctor-fix.sh":  {"--fix"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := doctorRun(t, nil, append(args, "--sysroot", root, "--pid", "7", "--only", systemGroups)...)
			// Modules are unsupported, the limit is a permission: no one code tells both.
			if code != exitFailed || stderr != "" {
				t.Errorf("exit %d: %s", code, stderr)
			}
			golden.Check(t, name, []byte(strings.ReplaceAll(stdout, root, "ROOT")))
		})
	}
}

func TestDoctorExitCodes(t *testing.T) {
	none, some := doctorRoot(t, "0  0"), doctorRoot(t, "8388608  8388608")
	for name, c := range map[string]struct {
		args []string
		code int
		want string // in what is printed
	}{
		"nothing worse than a note": {[]string{"--sysroot", some, "--only", "command-line", "--strict"}, exitOK, "1 note."},
		"unknown":                   {[]string{"--sysroot", some, "--only", "kernel-options", "--strict"}, exitOK, "1 unknown."},
		"a warning":                 {[]string{"--sysroot", some, "--pid", "7", "--only", "memlock"}, exitOK, "1 warn."},
		"a warning, strictly":       {[]string{"--sysroot", some, "--pid", "7", "--only", "memlock", "--strict"}, exitFailed, "1 warn."},
		"no permission":             {[]string{"--sysroot", none, "--pid", "7", "--only", "memlock"}, exitPermission, "1 fail."},
		"no support":                {[]string{"--sysroot", none, "--only", "modules"}, exitUnsupported, "fail"},
		"a group":                   {[]string{"--sysroot", none, "--pid", "7", "--only", "limits", "--skip", "memlock"}, exitOK, "nofile"},
		"the list":                  {[]string{"--list"}, exitOK, "how much memory processes may pin"},
		"the list of some":          {[]string{"--list", "--json", "--only", "memlock"}, exitOK, `"name": "memlock"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := doctorRun(t, nil, c.args...)
			if code != c.code || stderr != "" || !strings.Contains(stdout, c.want) {
				t.Errorf("exit %d, want %d and %q: %s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}

func TestDoctorUsage(t *testing.T) {
	root := doctorRoot(t, "0  0")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an argument":          {[]string{"x"}, exitUsage, "unknown command"},
		"an unknown check":     {[]string{"--only", "memlok"}, exitUsage, "memlock"},
		"no check left":        {[]string{"--only", "memlock", "--skip", "limits"}, exitUsage, "no check is left"},
		"JSON of a script":     {[]string{"--json", "--fix"}, exitUsage, "choose one"},
		"a watch of a script":  {[]string{"--watch", "--fix"}, exitUsage, "--watch"},
		"a watch of a list":    {[]string{"--watch", "--list"}, exitUsage, "--watch"},
		"an interval of none":  {[]string{"--interval", "1s"}, exitUsage, "--interval is for --watch"},
		"no interval":          {[]string{"--watch", "--interval", "0s"}, exitUsage, "at least 50ms"},
		"a watch of a capture": {[]string{"--watch", "--sysroot", "-"}, exitUsage, "does not change"},
		"no process":           {[]string{"--pid", "0"}, exitUsage, "--pid 0"},
		"no root":              {[]string{"--sysroot", ""}, exitUsage, "--sysroot needs a name"},
		"a device's path":      {[]string{"--device", "../x"}, exitUsage, "no device's name"},
		"a process not there":  {[]string{"--sysroot", root, "--pid", "8"}, exitFailed, "no such process"},
		"a device not there":   {[]string{"--sysroot", root, "--device", "mlx5_9"}, exitNoDevice, "mlx5_9"},
		"a root not there":     {[]string{"--sysroot", root + "/x"}, exitFailed, "no such file"},
		"a root of nothing":    {[]string{"--sysroot", t.TempDir()}, exitFailed, "neither sys nor proc"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := doctorRun(t, nil, c.args...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, want %d and %q: %s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}

// A capture that topo made of the machine: what it does not hold is a line a group.
func TestDoctorReadsACapture(t *testing.T) {
	root := doctorRoot(t, "0  0")
	code, tar, stderr := topoRun(t, nil, "capture", "--sysroot", root, "-")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	code, stdout, stderr := doctorRun(t, strings.NewReader(tar), "--sysroot", "-", "--only", "kernel,limits,processors")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "the capture does not hold what it takes for: kernel-options, modules, command-line\n") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestDoctorIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, words bytes.Buffer
	if code := run(ctx, []string{"doctor", "--sysroot", doctorRoot(t, "0  0")}, strings.NewReader(""), &out, &words); code != exitFailed || !strings.Contains(words.String(), "interrupted") {
		t.Errorf("exit %d: %s%s", code, &out, &words)
	}
	// Standard input that gives nothing holds nobody up.
	r, w := io.Pipe()
	defer w.Close()
	if code := run(ctx, []string{"doctor", "--sysroot", "-"}, r, &out, &words); code != exitFailed {
		t.Errorf("exit %d: %s%s", code, &out, &words)
	}
}

// closedPipe is a standard output that nobody reads any more.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestDoctorIntoAClosedPipe(t *testing.T) {
	root := doctorRoot(t, "0  0")
	for _, args := range [][]string{nil, {"--json"}, {"--fix"}, {"--list"}, {"--watch"}, {"--watch", "--json"}} {
		var words bytes.Buffer
		code := run(t.Context(), append([]string{"doctor", "--sysroot", root, "--only", "memlock,command-line", "--pid", "7"}, args...), strings.NewReader(""), closedPipe{}, &words)
		if code != exitFailed || !strings.Contains(words.String(), "closed pipe") {
			t.Errorf("%v: exit %d: %s", args, code, &words)
		}
	}
}

// A watch tells what changes between its rounds, and exits by the last one.
func TestDoctorWatch(t *testing.T) {
	root := doctorRoot(t, "0  0")
	args := []string{"doctor", "--sysroot", root, "--only", "clock-source", "--watch", "--interval", "50ms"}
	for _, asJSON := range []bool{false, true} {
		clock := filepath.Join(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")
		set := func(name string) {
			if err := errors.Join(os.WriteFile(clock+".new", []byte(name+"\n"), 0o644), os.Rename(clock+".new", clock)); err != nil {
				t.Fatal(err)
			}
		}
		set("hpet")
		ctx, cancel := context.WithCancel(t.Context())
		var stdout, stderr shared
		ended := make(chan int, 1)
		more := append(args, "--strict")
		if asJSON {
			more = append(more, "--json")
		}
		go func() { ended <- run(ctx, more, strings.NewReader(""), &stdout, &stderr) }()
		first, second, third := "warn     clock source: hpet", "warn -> ok: clock-source clock source: tsc", "ok -> warn: clock-source clock source: hpet"
		if asJSON {
			first, second, third = `"round":1`, `"from":"warn","to":"ok"`, `"from":"ok","to":"warn"`
		}
		await(t, &stdout, first)
		set("tsc")
		await(t, &stdout, second)
		set("hpet")
		await(t, &stdout, third)
		cancel()
		if code := <-ended; code != exitFailed || stderr.String() != "" {
			t.Errorf("exit %d: %s", code, stderr.String())
		}
		for line := range strings.Lines(stdout.String()) {
			if asJSON && (!json.Valid([]byte(line)) || !strings.Contains(line, doctor.Schema)) {
				t.Errorf("no record: %s", line)
			}
		}
	}
}
