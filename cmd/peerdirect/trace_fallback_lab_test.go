//go:build lab

package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withoutTypes runs a command where the kernel's types are not to be found, in a mount
// namespace of its own: neither in sysfs nor in an image of the kernel.
const withoutTypes = `set -e
mount -t tmpfs none /sys/kernel/btf
r=$(uname -r)
for f in /boot/vmlinux-$r /lib/modules/$r/vmlinux-$r /lib/modules/$r/build/vmlinux /usr/lib/modules/$r/kernel/vmlinux \
	/usr/lib/debug/boot/vmlinux-$r /usr/lib/debug/boot/vmlinux-$r.debug /usr/lib/debug/lib/modules/$r/vmlinux; do
	if [ -e $f ]; then mount --bind /dev/null $f; fi
done
exec peerdirect trace registrations "$@"`

// blind is a trace without the kernel's types.
func blind(args ...string) *exec.Cmd {
	return exec.Command("unshare", append([]string{"-m", "sh", "-c", withoutTypes, "sh"}, args...)...)
}

// TestTraceRegistrationsBySyscalls falls back by itself, says so, and counts.
func TestTraceRegistrationsBySyscalls(t *testing.T)    { testTraceBySyscalls(t) }
func TestEFATraceRegistrationsBySyscalls(t *testing.T) { testTraceBySyscalls(t) }

func testTraceBySyscalls(t *testing.T) {
	program := registrar(t)
	picture := filepath.Join(t.TempDir(), "a.svg")
	for name, cmd := range map[string]*exec.Cmd{
		"without types": blind("--json", "--max-overhead", "0", "--events", "--slower-than", "1h"),
		"as asked for":  exec.Command("peerdirect", "trace", "registrations", "--json", "--max-overhead", "0", "--by-syscalls", "--device", labDevice(t), "--svg", picture, "--listen", ":0"),
	} {
		t.Run(name, func(t *testing.T) {
			tr := startTracingBy(t, cmd)
			notice := tr.expect(t, "that it fell back", func(r traceRecord) bool { return r.Record == "notice" })
			if told := tr.tells(t, "only system calls are followed"); notice.Event != "fallback" || !strings.Contains(told, notice.Text) {
				t.Errorf("%+v, and on standard error %s", notice, told)
			}
			t.Log(notice.Text)
			pid := program.linger(t, 64<<10, 300)
			if name == "as asked for" {
				checkScrapes(t, tr, program.device, 300)
			}
			tr.signal(t, syscall.SIGUSR1)
			tr.tells(t, "no module was held")
			program.run(t, 64<<10, 5)
			tr.signal(t, syscall.SIGUSR1)
			tr.tells(t, "attached again")
			again := program.linger(t, 64<<10, 7)
			all := tr.end(t, syscall.SIGTERM)
			for pid, count := range map[int]uint64{pid: 300, again: 7} {
				for _, operation := range []string{"register", "deregister"} {
					r := rowOf(all, pid, operation)
					if r.Whole.Count != count || r.Failed != 0 || r.Device == nil || *r.Device != labDevice(t) || r.Kind == nil || *r.Kind != "host" ||
						r.Size == nil || *r.Size != 64<<10 || len(r.Phases) != 1 || r.Phases["uverbs"].Sum != r.Whole.Sum {
						t.Errorf("%s: %+v", operation, r)
					}
				}
			}
			rows := 0
			for _, r := range all {
				if r.Record == "row" {
					rows++
				}
				for what, n := range r.Lost {
					if n != 0 {
						t.Errorf("lost: %s: %d", what, n)
					}
				}
			}
			if name == "as asked for" {
				checkPicture(t, picture)
			}
			if rows != 4 {
				t.Errorf("%d rows: %+v", rows, all)
			}
		})
	}
}

// linger is run, of a process that is there for a while after its calls, so that the tracer
// gets to look at its descriptors on a slow machine, too.
func (r registering) linger(t *testing.T, length, count int) (pid int) {
	t.Helper()
	cmd := r.command(length, count)
	cmd.Args = append(cmd.Args, "wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "\n")
	time.Sleep(5 * time.Second)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestTraceStacksBySyscalls: what cannot be done is refused, with the reason.
func TestTraceStacksBySyscalls(t *testing.T) {
	out, err := blind("--stacks").CombinedOutput()
	if code := exitOf(err); code != exitUnsupported || !strings.Contains(string(out), "stacks") || !strings.Contains(string(out), "CONFIG_DEBUG_INFO_BTF") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTraceTableBySyscalls is the table that a person sees.
func TestTraceTableBySyscalls(t *testing.T) {
	program := registrar(t)
	cmd := blind("--max-overhead", "0", "--duration", "3s")
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for program.run(t, 4096, 50); len(done) == 0; program.run(t, 4096, 50) {
	}
	if err := <-done; err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	for _, part := range []string{"registrar", labDevice(t), "deregister", "uverbs 100%", "not told apart: pinning, mapping"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, &out)
		}
	}
	t.Logf("%s\n%s", &stderr, &out)
}

func exitOf(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return 0
}
