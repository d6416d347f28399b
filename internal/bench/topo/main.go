// Command topo measures the whole of peerdirect topo, process start included, beside
// lstopo --of console: both read the same root, a made-up server of 300 PCI functions,
// and they alternate. It prints a table and writes DIR/topo.json.
//
// Usage: topo PEERDIRECT DIR RUNS
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench"
)

func main() {
	// Interrupted, it still takes the machines away.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measureAll(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "topo:", err)
		os.Exit(1)
	}
}

// machines are what is measured: lstopo's time goes with the processors, ours does
// not.
var machines = []struct {
	name string
	cpus int
}{
	{"192-CPUs", 192}, // as servers with eight accelerators have
	{"2-CPUs", 2},     // the least, with as many devices
}

func measureAll(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: topo PEERDIRECT DIR RUNS")
	}
	runs, err := strconv.Atoi(args[2])
	if err != nil || runs < 1 {
		return fmt.Errorf("%q is no number of runs", args[2])
	}
	if _, err := exec.LookPath("lstopo"); err != nil {
		return fmt.Errorf("%w; Debian's package hwloc-nox has it", err)
	}
	dir, err := os.MkdirTemp(inMemory(), "peerdirect-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var results []bench.Result
	for _, m := range machines {
		root := filepath.Join(dir, m.name)
		if err := machine(root, m.cpus); err != nil {
			return err
		}
		r, err := measure(ctx, root, args[0], runs)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("topo/%d-devices/%s", functions, m.name)
		wall, cpu := bench.Compare(name, "ms", r.ours.wall, r.peer.wall), bench.Compare(name+"/CPU", "ms", r.ours.cpu, r.peer.cpu)
		results = append(results, wall, cpu)
		at := bench.Interval(r.ours.wall, r.peer.wall)
		fmt.Printf("%s: ours / lstopo %.3f, at 90 %% %.3f to %.3f\n", name, wall.Ratio, at[0], at[1])
	}
	if err := bench.Print(os.Stdout, results); err != nil {
		return err
	}
	return bench.Write(args[1], "topo", results)
}

// inMemory is a folder of a file system in memory, as sysfs is one; "" is the usual
// place for temporary files.
func inMemory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return ""
	}
	return shm
}

// series are the times of some runs, in milliseconds.
type series struct{ wall, cpu []float64 }

type sides struct{ ours, peer series }

// measure runs both in turn; the first run of each, which finds the files outside of
// the caches, does not count.
func measure(ctx context.Context, root, peerdirect string, runs int) (s sides, err error) {
	out, err := os.Create(root + ".out")
	if err != nil {
		return s, err
	}
	defer out.Close()
	for i := range runs + 1 {
		ours, peer := exec.CommandContext(ctx, peerdirect, "topo", "--sysroot", root), lstopo(ctx, root)
		for _, side := range []struct {
			cmd *exec.Cmd
			to  *series
		}{{ours, &s.ours}, {peer, &s.peer}} {
			wall, cpu, err := timed(side.cmd, out)
			if err != nil {
				return s, err
			}
			if i > 0 {
				side.to.wall, side.to.cpu = append(side.to.wall, wall), append(side.to.cpu, cpu)
			}
		}
	}
	return s, nil
}

// lstopo is hwloc's tool as it comes, on another root and without plugins: those for
// OpenCL, X and libxml load libraries that cost as much as all the rest.
func lstopo(ctx context.Context, root string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "lstopo", append([]string{"--of", "console"}, args...)...)
	cmd.Env = append(os.Environ(), "HWLOC_FSROOT="+root, "HWLOC_THISSYSTEM=0", "HWLOC_PLUGINS_PATH=/nonexistent")
	return cmd
}

// timed runs a command that has to print something. It prints into a file: to copy
// from a pipe would be work of this program beside it.
func timed(cmd *exec.Cmd, out *os.File) (wall, cpu float64, err error) {
	if err := out.Truncate(0); err != nil {
		return 0, 0, err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	if info, err := out.Stat(); err != nil || info.Size() == 0 {
		return 0, 0, fmt.Errorf("%s printed nothing (%v)", strings.Join(cmd.Args, " "), err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return milliseconds(took), milliseconds(used), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
