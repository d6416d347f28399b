//go:build lab

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	"github.com/peerdirect/peerdirect/internal/tracereport"
)

// traceRecord is what the tests read of a record.
type traceRecord struct {
	Schema, Record, Event, Text string
	PID                         int // 0: processes that have ended
	Process                     *string
	Device, Operation, Kind     *string
	Size                        *uint64
	Failed                      uint64
	Whole                       traceTimes
	Phases                      map[string]traceTimes
	Attached                    bool
	Lost                        map[string]uint64
	Overhead                    *struct{ Share float64 }
	Rate                        *float64
	Took                        int64            `json:"took_ns"`
	Spent                       map[string]int64 `json:"phases_ns"`
	Stack                       []string
	Probes                      []struct{ Role, Function, Usable, By, Why string }
}

type traceTimes struct {
	Count uint64
	Sum   int64 `json:"sum_ns"`
	P50   int64 `json:"p50_ns"`
}

// tracing is a peerdirect trace that runs.
type tracing struct {
	cmd     *exec.Cmd
	begun   traceRecord
	records chan traceRecord
	mu      sync.Mutex
	stderr  bytes.Buffer
}

func (tr *tracing) Write(b []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.stderr.Write(b)
}

func (tr *tracing) told() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.stderr.String()
}

// tells waits until something is on standard error.
func (tr *tracing) tells(t *testing.T, what string) string {
	t.Helper()
	for range 100 {
		if strings.Contains(tr.told(), what) {
			return tr.told()
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("standard error does not tell %q: %s", what, tr.told())
	return ""
}

// startTracing starts peerdirect trace registrations --json and waits until it traces.
func startTracing(t *testing.T, args ...string) *tracing {
	t.Helper()
	return startTracingBy(t, exec.Command("peerdirect", append([]string{"trace", "registrations", "--json"}, args...)...))
}

func startTracingBy(t *testing.T, cmd *exec.Cmd) *tracing {
	t.Helper()
	tr := &tracing{cmd: cmd, records: make(chan traceRecord, 100000)}
	tr.cmd.Stderr = tr
	out, err := tr.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(tr.records)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var record traceRecord
			if err := json.Unmarshal(line, &record); err != nil || record.Schema != tracereport.RegistrationsSchema {
				record = traceRecord{Record: "broken", Text: string(line)}
			}
			tr.records <- record
		}
	}()
	t.Cleanup(func() {
		if tr.cmd.ProcessState == nil {
			tr.cmd.Process.Kill()
			tr.cmd.Wait()
		}
	})
	tr.begun = tr.expect(t, "the begin of the trace", func(r traceRecord) bool { return r.Record == "begin" })
	return tr
}

// expect waits for a record.
func (tr *tracing) expect(t *testing.T, what string, ok func(traceRecord) bool) traceRecord {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		select {
		case r, open := <-tr.records:
			if !open {
				t.Fatalf("%s: the trace ended: %s", what, tr.told())
			}
			if ok(r) {
				return r
			}
		case <-timeout:
			t.Fatalf("%s: not within a minute: %s", what, tr.told())
		}
	}
}

// rest waits for the trace's end, which must be without a fault, and gives the records.
func (tr *tracing) rest(t *testing.T) (all []traceRecord) {
	t.Helper()
	for r := range tr.records {
		if r.Record == "broken" {
			t.Errorf("a record cannot be read: %s", r.Text)
		}
		all = append(all, r)
	}
	if err := tr.cmd.Wait(); err != nil {
		t.Fatalf("the trace: %v: %s", err, tr.told())
	}
	return all
}

// end sends a signal and gives the last records.
func (tr *tracing) end(t *testing.T, with syscall.Signal) []traceRecord {
	t.Helper()
	if err := tr.cmd.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
	return tr.rest(t)
}

func (tr *tracing) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := tr.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// registrar builds the program that registers.
func registrar(t *testing.T) registering {
	t.Helper()
	program := filepath.Join(t.TempDir(), "registrar")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "../../ebpfprobes/testdata/registrar.c", "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return registering{program, labDevice(t)}
}

type registering struct{ program, device string }

func (r registering) command(length, count int) *exec.Cmd {
	return exec.Command(r.program, r.device, "host", strconv.Itoa(length), strconv.Itoa(count))
}

// run registers and deregisters so many times, and gives the process's number.
func (r registering) run(t *testing.T, length, count int) (pid int) {
	t.Helper()
	cmd := r.command(length, count)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return cmd.Process.Pid
}

// rowOf gives the last row of a process and operation.
func rowOf(all []traceRecord, pid int, operation string) (row traceRecord) {
	for _, r := range all {
		if r.Record == "row" && r.PID == pid && r.Operation != nil && *r.Operation == operation {
			row = r
		}
	}
	return row
}

