//go:build lab

package efa

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/bench"
)

// TestEFABench compares what posting and polling cost on the direct path,
// through the library from Go, and through the library from C
// (testdata/benchwr.c): one guest, alternating runs, medians. A round posts a
// batch of writes of 8 bytes from an endpoint to itself, waits until they must
// have completed, and polls them. It runs where PEERDIRECT_BENCH_RUNS says how
// often, and leaves efa.json in the folder PEERDIRECT_BENCH_OUT.
func TestEFABench(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("PEERDIRECT_BENCH_RUNS"))
	if runs == 0 {
		t.Skip("a measurement: set PEERDIRECT_BENCH_RUNS")
	}
	name := labDevices(t)[0]
	dev := labDevice(t, name, OpenOptions{})
	if !dev.Path().Direct {
		t.Skipf("needs the direct path: %s", dev.Path().Reason)
	}
	const rounds = 30
	program := filepath.Join(t.TempDir(), "benchwr")
	if out, err := exec.Command("gcc", "-O2", "-o", program, "testdata/benchwr.c", "-lefa", "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("building the C program: %v\n%s", err, out)
	}
	sides := map[string]func(batch int) (post, poll float64){
		"C": func(batch int) (post, poll float64) {
			cmd := exec.Command(program, name, fmt.Sprint(batch), fmt.Sprint(rounds))
			// The release's library, which is compiled as users have it; the
			// one that the direct path asks is built for tests.
			cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool {
				return strings.HasPrefix(s, "LD_LIBRARY_PATH=") || strings.HasPrefix(s, "IBV_DRIVERS=")
			})
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(string(out), &post, &poll); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			return post, poll
		},
	}
	for side, o := range map[string]OpenOptions{"direct": {}, "ibv_wr": {Library: true}} {
		d := labDevice(t, name, o)
		s := pairOn(t, [2]*Device{d, d}, 4096, [2]SRDOptions{{MaxSend: 1024}, {}})[0]
		self := s.peer.AH().To(s.ep.QPN(), s.ep.Address().QKey)
		sides[side] = func(batch int) (post, poll float64) { return s.timed(t, self, batch, rounds) }
	}
	order := []string{"direct", "C", "ibv_wr", "C"}
	var results []bench.Result
	for _, batch := range []int{1, 16, 256} {
		got := map[string][2][]float64{}
		for range runs {
			for _, side := range order {
				post, poll := sides[side](batch)
				v := got[side]
				v[0], v[1] = append(v[0], post), append(v[1], poll)
				got[side] = v
			}
		}
		for _, side := range []string{"direct", "ibv_wr"} {
			var sums, peers []float64
			for i, what := range []string{"post", "poll"} {
				results = append(results, bench.Compare(fmt.Sprintf("%s %s, batch %d", side, what, batch), "ns/op", got[side][i], got["C"][i]))
			}
			for i := range got[side][0] {
				sums = append(sums, got[side][0][i]+got[side][1][i])
			}
			for i := range got["C"][0] {
				peers = append(peers, got["C"][0][i]+got["C"][1][i])
			}
			results = append(results, bench.Compare(fmt.Sprintf("%s post and poll, batch %d", side, batch), "ns/op", sums, peers))
		}
	}
	var table strings.Builder
	if err := bench.Print(&table, results); err != nil {
		t.Fatal(err)
	}
	t.Logf("ours against C:\n%s", &table)
	if dir := os.Getenv("PEERDIRECT_BENCH_OUT"); dir != "" {
		if err := bench.Write(dir, "efa", results); err != nil {
			t.Fatal(err)
		}
	}
}

// timed is the C program's loop; the medians in nanoseconds an operation.
func (s *side) timed(t *testing.T, self *Dest, batch, rounds int) (post, poll float64) {
	// As the C program: one thread, and nothing of the runtime's beside it, for
	// whose wake-ups an emulated processor pays dearly. So it sleeps without
	// telling the scheduler, whose monitor else looks after it every 20 us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	pause := unix.NsecToTimespec(int64(5*time.Millisecond) + int64(batch)*int64(50*time.Microsecond))
	local, remote := s.mr.At(0, 8), s.remote().At(2048)
	var posts, polls []float64
	out := make([]Completion, batch)
	for len(posts) < rounds {
		start := time.Now()
		for i := range batch {
			s.b.Write(self, local, remote, uint64(i))
		}
		if err := s.b.Post(); err != nil {
			t.Fatal(err)
		}
		posted := time.Since(start)
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
		late, sum := false, uint64(0)
		start = time.Now()
		for got := 0; got < batch; {
			n, err := s.ep.Poll(out[got:])
			if err != nil {
				t.Fatal(err)
			}
			for i := range out[got : got+n] {
				c := &out[got+i]
				if c.Status != StatusOK {
					t.Fatal(c.Err())
				}
				sum += c.ID + uint64(c.QPN) + uint64(c.Op)
			}
			late = late || n == 0
			got += n
		}
		polled := time.Since(start)
		start = time.Now()
		clock := time.Since(start) // what reading it costs is no part of either
		if late || sum == 0 {
			continue // it was not there yet: that measures the device
		}
		posts = append(posts, float64((posted-clock).Nanoseconds())/float64(batch))
		polls = append(polls, float64((polled-clock).Nanoseconds())/float64(batch))
	}
	slices.Sort(posts)
	slices.Sort(polls)
	return posts[rounds/2], polls[rounds/2]
}
