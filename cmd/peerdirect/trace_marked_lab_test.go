//go:build lab

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/tracereport"
)

// markedRecord is what the tests read of a row of completions.
type markedRecord struct {
	Schema, Record, Wait string
	PID                  int
	Process, Device      *string
	Opcode               *string
	Size                 *uint64
	Times                *traceTimes
	Lost                 map[string]uint64
}

// ourTransfer runs a command of peerdirect's and gives its process.
func ourTransfer(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command("peerdirect", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("peerdirect %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return cmd.Process.Pid
}

// pairOfOurs runs the two sides of a command: that which waits, and that which goes to it.
func pairOfOurs(t *testing.T, waits, goes []string) int {
	t.Helper()
	server := exec.Command("peerdirect", waits...)
	var told bytes.Buffer
	server.Stdout, server.Stderr = &told, &told
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { server.Process.Signal(syscall.SIGINT); server.Wait() }()
	time.Sleep(2 * time.Second)
	pid := ourTransfer(t, goes...)
	t.Logf("%s: %s", strings.Join(waits, " "), &told)
	return pid
}

// TestTraceMarked has perf, transfers and the demo run beside a trace of the whole machine
// that knows none of them: each has its rows, in the records, the table and the metrics.
// Where the machine has no RDMA device there is the demo alone, and the trace runs.
func TestTraceMarked(t *testing.T) {
	table := exec.Command("peerdirect", "trace", "completions", "--max-overhead", "0", "--duration", "10m")
	var printed bytes.Buffer
	table.Stdout, table.Stderr = &printed, &printed
	if err := table.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { table.Process.Kill(); table.Wait() }()
	tracer := exec.Command("peerdirect", "trace", "completions", "--max-overhead", "0", "--json", "--interval", "1s", "--duration", "10m", "--listen", "127.0.0.1:9751")
	var told bytes.Buffer
	tracer.Stderr = &told
	records := filepath.Join(t.TempDir(), "records")
	f, err := os.Create(records)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tracer.Stdout = f
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { tracer.Process.Kill(); tracer.Wait() }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if b, _ := os.ReadFile(records); bytes.Contains(b, []byte(`"record":"begin"`)) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the trace did not begin: %s", &told)
		}
	}

	want := map[int][]string{} // process: device and opcode
	want[ourTransfer(t, "demo")] = []string{"efa_0 write", "efa_1 write"}
	if dev := os.Getenv("PEERDIRECT_DEVICE"); dev != "" && os.Getenv("PEERDIRECT_EFA") == "" {
		address := os.Getenv("PEERDIRECT_ADDR")
		run := []string{"perf", "read", "lat", "-s", "4096", "-n", "500", "-d", dev}
		want[pairOfOurs(t, append(run, "--listen", address), append(run, address))] = []string{dev + " read"}
		want[pairOfOurs(t, []string{"transfer", "listen", "--listen", address, "-d", dev, "--token", "no secret in the lab"},
			[]string{"transfer", "to", address, "--pages", "4096", "--page-size", "4K", "-d", dev, "--token", "no secret in the lab"})] = []string{dev + " write"}
	}
	time.Sleep(2 * time.Second) // an interval
	families := scrapeTrace(t, "http://127.0.0.1:9751/metrics", "text/plain")
	for _, c := range []*exec.Cmd{tracer, table} {
		c.Process.Signal(syscall.SIGINT)
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s%s", err, &told, &printed)
		}
	}

	// The last table of the records is the whole.
	last := make(map[int]map[string]uint64)
	b, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(b)); d.More(); {
		var r markedRecord
		if err := d.Decode(&r); err != nil || r.Schema != tracereport.CompletionsSchema {
			t.Fatalf("%v: %+v", err, r)
		}
		for what, n := range r.Lost {
			// Of a sample, and on two emulated CPUs, single flights and runs are.
			if n != 0 && what != "flights" && what != "runs" {
				t.Errorf("%d %s were lost", n, what)
			}
		}
		if r.Record != "row" || r.Wait != "marked" {
			continue
		}
		if r.Device == nil || r.Opcode == nil || r.Process == nil || *r.Process != "peerdirect" || r.Times == nil || r.Times.Count == 0 || r.Times.P50 == 0 {
			t.Errorf("row %+v", r)
			continue
		}
		if last[r.PID] == nil {
			last[r.PID] = make(map[string]uint64)
		}
		name := *r.Device + " " + *r.Opcode
		last[r.PID][name] = max(last[r.PID][name], r.Times.Count)
	}
	for pid, names := range want {
		for _, name := range names {
			if last[pid][name] == 0 {
				t.Errorf("process %d has no row %q: %v", pid, name, last)
			}
			device, opcode, _ := strings.Cut(name, " ")
			line := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(strings.Join([]string{strconv.Itoa(pid), "peerdirect", device, "marked", opcode}, " ")))
			if !line.MatchString(regexp.MustCompile(` +`).ReplaceAllString(printed.String(), " ")) {
				t.Errorf("the table has no line of %d %s:\n%s", pid, name, &printed)
			}
			var served uint64
			for _, m := range families["peerdirect_completion_wait_seconds"].GetMetric() {
				labels := map[string]string{}
				for _, l := range m.Label {
					labels[l.GetName()] = l.GetValue()
				}
				if labels["process"] == "peerdirect" && labels["device"] == device && labels["wait"] == "marked" && labels["opcode"] == opcode {
					served += m.GetHistogram().GetSampleCount()
				}
			}
			if served < last[pid][name] {
				t.Errorf("the metrics have %d of %s, the records %d", served, name, last[pid][name])
			}
		}
	}
	t.Logf("marked, by process: %v", last)
}
