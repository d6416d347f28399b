//go:build lab

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal of so many columns and lines: what is typed into keys comes out
// of the terminal, and what is written to the terminal comes out of keys.
func openTerminal(t *testing.T, columns, lines uint16) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() })
	fd := int(keys.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// escapes are what moves on the terminal and deletes there.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]|\r")

// TestTraceTerminal draws the live table on a narrow terminal, which no line may be wider
// than, and ends it by Ctrl-C as it is typed there: with the last table.
func TestTraceTerminal(t *testing.T) {
	const columns, lines = 44, 8
	program := registrar(t)
	keys, tty := openTerminal(t, columns, lines)
	cmd := exec.Command("peerdirect", "trace", "registrations", "--max-overhead", "0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	drawn := make(chan string, 10000)
	go func() {
		defer close(drawn)
		for r := bufio.NewReader(keys); ; {
			line, err := r.ReadString('\n')
			drawn <- line
			if err != nil { // EIO: nobody has the terminal open any more
				return
			}
		}
	}()
	var screen []string
	see := func(what string) {
		t.Helper()
		timeout := time.After(time.Minute)
		for {
			select {
			case line, open := <-drawn:
				line = escapes.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
				screen = append(screen, line)
				if n := len([]rune(line)); n >= columns {
					t.Errorf("%d columns of %d: %q", n, columns, line)
				}
				if strings.Contains(line, what) {
					return
				}
				if !open {
					t.Fatalf("%q was not drawn:\n%s", what, strings.Join(screen, "\n"))
				}
			case <-timeout:
				t.Fatalf("%q was not drawn within a minute:\n%s", what, strings.Join(screen, "\n"))
			}
		}
	}
	see("no call was seen")
	program.run(t, 4096, 30)
	see("registrar")
	if _, err := keys.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	last := ""
	for line := range drawn {
		last += escapes.ReplaceAllString(line, "")
	}
	t.Logf("%s\n== at the end ==\n%s", strings.Join(screen, "\n"), last)
	for _, part := range []string{"^C", "registrar", "deregister", "30"} {
		if !strings.Contains(last, part) {
			t.Errorf("%q is not in what is left on the terminal:\n%s", part, last)
		}
	}
}

// TestTraceHead: a reader that goes, as head does, ends the trace without a word.
func TestTraceHead(t *testing.T) {
	for _, flag := range []string{"--json", "--interval=200ms"} {
		cmd := exec.Command("peerdirect", "trace", "registrations", "--interval", "200ms", flag, "--max-overhead", "0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Errorf("%s: %v", flag, err)
		}
		out.Close()
		ended := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		err = cmd.Wait()
		if exit := new(exec.ExitError); !ended.Stop() || stderr.Len() > 0 || err != nil && !errors.As(err, &exit) {
			t.Errorf("%s: %v: %s", flag, err, &stderr)
		}
		t.Logf("%s: %v", flag, cmd.ProcessState)
	}
}

// TestTraceFaultUnloaded unloads the driver under a trace by kprobes, which do not hold
// modules, and loads it again.
func TestTraceFaultUnloaded(t *testing.T) {
	unload, load := rxe(t)
	program := registrar(t)
	setting(t, paranoid, "2")
	cmd := exec.Command(forAll(t), "trace", "registrations", "--json", "--max-overhead", "0", "--interval", "500ms")
	cmd.SysProcAttr = nobody(unix.CAP_BPF, unix.CAP_PERFMON)
	tr := startTracingBy(t, cmd)
	pids := []int{program.run(t, 4096, 30)}
	renewed := func(r traceRecord) bool { return r.Record == "notice" && r.Event == "renewed" }
	for range 2 {
		unload()
		tr.expect(t, "noticing that the driver went", renewed)
		load()
		tr.expect(t, "noticing that the driver came", renewed)
		pids = append(pids, program.run(t, 4096, 30))
	}
	all := tr.end(t, syscall.SIGINT)
	for _, pid := range pids[1:] { // the first one's rows are in records that were read
		if r := rowOf(all, pid, "register"); r.Whole.Count != 30 || r.Phases["driver"].Count != 30 {
			t.Errorf("%+v", r)
		}
	}
	if r := rowOf(all, pids[0], "register"); r.Whole.Count != 30 {
		t.Errorf("before the driver went: %+v", r)
	}
	for what, n := range all[len(all)-1].Lost {
		if n != 0 {
			t.Errorf("%d %s were lost", n, what)
		}
	}
}

// TestTraceFaultFull fills the kernel's table while the tracer cannot look: what found no
// room is counted, to the call.
func TestTraceFaultFull(t *testing.T) {
	const processes = 540 // of two rows each; the table has 1024
	crowd := filepath.Join(t.TempDir(), "crowd")
	output(t, "gcc", "-O2", "-o", crowd, "../../ebpfprobes/testdata/crowd.c", "-libverbs")
	tr := startTracing(t, "--max-overhead", "0")
	tr.signal(t, syscall.SIGSTOP)
	output(t, crowd, labDevice(t), strconv.Itoa(processes))
	tr.signal(t, syscall.SIGCONT)
	counted, lost := uint64(0), uint64(0)
	for _, r := range tr.end(t, syscall.SIGINT) {
		if r.Record == "row" && *r.Process == "crowd" {
			counted += r.Whole.Count
		}
		if r.Record == "tracing" {
			lost = r.Lost["cells"]
		}
	}
	if t.Logf("%d were counted, %d lost", counted, lost); lost == 0 || counted+lost != 2*processes {
		t.Errorf("%d calls were counted, %d lost, of %d", counted, lost, 2*processes)
	}
}

// TestTraceFaultUnconfirmed writes what looks like registrations to a file, from a process
// that has ended when the tracer looks: that these are none, nobody can know.
func TestTraceFaultUnconfirmed(t *testing.T) {
	const writes = 100 // and as many deregistrations
	caller := filepath.Join(t.TempDir(), "caller")
	output(t, "gcc", "-O2", "-o", caller, "../../ebpfprobes/testdata/caller.c", "-libverbs")
	tr := startTracing(t, "--by-syscalls", "--max-overhead", "0")
	tr.signal(t, syscall.SIGSTOP)
	cmd := exec.Command(caller, labDevice(t), "foreign", "4096", strconv.Itoa(writes))
	cmd.Stdin = strings.NewReader("\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tr.signal(t, syscall.SIGCONT)
	all := tr.end(t, syscall.SIGINT)
	if n := all[len(all)-1].Lost["unconfirmed"]; n != 2*writes {
		t.Errorf("%d are unconfirmed, of %d", n, 2*writes)
	}
	for _, r := range all {
		if r.Record == "row" {
			t.Errorf("a file is shown as a device: %+v", r)
		}
	}
}