// TestTraceRegistrations holds the records, the metrics and the picture to a program
// that is known.
func TestTraceRegistrations(t *testing.T) {
	program := registrar(t)
	picture := filepath.Join(t.TempDir(), "a.svg")
	tr := startTracing(t, "--duration", "10m", "--interval", "1s", "--svg", picture, "--listen", ":0")
	pid := program.run(t, 64<<10, 300)
	checkScrapes(t, tr, program.device, 300)
	all := tr.end(t, syscall.SIGINT)
	for _, operation := range []string{"register", "deregister"} {
		r := rowOf(all, pid, operation)
		if r.Whole.Count != 300 || r.Failed != 0 || r.Device == nil || *r.Device != labDevice(t) || r.Kind == nil || *r.Kind != "host" || r.Size == nil || *r.Size != 64<<10 {
			t.Errorf("%s: %+v", operation, r)
		}
		var phases int64
		for _, p := range r.Phases {
			phases += p.Sum
		}
		if phases != r.Whole.Sum {
			t.Errorf("%s: phases of %d ns in all, of %d", operation, phases, r.Whole.Sum)
		}
	}
	if p := rowOf(all, pid, "register").Phases; p["pin"].Count != 300 || p["driver"].Count != 300 {
		t.Errorf("phases %+v", p)
	}
	last := all[len(all)-1]
	if last.Record != "tracing" || !last.Attached || last.Overhead == nil {
		t.Errorf("the last record is %+v", last)
	}
	for what, n := range last.Lost {
		if n != 0 {
			t.Errorf("%d %s were lost", n, what)
		}
	}
	svg, err := os.ReadFile(picture)
	if err != nil || !bytes.Contains(svg, []byte("register, host")) {
		t.Errorf("the picture: %v: %.200s", err, svg)
	}
}

// TestTraceDuration ends by itself, with a table.
func TestTraceDuration(t *testing.T) {
	program := registrar(t)
	cmd := exec.Command("peerdirect", "trace", "registrations", "--duration", "3s", "--log2", "--max-overhead", "90%") // an emulated machine is slow
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	pid := 0
	for pid = program.run(t, 4096, 50); len(done) == 0; pid = program.run(t, 4096, 50) {
	}
	if err := <-done; err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %s", err, &stderr)
	}
	for _, part := range []string{"WHERE THE TIME GOES", "registrar", labDevice(t), "deregister", "4K", "nsecs", "overhead: "} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in (the last was %d):\n%s", part, pid, &out)
		}
	}
}

// TestTraceEvents sees each call, with its stack.
func TestTraceEvents(t *testing.T) {
	program := registrar(t)
	tr := startTracing(t, "--stacks")
	cmd := program.command(1<<20, 20)
	cmd.Args = append(cmd.Args, "wait") // stacks are named while the process is there
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "\n")
	var events, named int
	var stack []string
	for events < 40 {
		e := tr.expect(t, "an event", func(r traceRecord) bool { return r.Record == "event" && r.PID == cmd.Process.Pid })
		events++
		var sum int64
		for _, ns := range e.Spent {
			sum += ns
		}
		if sum != e.Took {
			t.Errorf("phases of %d ns in a call of %d", sum, e.Took)
		}
		if frames := strings.Join(e.Stack, "\n"); strings.Contains(frames, "libibverbs.so") && strings.Contains(frames, "main+0x") {
			named++
		}
		stack = e.Stack
	}
	in.Close()
	cmd.Wait()
	for _, r := range tr.end(t, syscall.SIGTERM) {
		if r.Record == "event" && r.PID == cmd.Process.Pid {
			t.Errorf("one event too many: %+v", r)
		}
	}
	t.Logf("%q", stack)
	if named != events {
		t.Errorf("%d of %d events have a stack that is named; the last is %q", named, events, stack)
	}
}

// TestTraceProbes shows what startTracing attached.
func TestTraceProbes(t *testing.T) {
	var p struct {
		Schema string
		Probes []struct {
			Role, Function, Usable string
			Needed                 bool
		}
	}
	if err := json.Unmarshal([]byte(output(t, "peerdirect", "trace", "probes", "--json", "--purpose", "registrations")), &p); err != nil {
		t.Fatal(err)
	}
	usable := map[string]bool{}
	for _, probe := range p.Probes {
		usable[probe.Role] = usable[probe.Role] || probe.Usable == "yes"
	}
	for _, role := range []string{"deregistering", "pinning", "driver's operation", "whole call", "kind of memory"} {
		if !usable[role] {
			t.Errorf("%s: nothing to attach to: %+v", role, p.Probes)
		}
	}
	t.Log(output(t, "peerdirect", "trace", "probes"))
}
