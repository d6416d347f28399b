//go:build lab

package mrcache_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
	"github.com/peerdirect/peerdirect/verbs"
)

// TestEFABenchHits compares what a hit costs with libfabric's cached fi_mr_reg
// (testdata/fi_mr_reg.c): as many pages registered by both, in one guest; rounds
// of hits in random order, alternating; medians. An EFA device has 65,535
// regions, of which both take 30,000. It runs where PEERDIRECT_BENCH_RUNS says how
// often, and leaves mrcache-efa.json in the folder PEERDIRECT_BENCH_OUT.
func TestEFABenchHits(t *testing.T) {
	names, err := filepath.Glob("/sys/class/infiniband/efa_*")
	if err != nil || len(names) == 0 {
		t.Skip("needs a guest with an EFA device: peerdirect lab run --with acceptance --efa 1")
	}
	compared(t, "efa", filepath.Base(names[0]), 30_000, openEFA)
}

// TestBenchHits is TestEFABenchHits with 100,000 regions of rxe, on libfabric's
// verbs provider; it leaves mrcache-verbs.json.
func TestBenchHits(t *testing.T) {
	names, err := filepath.Glob("/sys/class/infiniband/rxe*")
	if err != nil || len(names) == 0 {
		t.Skip("needs a guest with rxe on its link: peerdirect lab run --with acceptance --link rxe")
	}
	compared(t, "verbs", filepath.Base(names[0]), entries, openRXE)
}

func compared(t *testing.T, provider, device string, count int, open func(*testing.T, string) mrcache.Registrar) {
	t.Helper()
	runs, _ := strconv.Atoi(os.Getenv("PEERDIRECT_BENCH_RUNS"))
	if runs == 0 {
		t.Skip("a measurement: set PEERDIRECT_BENCH_RUNS")
	}
	program := filepath.Join(t.TempDir(), "fi_mr_reg")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "testdata/fi_mr_reg.c", "-lfabric").CombinedOutput(); err != nil {
		t.Fatalf("building the C program: %v\n%s", err, out)
	}
	results := against(t, runs, program, provider, device, count, open(t, device))
	var table strings.Builder
	if err := bench.Print(&table, results); err != nil {
		t.Fatal(err)
	}
	t.Logf("a hit, ours against libfabric's:\n%s", &table)
	if dir := os.Getenv("PEERDIRECT_BENCH_OUT"); dir != "" {
		if err := bench.Write(dir, "mrcache-"+provider, results); err != nil {
			t.Fatal(err)
		}
	}
}

func openEFA(t *testing.T, name string) mrcache.Registrar {
	dev, err := efa.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	access := efa.LocalWrite
	if dev.Attr().Caps&efa.CapRead != 0 {
		access |= efa.RemoteRead
	}
	if dev.Attr().Caps&efa.CapWrite != 0 {
		access |= efa.RemoteWrite
	}
	return mrcache.RegistrarFunc(func(r mrcache.Range, _ mrcache.Access) (mrcache.Registration, error) {
		return dev.Register(at(r.Addr, int(r.Length)), access)
	})
}

func openRXE(t *testing.T, name string) mrcache.Registrar {
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pd.Close() })
	return mrcache.RegistrarFunc(func(r mrcache.Range, _ mrcache.Access) (mrcache.Registration, error) {
		return pd.Register(at(r.Addr, int(r.Length)), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	})
}

// against fills both caches and times them in turn.
func against(t *testing.T, runs int, program, provider, device string, count int, nic mrcache.Registrar) []bench.Result {
	t.Helper()
	cmd := exec.Command(program, provider, device, strconv.Itoa(count))
	cmd.Env = append(os.Environ(),
		"FI_MR_CACHE_MAX_COUNT="+strconv.Itoa(2*count), "FI_MR_CACHE_MAX_SIZE="+strconv.Itoa(8<<30),
		"FI_EFA_MR_MAX_CACHED_COUNT="+strconv.Itoa(2*count), "FI_EFA_MR_MAX_CACHED_SIZE="+strconv.Itoa(8<<30),
		"FI_VERBS_MR_CACHE_ENABLE=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	}()
	out := bufio.NewScanner(pipe)
	if !out.Scan() {
		t.Fatal("the C program did not get ready")
	}
	t.Logf("libfabric: %s, after %v", out.Text(), time.Since(began).Round(time.Millisecond))

	base := reserved(t, count*page) // unmapped after the cache is closed
	c := newCache(t, mrcache.Options{Watch: true, Policy: mrcache.Policy{NoMerge: true},
		Rails: []mrcache.Rail{{Name: device, Registrar: nic, Budget: mrcache.Unlimited}}})
	ranges := make([]mrcache.Range, count)
	start := time.Now()
	for i := range ranges {
		ranges[i] = pool(0, base+uint64(i)*page, page)
		ref, err := c.Get(0, ranges[i], remote)
		if err != nil {
			t.Fatal(err)
		}
		ref.Release()
	}
	s := c.Stats()[0]
	ok, lacks := c.Watching()
	t.Logf("%d registrations in %v, %.1f us each of the device's; watched: %v %s", count, time.Since(start), s.Seconds*1e6/float64(count), ok, lacks)
	if s.Entries != count {
		t.Fatalf("%+v", s)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(count, func(i, k int) { ranges[i], ranges[k] = ranges[k], ranges[i] })

	var ours, theirs [3][]float64
	for range runs {
		inBlocks, p50, p99 := ourPass(t, c, ranges)
		for i, v := range []float64{inBlocks, p50, p99} {
			ours[i] = append(ours[i], v)
		}
		fmt.Fprintln(in, "go")
		if !out.Scan() {
			t.Fatal("the C program ended")
		}
		var misses int
		if _, err := fmt.Sscan(out.Text(), &inBlocks, &p50, &p99, &misses); err != nil {
			t.Fatalf("%q: %v", out.Text(), err)
		}
		if misses != 0 {
			t.Fatalf("%d of %d of libfabric's did not hit", misses, count)
		}
		for i, v := range []float64{inBlocks, p50, p99} {
			theirs[i] = append(theirs[i], v)
		}
	}
	if got := c.Stats()[0]; got.Hits-s.Hits != uint64(2*runs*count) || got.Registrations != uint64(count) {
		t.Errorf("not all were hits: %+v", got)
	}
	var results []bench.Result
	for i, what := range []string{"in blocks", "p50", "p99"} {
		results = append(results, bench.Compare(fmt.Sprintf("hit among %d on %s, %s", count, provider, what), "ns", ours[i], theirs[i]))
	}
	return results
}

// ourPass is the C program's pass, in nanoseconds.
func ourPass(t *testing.T, c *mrcache.Cache, ranges []mrcache.Range) (inBlocks, p50, p99 float64) {
	// As the C program: one thread, and nothing of the runtime's beside it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const block = 250
	blocks := make([]float64, len(ranges)/block)
	for k := range blocks {
		start := time.Now()
		for i := k * block; i < (k+1)*block; i++ {
			ref, err := c.Get(0, ranges[i], remote)
			if err != nil {
				t.Fatal(err)
			}
			ref.Release()
		}
		blocks[k] = float64(time.Since(start).Nanoseconds()) / block
	}
	one := make([]float64, len(ranges))
	for i := range ranges {
		start := time.Now()
		ref, err := c.Get(0, ranges[i], remote)
		ref.Release()
		one[i] = float64(time.Since(start).Nanoseconds())
		if err != nil {
			t.Fatal(err)
		}
	}
	clock := looks()
	slices.Sort(one)
	return bench.Median(blocks), one[len(one)/2] - clock, one[len(one)*99/100] - clock
}
