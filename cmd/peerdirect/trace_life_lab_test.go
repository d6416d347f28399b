//go:build lab

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

type attachedThings struct{ programs, maps, links, probes int }

// attachedNow counts what the whole machine has of BPF, and of probes.
func attachedNow(t *testing.T) (now attachedThings) {
	t.Helper()
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		now.programs++
	}
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		now.maps++
	}
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		now.links++
	}
	if err := links.Err(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/sys/kernel/debug/kprobes/list", "/sys/kernel/tracing/kprobe_events", "/sys/kernel/tracing/uprobe_events"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		now.probes += strings.Count(string(text), "\n")
	}
	return now
}

// settled is what the whole machine has once it does not change: what a trace before had is
// freed behind a grace period.
func settled(t *testing.T) (now attachedThings) {
	t.Helper()
	now = attachedNow(t)
	for range 60 {
		time.Sleep(time.Second)
		before := now
		if now = attachedNow(t); now == before {
			return now
		}
	}
	t.Fatalf("what is attached changes all the time: %+v", now)
	return now
}

// TestTraceFaultKilled kills tracers of every kind, by fentry and by kprobes: the kernel
// must be as it was.
func TestTraceFaultKilled(t *testing.T) {
	program := forAll(t)
	setting(t, paranoid, "2")
	before := settled(t)
	for how, as := range map[string]*syscall.SysProcAttr{"fentry": nil, "kprobes": nobody(unix.CAP_BPF, unix.CAP_PERFMON)} {
		for _, what := range traces {
			cmd := exec.Command(program, "trace", what, "--json", "--max-overhead", "0")
			cmd.SysProcAttr = as
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil { // the first record: it is attached
				t.Errorf("%s by %s: %v", what, how, err)
			}
			during := attachedNow(t)
			cmd.Process.Kill()
			cmd.Wait()
			if during.links <= before.links || (during.probes > before.probes) != (how == "kprobes") {
				t.Errorf("%s by %s: %+v before, %+v while it traces", what, how, before, during)
			}
		}
	}
	if after := settled(t); after != before {
		t.Errorf("%+v before, %+v after tracers were killed", before, after)
	}
}

// TestTraceFaultProcess names processes that cannot be followed, or not for long.
func TestTraceFaultProcess(t *testing.T) {
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	thread := 0 // of this process, but not its first
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tasks {
		if n, _ := strconv.Atoi(e.Name()); n != os.Getpid() {
			thread = n
		}
	}
	for pid, want := range map[string]struct {
		status int
		told   string
	}{
		"-1":                 {exitUsage, "is no process"},
		"x":                  {exitUsage, "is no process"},
		"4194303":            {exitFailed, "no such process"},
		"2":                  {exitFailed, "thread of the kernel"},
		strconv.Itoa(thread): {exitFailed, "thread of process " + strconv.Itoa(os.Getpid())},
	} {
		for _, what := range []string{"registrations", "leaks"} {
			status, told := shortTrace(t, "peerdirect", nil, what, "--pid", pid)
			if status != want.status || !strings.Contains(told, want.told) || strings.Contains(told, "strconv") {
				t.Errorf("%s --pid %s: status %d, want %d: %s", what, pid, status, want.status, told)
			}
		}
	}
	// The process becomes another program, and then ends.
	program := registrar(t)
	shell := exec.Command("sh", "-c", "read x; exec "+program.program+" "+program.device+" host 4096 40")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	tr := startTracing(t, "--pid", strconv.Itoa(shell.Process.Pid))
	io.WriteString(in, "\n")
	if err := shell.Wait(); err != nil {
		t.Fatal(err)
	}
	all := tr.rest(t)
	if r := rowOf(all, shell.Process.Pid, "register"); r.Whole.Count != 40 || *r.Process != "registrar" {
		t.Errorf("after exec: %+v", r)
	}
	tr = startTracing(t, "--pid", strconv.Itoa(sleeper.Process.Pid))
	sleeper.Process.Kill()
	sleeper.Wait()
	if all := tr.rest(t); !slices.ContainsFunc(all, func(r traceRecord) bool { return r.Event == "ended" }) {
		t.Errorf("the end of the process is not told: %+v", all)
	}
}

