//go:build lab

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// traces are the commands that attach something.
var traces = []string{"registrations", "completions", "leaks", "connections", "errors"}

// nobody is a user without privilege but these capabilities.
func nobody(capabilities ...uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}
}

// forAll is a copy of the command that every user can run.
func forAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := exec.LookPath("peerdirect")
	if err != nil {
		t.Fatal(err)
	}
	output(t, "cp", path, dir+"/peerdirect")
	if err := os.Chmod(dir+"/peerdirect", 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + "/peerdirect"
}

// shortTrace traces for a moment, and gives the exit status and standard error.
func shortTrace(t *testing.T, program string, as *syscall.SysProcAttr, what string, flags ...string) (status int, told string) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"trace", what, "--duration", "200ms"}, flags...)...)
	var stderr strings.Builder
	cmd.SysProcAttr, cmd.Stderr = as, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// refusedButMarks holds a trace that cannot be to its exit status and cause. Completions of
// this project's own need nothing of what the tests take away: they are followed on, and the
// cause is told.
func refusedButMarks(t *testing.T, what string, cause ...string) {
	t.Helper()
	if what == "completions" {
		refused(t, "peerdirect", nil, what, exitOK, append(cause, "completion events are not followed")...)
		return
	}
	refused(t, "peerdirect", nil, what, exitUnsupported, cause...)
}

// refused holds a trace that cannot be to its exit status, and to one line that names the
// cause.
func refused(t *testing.T, program string, as *syscall.SysProcAttr, what string, want int, cause ...string) {
	t.Helper()
	status, told := shortTrace(t, program, as, what)
	t.Logf("%s: %d: %s", what, status, told)
	if status != want || strings.Count(told, "\n") != 1 || strings.Contains(told, "omitted") {
		t.Errorf("%s: status %d, want %d and one line: %s", what, status, want, told)
	}
	for _, c := range cause {
		if !strings.Contains(told, c) {
			t.Errorf("%s: %q is not told: %s", what, c, told)
		}
	}
}

// setting writes one of the kernel's settings, and what was there at the test's end.
func setting(t *testing.T, path, value string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, before, 0); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
}

const paranoid = "/proc/sys/kernel/perf_event_paranoid"

// TestTraceFaultPrivileges shows what runs with which privilege.
func TestTraceFaultPrivileges(t *testing.T) {
	program := forAll(t)
	t.Run("refused", func(t *testing.T) {
		setting(t, paranoid, "3") // Debian's
		for what, c := range map[string]struct {
			as    *syscall.SysProcAttr
			cause string
		}{
			"none":    {nobody(), "lacks CAP_BPF and CAP_PERFMON"},
			"bpf":     {nobody(unix.CAP_BPF), "lacks CAP_PERFMON"},
			"perfmon": {nobody(unix.CAP_PERFMON), "lacks CAP_BPF"},
			"both":    {nobody(unix.CAP_BPF, unix.CAP_PERFMON), "sysctl kernel.perf_event_paranoid=2"},
		} {
			t.Run(what, func(t *testing.T) {
				refused(t, program, c.as, "connections", exitPermission, c.cause)
				refused(t, program, c.as, "registrations", exitPermission)
			})
		}
	})
	t.Run("without CAP_SYS_ADMIN", func(t *testing.T) {
		setting(t, paranoid, "2")
		setting(t, "/proc/sys/kernel/kptr_restrict", "2")
		for _, what := range traces {
			status, told := shortTrace(t, program, nobody(unix.CAP_BPF, unix.CAP_PERFMON), what)
			if status != exitOK || strings.Count(told, "\n") != 1 || !strings.Contains(told, "the overhead cannot be measured") {
				t.Errorf("%s: status %d: %s", what, status, told)
			}
		}
		output(t, "setcap", "cap_bpf,cap_perfmon=ep", program)
		t.Cleanup(func() { output(t, "setcap", "-r", program) })
		cmd := exec.Command(program, "trace", "registrations", "--json", "--max-overhead", "0")
		cmd.SysProcAttr = nobody()
		tr := startTracingBy(t, cmd)
		pid := registrar(t).run(t, 4096, 50)
		all := tr.end(t, syscall.SIGINT)
		if r := rowOf(all, pid, "register"); r.Whole.Count != 50 || r.Phases["driver"].Count != 50 || tr.told() != "" {
			t.Errorf("%+v; %s; attached is %+v", r, tr.told(), tr.begun.Probes)
		}
	})
	t.Run("with CAP_SYS_ADMIN", func(t *testing.T) {
		setting(t, paranoid, "4")
		for _, what := range traces {
			if status, told := shortTrace(t, program, nobody(unix.CAP_SYS_ADMIN), what); status != exitOK || told != "" {
				t.Errorf("%s: status %d: %s", what, status, told)
			}
		}
	})
}

