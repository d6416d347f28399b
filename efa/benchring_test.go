//go:build linux && amd64

package efa

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/internal/bench/instructions"
)

// TestCostAgainstLibefa compares posting and polling with libefa's own code, on
// rings of ordinary memory that no device reads, so that the CPU's work is all
// there is (testdata/benchring.c). Both fill a queue of 4096 and take its
// completions; the least of many rounds counts, since other programs only ever
// make a round longer. It runs where RDMA_CORE_SOURCE and RDMA_CORE_BUILD name
// rdma-core's source and a build of it, and leaves efa-rings.json in the folder
// PEERDIRECT_BENCH_OUT.
func TestCostAgainstLibefa(t *testing.T) {
	needRings(t)
	const rounds = 200
	var results []bench.Result
	for _, locks := range []int{1, 0} {
		program := buildRings(t, fmt.Sprintf("-DLOCKS=%d", locks))
		for _, k := range idKinds {
			for _, batch := range []int{1, 16, 64} {
				wide := 0
				if k.wide {
					wide = 1
				}
				var least [2][2]float64 // of both sides' runs: post and poll
				for run := range 5 {
					var theirs [2]float64
					out, err := exec.Command(program, fmt.Sprint(batch), fmt.Sprint(wide), fmt.Sprint(rounds)).Output()
					if err != nil {
						t.Fatal(err)
					}
					if _, err := fmt.Sscan(string(out), &theirs[0], &theirs[1]); err != nil {
						t.Fatalf("%q: %v", out, err)
					}
					ours := ringCost(t, k.wide, batch, rounds)
					for i := range 2 {
						if run == 0 || ours[i] < least[0][i] {
							least[0][i] = ours[i]
						}
						if run == 0 || theirs[i] < least[1][i] {
							least[1][i] = theirs[i]
						}
					}
				}
				against := map[int]string{1: "libefa", 0: "libefa without locks"}[locks]
				name := fmt.Sprintf("%s ids, batch %d, against %s", k.name, batch, against)
				for i, what := range []string{"post", "poll"} {
					results = append(results, bench.Compare(what+" "+name, "ns/op", []float64{least[0][i]}, []float64{least[1][i]}))
				}
				both := bench.Compare("post+poll "+name, "ns/op", []float64{least[0][0] + least[0][1]}, []float64{least[1][0] + least[1][1]})
				results = append(results, both)
			}
		}
	}
	if err := bench.Print(t.Output(), results); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("PEERDIRECT_BENCH_OUT"); dir != "" {
		if err := bench.Write(dir, "efa-rings", results); err != nil {
			t.Fatal(err)
		}
	}
}

// needRings skips without the peer's source and a build of it.
func needRings(t *testing.T) (source, build string) {
	t.Helper()
	source, build = os.Getenv("RDMA_CORE_SOURCE"), os.Getenv("RDMA_CORE_BUILD")
	if source == "" || build == "" {
		t.Skip("a measurement: set RDMA_CORE_SOURCE and RDMA_CORE_BUILD")
	}
	return source, build
}

