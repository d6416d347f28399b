//go:build lab_host

package lab

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests boot machines, and build their roots first if they must: with the
// cache filled they take a minute or two.
//
//	go test -tags lab_host ./internal/lab

// inLab runs a shell script in the lab and gives what came out.
func inLab(t *testing.T, o Options, script string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	o.Command = []string{"sh", "-c", script}
	o.Stdout, o.Stderr, o.Log = &out, &errs, t.Output()
	err = Run(t.Context(), o)
	return out.String(), errs.String(), err
}

// Every kernel boots, has the device that was asked for, and the drivers that
// Debian leaves out.
func TestHostKernels(t *testing.T) {
	for _, k := range Kernels {
		for _, link := range []Link{LinkRXE, LinkSIW} {
			t.Run(k.Series+"/"+string(link), func(t *testing.T) {
				t.Parallel() // a machine that boots keeps one CPU busy
				out, errs, err := inLab(t, Options{Kernel: k, Link: link},
					`uname -r && modprobe efa && grep -c '^efa ' /proc/modules && ibv_devinfo -d $PEERDIRECT_DEVICE | grep -o PORT_ACTIVE && pwd && echo $PEERDIRECT_KERNEL`)
				want := "1\nPORT_ACTIVE\n/peerdirect/src\n" + k.Series + "\n"
				if err != nil || !strings.HasPrefix(out, k.Series+".") || !strings.HasSuffix(out, want) {
					t.Errorf("%v\n%s%s", err, out, errs)
				}
			})
		}
	}
}

func TestHostStatusAndStreams(t *testing.T) {
	t.Parallel()
	shared := t.TempDir()
	out, errs, err := inLab(t, Options{Out: shared, Env: []string{"A=b c"}},
		`echo "$A"; echo wrong >&2; head -c 300000 /dev/zero | tr '\0' x; echo; echo kept >/peerdirect/out/file; touch /peerdirect/src/x 2>/dev/null && echo "src is writable" >&2; exit 42`)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 42 {
		t.Errorf("got %v", err)
	}
	if want := "b c\n" + strings.Repeat("x", 300000) + "\n"; out != want {
		t.Errorf("standard output: %d bytes, %.20q...", len(out), out)
	}
	if errs != "wrong\n" {
		t.Errorf("standard error: %q", errs)
	}
	if b, err := os.ReadFile(filepath.Join(shared, "file")); string(b) != "kept\n" {
		t.Errorf("the shared folder: %q, %v", b, err)
	}
}

// A command ends when it ends, whatever it left behind; a signal has the
// shell's status.
func TestHostSignalAndOrphans(t *testing.T) {
	t.Parallel()
	out, errs, err := inLab(t, Options{}, `sleep 1000 & (sleep 0.2; :) & echo up; kill -TERM $$`)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 128+int(syscall.SIGTERM) || out != "up\n" {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// A relative name begins in the folder that the user started from.
func TestHostRelativeCommand(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "tool"), []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Options{Source: src, Command: []string{"./tool"}, Stdout: io.Discard, Stderr: t.Output(), Log: t.Output()})
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 9 {
		t.Errorf("got %v", err)
	}
}

func TestHostTwoNodes(t *testing.T) {
	out, errs, err := inLab(t, Options{Nodes: 2}, `
set -e
ping -q -c 2 -i 0.2 -M do -s 8900 $PEERDIRECT_PEERS >/dev/null
if [ $PEERDIRECT_NODE = 0 ]; then
	ibv_rc_pingpong -d rxe0 -g 1 -n 100 >/dev/null
else
	until ibv_rc_pingpong -d rxe0 -g 1 -n 100 $PEERDIRECT_PEERS >/dev/null 2>&1; do sleep 0.2; done
fi
echo "$PEERDIRECT_ADDR of $PEERDIRECT_ADDRS"`)
	for _, line := range []string{
		"node0 | 192.0.2.1 of 192.0.2.1,192.0.2.2\n",
		"node1 | 192.0.2.2 of 192.0.2.1,192.0.2.2\n",
	} {
		if err != nil || !strings.Contains(out, line) {
			t.Errorf("no %q: %v\n%s%s", line, err, out, errs)
		}
	}
}