// TestTraceFaultKprobesOff switches kprobes off, which the kernel takes as an order not to
// run what is attached by them: a trace that has nothing else must not seem to trace.
func TestTraceFaultKprobesOff(t *testing.T) {
	program := forAll(t)
	setting(t, paranoid, "2")
	setting(t, "/sys/kernel/debug/kprobes/enabled", "0")
	as := nobody(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_DAC_READ_SEARCH)
	refused(t, program, as, "leaks", exitPermission, "kprobes are switched off", "CAP_SYS_ADMIN")
	if status, told := shortTrace(t, program, nil, "leaks"); status != exitOK || told != "" {
		t.Errorf("by fentry: status %d: %s", status, told)
	}
}

// TestTraceFaultNoTypes hides the types of modules, and then the kernel's as well.
func TestTraceFaultNoTypes(t *testing.T) {
	hide(t, "tmpfs", "/sys/kernel/btf")
	for _, what := range traces[1:] {
		refusedButMarks(t, what, "types", "CONFIG_DEBUG_INFO_BTF")
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	for _, pattern := range []string{"/boot/vmlinux-R", "/lib/modules/R/vmlinux-R", "/lib/modules/R/build/vmlinux",
		"/usr/lib/modules/R/kernel/vmlinux", "/usr/lib/debug/boot/vmlinux-R", "/usr/lib/debug/boot/vmlinux-R.debug", "/usr/lib/debug/lib/modules/R/vmlinux"} {
		if path := strings.ReplaceAll(pattern, "R", release); exists(path) {
			hide(t, "/dev/null", path)
		}
	}
	for _, what := range traces[1:] {
		refusedButMarks(t, what, "cannot be fitted to this kernel without its types")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hide mounts something over a path until the test's end.
func hide(t *testing.T, with, path string) {
	t.Helper()
	var err error
	if with == "tmpfs" {
		err = unix.Mount("none", path, "tmpfs", 0, "")
	} else {
		err = unix.Mount(with, path, "", unix.MS_BIND, "")
	}
	if err != nil {
		t.Fatalf("mount over %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, 0); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
}

// TestTraceLocked locks the kernel down, as far as that is possible; nothing undoes it, so
// it has a machine of its own.
func TestTraceLocked(t *testing.T) {
	const lockdown = "/sys/kernel/security/lockdown"
	if err := unix.Mount("none", "/sys/kernel/security", "securityfs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	for _, level := range []string{"integrity", "confidentiality"} {
		if err := os.WriteFile(lockdown, []byte(level), 0); err != nil {
			t.Fatal(err)
		}
		for _, what := range traces {
			if level == "integrity" {
				if status, told := shortTrace(t, "peerdirect", nil, what); status != exitOK || told != "" {
					t.Errorf("%s, %s: status %d: %s", level, what, status, told)
				}
			} else {
				refused(t, "peerdirect", nil, what, exitUnsupported, "lockdown=confidentiality")
			}
		}
	}
	if told, err := exec.Command("peerdirect", "trace", "probes", "--purpose", "leaks").CombinedOutput(); err == nil || !strings.Contains(string(told), "lockdown") {
		t.Errorf("probes: %v: %s", err, told)
	}
	status, told := shortTrace(t, "peerdirect", nil, "registrations", "--by-syscalls")
	if t.Logf("by system calls: %d: %s", status, told); status != exitUnsupported || !strings.Contains(told, "lockdown") || strings.Contains(told, "omitted") {
		t.Errorf("by system calls: status %d: %s", status, told)
	}
}
