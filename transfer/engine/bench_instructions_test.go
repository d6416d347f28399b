//go:build linux && amd64

package engine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/internal/bench/instructions"
)

// TestInstructions counts what BenchmarkEngine and BenchmarkScatter time: the
// instructions of a request, natively and exactly (internal/bench/instructions).
// It leaves engine-instructions.json in the folder PEERDIRECT_BENCH_OUT.
func TestInstructions(t *testing.T) {
	if run := os.Getenv("PEERDIRECT_COUNT_ENGINE"); run != "" {
		countEngine(t, run)
		return
	}
	dir := os.Getenv("PEERDIRECT_BENCH_OUT")
	if dir == "" {
		t.Skip("a measurement: set PEERDIRECT_BENCH_OUT")
	}
	var results []bench.Result
	for _, s := range []struct {
		name, run string
		requests  float64
	}{
		{"engine, pages of 16", "false,16", benchRound},
		{"engine and EFA rail, single", "true,1", benchRound},
		{"engine and EFA rail, pages of 16", "true,16", benchRound},
		{"engine and EFA rail, pages of 256", "true,256", benchRound},
		{"scatter, first to last post", "true,0", 56},
	} {
		self := exec.Command(os.Args[0], "-test.run", "^TestInstructions$")
		self.Env = append(os.Environ(), "PEERDIRECT_COUNT_ENGINE="+s.run, "GODEBUG=asyncpreemptoff=1", "GOGC=off")
		parts, err := instructions.Count(self, instructions.WithoutScheduler())
		if err != nil {
			t.Fatal(s.name, err)
		}
		sum := 0.0
		for _, p := range parts {
			sum += float64(p)
		}
		results = append(results, bench.Result{Name: s.name, Unit: "instructions/request", Ours: sum / s.requests, Runs: 1})
	}
	if err := bench.Print(t.Output(), results); err != nil {
		t.Fatal(err)
	}
	if err := bench.Write(dir, "engine-instructions", results); err != nil {
		t.Fatal(err)
	}
}

// countEngine is what the counter runs: one round, after some that are not counted.
func countEngine(t *testing.T, run string) {
	var efa bool
	var pages int
	if _, err := fmt.Sscanf(run, "%t,%d", &efa, &pages); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	if pages == 0 {
		r := newBenchRig(t, benchShape{efa: true, rails: 4, peers: 56})
		r.scatter(t, 10, func() {})
		r.scatter(t, 1, runtime.Breakpoint)
		return
	}
	r := newBenchRig(t, benchShape{efa: efa, rails: 4, peers: 1})
	r.rounds(t, pages, 10, func() {})
	r.rounds(t, pages, 1, runtime.Breakpoint)
}
