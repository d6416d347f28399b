package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/transfer/sim"
)

const simulateArgs = "bench simulate --shape p5 --page-size 4K,64K --transfers 50 --seed 7"

// TestBenchSimulateByCommand: the same figures each time, and said to be of a
// simulation.
func TestBenchSimulateByCommand(t *testing.T) {
	stdout, stderr, code := execute(t.Context(), simulateArgs)
	if code != exitOK || stderr != "" {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	if !strings.HasPrefix(stdout, sim.Title+"\np5: 32 NICs of 100 Gbit/s, 8 workers; 2 nodes, pattern pair, seed 7\n") ||
		!strings.Contains(stdout, "\n4 KiB ") || !strings.Contains(stdout, "\n64 KiB ") {
		t.Error(stdout)
	}
	if again, _, _ := execute(t.Context(), simulateArgs); again != stdout {
		t.Errorf("two runs of one seed:\n%s\n%s", stdout, again)
	}
	stdout, _, _ = execute(t.Context(), "bench simulate --help")
	golden.Check(t, "bench-simulate-help.txt", []byte(stdout))
}

func TestBenchSimulateJSON(t *testing.T) {
	stdout, stderr, code := execute(t.Context(), simulateArgs+" --json")
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	var r sim.Report
	if err := d.Decode(&r); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("exit %d: %v\n%s%s", code, err, stdout, stderr)
	}
	if r.Schema != sim.Schema || r.Title != sim.Title || len(r.Figures) != 2 || r.Figures[1].Run.Page != 64<<10 || r.Figures[0].Gbits <= 0 {
		t.Errorf("%s", stdout)
	}
}

func TestBenchSimulateUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--shape p4", "p6-b300"},
		{"--page-size 3M", "1 MiB at most"},
		{"--page-size x", "no size"},
		{"--pattern ring", "scatter"},
		{"--nodes 1", "2 to 1024"},
		{"--workers 5", "each worker has as many"},
		{"--oversubscribed 0.5", "1 or more"},
	} {
		stdout, stderr, code := execute(t.Context(), "bench simulate "+c.args)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s; want it to say %q", c.args, code, stderr, c.want)
		}
	}
}