// buildRings compiles the peer, and libefa's code in it.
func buildRings(t *testing.T, defines ...string) (program string) {
	t.Helper()
	source, build := needRings(t)
	program = filepath.Join(t.TempDir(), "benchring")
	args := append([]string{"-O2", "-DNDEBUG", "-o", program,
		"-I" + source + "/providers/efa", "-I" + source, "-I" + build + "/include", "testdata/benchring.c",
		"-L" + build + "/lib", "-Wl,-rpath," + build + "/lib", "-libverbs"}, defines...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// ringRounds is the C program's loop: rounds of posting and polling ops requests,
// batch by batch. It calls mark before and after each of the two.
func ringRounds(t *testing.T, wide bool, batch, ops, rounds int, mark func()) {
	ep := rings(4096, wide)
	b := ep.Batch()
	to, local, remote := benchRegion()
	out := make([]Completion, batch)
	var sum uint64
	for range rounds {
		mark()
		for range ops / batch {
			for i := range batch {
				b.Write(to, local, remote, uint64(i))
			}
			if err := b.Post(); err != nil {
				t.Fatal(err)
			}
		}
		mark()
		completeAll(ep, ops, wire.SendQueue)
		mark()
		for range ops / batch {
			n, err := ep.Poll(out)
			if err != nil || n != batch {
				t.Fatal(n, err)
			}
			for i := range out {
				c := &out[i]
				sum += c.ID + uint64(c.Status) + uint64(c.QPN) + uint64(c.Op)
			}
		}
		mark()
	}
	if sum == 0 {
		t.Fatal("nothing was read")
	}
}

// ringCost gives the least nanoseconds an operation of posting and of polling.
func ringCost(t *testing.T, wide bool, batch, rounds int) (least [2]float64) {
	const depth = 4096
	marks := 0
	var start time.Time
	ringRounds(t, wide, batch, depth, rounds, func() {
		part, round := marks/2%2, marks/4
		if marks++; marks%2 == 1 {
			start = time.Now()
		} else if took := float64(time.Since(start)) / depth; round == 0 || took < least[part] {
			least[part] = took
		}
	})
	return least
}

// TestInstructionsAgainstLibefa counts what TestCostAgainstLibefa times: the
// instructions of posting and of polling an operation, ours and libefa's, natively
// and exactly (internal/bench/instructions). It leaves efa-instructions.json.
func TestInstructionsAgainstLibefa(t *testing.T) {
	if run := os.Getenv("PEERDIRECT_COUNT_RINGS"); run != "" {
		countRings(t, run)
		return
	}
	needRings(t)
	var results []bench.Result
	for _, locks := range []int{1, 0} {
		program := buildRings(t, fmt.Sprintf("-DLOCKS=%d", locks),
			fmt.Sprintf("-DOPS=%d", countedOps), `-DBREAK=__asm__ volatile("int3")`)
		for _, k := range idKinds {
			for _, batch := range []int{1, 16} {
				wide := 0
				if k.wide {
					wide = 1
				}
				count := func(cmd *exec.Cmd, counts func(uint64) bool) (per [2]float64) {
					parts, err := instructions.Count(cmd, counts)
					if err != nil || len(parts) != 4 {
						t.Fatal(parts, err)
					}
					// The first round's calls bind symbols.
					return [2]float64{float64(parts[2]) / countedOps, float64(parts[3]) / countedOps}
				}
				theirs := count(exec.Command(program, fmt.Sprint(batch), fmt.Sprint(wide), "2"), nil)
				self := exec.Command(os.Args[0], "-test.run", "^TestInstructionsAgainstLibefa$")
				self.Env = append(os.Environ(), fmt.Sprintf("PEERDIRECT_COUNT_RINGS=%t,%d", k.wide, batch), "GODEBUG=asyncpreemptoff=1", "GOGC=off")
				ours := count(self, instructions.WithoutScheduler())
				against := map[int]string{1: "libefa", 0: "libefa without locks"}[locks]
				name := fmt.Sprintf("%s ids, batch %d, against %s", k.name, batch, against)
				for i, what := range []string{"post", "poll"} {
					results = append(results, bench.Compare(what+" "+name, "instructions/op", []float64{ours[i]}, []float64{theirs[i]}))
				}
				results = append(results, bench.Compare("post+poll "+name, "instructions/op", []float64{ours[0] + ours[1]}, []float64{theirs[0] + theirs[1]}))
			}
		}
	}
	if err := bench.Print(t.Output(), results); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("PEERDIRECT_BENCH_OUT"); dir != "" {
		if err := bench.Write(dir, "efa-instructions", results); err != nil {
			t.Fatal(err)
		}
	}
}

const countedOps = 64

// countRings is what the counter runs.
func countRings(t *testing.T, run string) {
	var wide bool
	var batch int
	if _, err := fmt.Sscanf(run, "%t,%d", &wide, &batch); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	ringRounds(t, wide, batch, countedOps, 2, runtime.Breakpoint)
}
