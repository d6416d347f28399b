//go:build lab

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// objectRecord is what the tests read of the records of leaks, connections, errors and
// completions.
type objectRecord struct {
	Record, Verdict, What, Class, Change string
	PID                                  int
	From, To, Errno                      *string
	Alive, Count                         uint64
	Stack                                []string
	Wait                                 string
	Opcode                               *string
	Number, Size                         *uint64
	QP, Status                           any // each command's own
	Times                                *traceTimes
	Posts, Windows                       uint64
	NotFollowed                          []string `json:"not_followed"`
	Lost                                 map[string]uint64
}

// traced runs one of ebpfprobes' test programs beside a trace of it alone, and gives the
// trace's records.
func traced(t *testing.T, program string, arguments []string, trace ...string) (all []objectRecord) {
	t.Helper()
	dev := os.Getenv("PEERDIRECT_DEVICE")
	if dev == "" || strings.HasPrefix(dev, "siw") {
		t.Skip("needs rxe, on which the test programs work: lab run --link rxe")
	}
	path := filepath.Join(t.TempDir(), program)
	if out, err := exec.Command("gcc", "-O2", "-o", path, "../../ebpfprobes/testdata/"+program+".c", "-Wl,--as-needed", "-libverbs", "-lefa").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(path, append([]string{dev}, arguments...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	if said, err := lines.ReadString('\n'); said != "ready\n" {
		t.Fatalf("%s said %q, %v", program, said, err)
	}
	tracer := exec.Command("peerdirect", append(append([]string{"trace"}, trace...), "--json", "--max-overhead", "0", "--pid", strconv.Itoa(cmd.Process.Pid))...)
	records, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	tracer.Stderr = &told
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(records); ; {
		var r objectRecord
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if r.Record == "begin" {
			if slices.Contains(trace, "--polled") {
				time.Sleep(3 * time.Second) // until the window is open
			}
			in.Write([]byte("\n")) // it is attached: the program may go on
		}
		all = append(all, r)
	}
	if err := tracer.Wait(); err != nil {
		t.Fatalf("%v: %s", err, told.String())
	}
	if len(all) == 0 || all[len(all)-1].Record != "tracing" {
		t.Errorf("the records do not end with how the tracing stands: %+v", all)
	}
	return all
}

func TestTraceLeaks(t *testing.T) {
	leaks := make(map[string]bool)
	all := traced(t, "leaker", []string{"leak", "25000"}, "leaks", "--interval", "1500ms", "--duration", "20s")
	for _, r := range all {
		if r.Record == "row" && r.Verdict != "steady" {
			leaks[r.Verdict+" "+r.What+" "+strings.Join(r.Stack, " ")] = true
		}
	}
	region := false
	for l := range leaks {
		if !strings.HasPrefix(l, "leaking ") || !strings.Contains(l, " leak_regions+") && !strings.Contains(l, " leak_buffers+") {
			t.Errorf("called %s", l)
		}
		region = region || strings.HasPrefix(l, "leaking mr ") && strings.Contains(l, " leak_regions+")
	}
	if !region {
		t.Errorf("the leak was not called one: %v of %+v", leaks, all)
	}
}

func TestTraceConnections(t *testing.T) {
	var path []string
	counted := uint64(0)
	for _, r := range traced(t, "connector", []string{"rc", "1"}, "connections", "--events", "--duration", "5s") {
		switch r.Record {
		case "event":
			step := r.Change
			if r.From != nil && r.To != nil {
				step = *r.From + "-" + *r.To
			}
			if r.Errno != nil {
				step += "-" + *r.Errno
			}
			path = append(path, step)
		case "row":
			counted += r.Count
		}
	}
	want := "created RESET-INIT INIT-RTR RTR-RTS RTS-INIT-EINVAL RTS-ERR ERR-RESET destroyed"
	if got := strings.Join(path, " "); got != want || counted != 8 {
		t.Errorf("events %s, %d counted; want %s", got, counted, want)
	}
}

func TestTraceErrors(t *testing.T) {
	var failed []string
	for _, r := range traced(t, "failer", []string{"calls"}, "errors", "--events", "--duration", "5s") {
		if r.Record == "event" && r.Class == "call" && r.Errno != nil {
			what, _, _ := strings.Cut(r.What, " (")
			failed = append(failed, what+" "+*r.Errno)
		}
	}
	got := " " + strings.Join(failed, ", ") + ","
	for _, want := range []string{"reg mr EFAULT", "reg mr EINVAL", "modify qp EINVAL", "reg mr ENOMEM"} {
		if !strings.Contains(got, " "+want+",") {
			t.Errorf("%s is not among %s", want, got)
		}
	}
}

// TestTraceObjectsInWords shows the tables as they are printed.
func TestTraceObjectsInWords(t *testing.T) {
	for _, what := range []string{"leaks", "connections", "errors", "completions"} {
		begin := time.Now()
		text := output(t, "peerdirect", "trace", what, "--duration", "1s")
		if strings.Contains(text, "lost:") || text == "" {
			t.Errorf("%s: %s", what, text)
		}
		t.Logf("%s, %v:\n%s", what, time.Since(begin).Round(time.Second), text)
	}
}