// TestTraceFaultClock sets the clock of the day while calls are traced: durations are of
// another clock.
func TestTraceFaultClock(t *testing.T) {
	program := registrar(t)
	picture := filepath.Join(t.TempDir(), "a.svg")
	began := time.Now()
	set := func(to time.Time) {
		at := unix.NsecToTimespec(to.UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &at); err != nil {
			t.Fatal(err)
		}
	}
	now := func() time.Time { return began.Add(time.Since(began)) } // by the monotonic clock
	t.Cleanup(func() { set(now()) })
	tr := startTracing(t, "--events", "--interval", "500ms", "--svg", picture, "--listen", ":0")
	var pids []int
	for _, to := range []time.Time{now(), now().Add(time.Hour), time.Unix(7200, 0), now()} {
		set(to)
		pids = append(pids, program.run(t, 4096, 30))
		time.Sleep(time.Second)
	}
	checkScrapes(t, tr, program.device, 30*uint64(len(pids)))
	all := tr.end(t, syscall.SIGINT)
	for _, pid := range pids {
		if r := rowOf(all, pid, "register"); r.Whole.Count != 30 || r.Whole.P50 <= 0 || r.Whole.P50 > int64(time.Minute) {
			t.Errorf("%+v", r)
		}
	}
	events := 0
	for _, r := range all {
		if r.Record == "event" {
			events++
			if r.Took <= 0 || r.Took > int64(time.Minute) {
				t.Errorf("%+v", r)
			}
		}
		if r.Rate != nil && *r.Rate < 0 {
			t.Errorf("a rate below zero: %+v", r)
		}
	}
	if events < 60*len(pids) {
		t.Errorf("%d events", events)
	}
	checkPicture(t, picture)
}

// checkPicture reads a heat map, none of whose numbers may be below zero.
func checkPicture(t *testing.T, picture string) {
	t.Helper()
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shapes := 0
	for d := xml.NewDecoder(file); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		shape, ok := token.(xml.StartElement)
		if !ok || shape.Name.Local != "rect" {
			continue
		}
		shapes++
		for _, a := range shape.Attr {
			n, err := strconv.ParseFloat(a.Value, 64)
			if slices.Contains([]string{"x", "y", "width", "height"}, a.Name.Local) && !strings.HasSuffix(a.Value, "%") && (err != nil || !(n >= 0 && n < 10000)) {
				t.Errorf("%v", shape)
			}
		}
	}
	if shapes < 3 {
		t.Errorf("%d shapes in the picture", shapes)
	}
}

// TestTraceFaultTogether traces twice: one that detaches, and ends, does not disturb the
// other.
func TestTraceFaultTogether(t *testing.T) {
	program := registrar(t)
	one, other := startTracing(t), startTracing(t)
	first := program.run(t, 4096, 30)
	other.signal(t, syscall.SIGUSR1)
	other.expect(t, "detaching", func(r traceRecord) bool { return r.Event == "detached" })
	second := program.run(t, 4096, 30)
	if r := rowOf(other.end(t, syscall.SIGINT), first, "register"); r.Whole.Count != 30 {
		t.Errorf("the one that was detached: %+v", r)
	}
	third := program.run(t, 4096, 30)
	all := one.end(t, syscall.SIGINT)
	for _, pid := range []int{first, second, third} {
		if r := rowOf(all, pid, "register"); r.Whole.Count != 30 {
			t.Errorf("%+v", r)
		}
	}
	for what, n := range all[len(all)-1].Lost {
		if n != 0 {
			t.Errorf("%d %s were lost", n, what)
		}
	}
}

// TestTraceFaultStarts traces for a moment a hundred times, with signals at any time: nothing may be left.
func TestTraceFaultStarts(t *testing.T) {
	before := settled(t)
	for i := range 100 {
		cmd := exec.Command("peerdirect", "trace", traces[i%len(traces)], "--max-overhead", "0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 15 * time.Millisecond)
		cmd.Process.Signal([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}[i%3])
		cmd.Wait()
	}
	if after := settled(t); after != before {
		t.Errorf("%+v before, %+v after", before, after)
	}
}