func TestHostTimeout(t *testing.T) {
	start := time.Now()
	out, _, err := inLab(t, Options{Timeout: 20 * time.Second}, `echo up; echo "the last message" >/dev/kmsg; sleep 1000`)
	var hung *GuestError
	if !errors.As(err, &hung) || !strings.Contains(hung.Console, "the last message") || out != "up\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestHostPanic(t *testing.T) {
	t.Parallel()
	_, _, err := inLab(t, Options{}, `echo c >/proc/sysrq-trigger; sleep 1000`)
	var dead *GuestError
	if !errors.As(err, &dead) || !strings.Contains(dead.Console, "sysrq triggered crash") {
		t.Errorf("got %v", err)
	}
}

func TestHostQEMURefuses(t *testing.T) {
	o := Options{QEMU: func(int) ([]string, []*os.File, error) {
		return []string{"-device", "no-such-device"}, nil, nil
	}}
	_, _, err := inLab(t, o, "true")
	if err == nil || !strings.Contains(err.Error(), "no-such-device") {
		t.Errorf("got %v", err)
	}
}

func TestHostConcurrentRuns(t *testing.T) {
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			out, errs, err := inLab(t, Options{}, fmt.Sprintf("echo run %d; ls /sys/class/infiniband", i))
			if want := fmt.Sprintf("run %d\nrxe0\n", i); err != nil || out != want {
				t.Errorf("%v\n%s%s", err, out, errs)
			}
		})
	}
	all.Wait()
}

// Whatever ends the process that runs the lab, nothing stays: no process, and
// no file.
func TestHostInterrupted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(sig.String(), func(t *testing.T) {
			source, temp := t.TempDir(), t.TempDir()
			cmd := exec.Command(self)
			cmd.Dir = source
			cmd.Env = append(os.Environ(), runEnv+"=echo up; sleep 1000", "TMPDIR="+temp)
			out, w := io.Pipe()
			cmd.Stdout, cmd.Stderr = w, t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if len(processesWith(source)) == 0 {
				t.Error("no QEMU to find afterwards")
			}
			cmd.Process.Signal(sig)
			cmd.Wait()
			if sig == os.Interrupt && cmd.ProcessState.ExitCode() != 3 {
				t.Errorf("ended with %v", cmd.ProcessState)
			}
			left := processesWith(source)
			for deadline := time.Now().Add(2 * time.Second); sig == os.Kill && len(left) > 0 && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond) // the kernel kills the children after the parent
				left = processesWith(source)
			}
			if len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
			for _, dir := range []string{source, temp} {
				if files, _ := os.ReadDir(dir); len(files) > 0 {
					t.Errorf("files left in %s: %v", dir, files)
				}
			}
		})
	}
}

// processesWith lists the processes that name a folder on their command line.
func processesWith(dir string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(dir)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// KVM that does not run a guest is found out within seconds, and TCG used.
func TestHostAccelAuto(t *testing.T) {
	start := time.Now()
	if _, errs, err := inLab(t, Options{Accel: AccelAuto}, "true"); err != nil {
		t.Errorf("%v\n%s", err, errs)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

// A terminal's size, name and interrupt key reach the command.
func TestHostTerminal(t *testing.T) {
	in, keys := io.Pipe()
	resize := make(chan [2]int, 1)
	out := &dialogue{answers: []answer{
		{"xterm\r\n30 101\r\n", func() { resize <- [2]int{31, 102} }},
		{"resized\r\n", func() { go io.WriteString(keys, "go on\r") }},
		{"got go on\r\n", func() { go keys.Write([]byte{3}) }}, // Ctrl-C
		{"interrupted\r\n", func() {}},
	}}
	err := Run(t.Context(), Options{
		Command: []string{"bash", "-c", `trap 'echo interrupted; exit 4' INT
			echo $TERM; stty size
			until [ "$(stty size)" = "31 102" ]; do sleep 0.1; done; echo resized
			read x; echo got $x
			sleep 1000 & wait`},
		Terminal: &Terminal{Input: in, Name: "xterm", Rows: 30, Cols: 101, Resize: resize},
		Stdout:   out, Log: t.Output(), Timeout: 2 * time.Minute,
	})
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 4 || len(out.answers) > 0 {
		t.Errorf("got %v, and %q", err, out.text)
	}
}

// dialogue answers what is written to it.
type dialogue struct {
	text    string
	answers []answer // still to come
}

type answer struct {
	to string
	do func()
}

func (d *dialogue) Write(p []byte) (int, error) {
	d.text += string(p)
	for len(d.answers) > 0 {
		_, rest, found := strings.Cut(d.text, d.answers[0].to)
		if !found {
			break
		}
		d.text = rest
		d.answers[0].do()
		d.answers = d.answers[1:]
	}
	return len(p), nil
}
