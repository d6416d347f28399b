package benchlab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/internal/perf"
)

// testCase is one operation, measure and size.
type testCase struct {
	op    perf.Op
	test  perf.Test
	size  int
	iters int
}

// cases are all that is compared. Runs are short, a second or so on emulated
// processors, and rounds many: whatever else the host does then falls on single
// runs, which the median leaves out. Large messages need the longer ones: rxe moves
// them now at one rate and now at another, a fifth apart, whoever asks.
func cases() []testCase {
	var out []testCase
	for _, test := range []perf.Test{perf.Bandwidth, perf.Latency} {
		for _, op := range []perf.Op{perf.Write, perf.Read, perf.Send} {
			for _, size := range []int{64 << 10, 8} {
				c := testCase{op, test, size, 5000}
				switch {
				case size > 8 && test == perf.Bandwidth:
					c.iters = 1600
				case size > 8:
					c.iters = 100
				case test == perf.Latency:
					c.iters = 500
				}
				out = append(out, c)
			}
		}
	}
	return out
}

func (c testCase) name() string {
	size := fmt.Sprintf("%dB", c.size)
	if c.size >= 1<<10 {
		size = fmt.Sprintf("%dKiB", c.size>>10)
	}
	return fmt.Sprintf("%s_%s_%s", c.op, c.test, size)
}

func (c testCase) unit() string {
	if c.test == perf.Bandwidth {
		return "MiB/s"
	}
	return "usec"
}

// tool is one of the two programs.
type tool struct {
	name    string
	command func(c testCase, device, addr string, server bool) []string
	parse   func(c testCase, out []byte) (float64, error)
}

var ours = tool{
	name: "peerdirect",
	command: func(c testCase, device, addr string, server bool) []string {
		args := []string{"peerdirect", "perf", string(c.op), string(c.test), "-d", device,
			"-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.iters), "--json"}
		if server {
			return append(args, "--listen", addr)
		}
		return append(args, addr)
	},
	parse: func(c testCase, out []byte) (float64, error) {
		var r perf.Report
		if err := json.Unmarshal(out, &r); err != nil || len(r.Results) != 1 {
			return 0, fmt.Errorf("no report in %q", out)
		}
		if c.test == perf.Bandwidth {
			return *r.Results[0].Average / (1 << 20), nil
		}
		return r.Results[0].Latency.Typical, nil
	},
}

var theirs = tool{
	name: "perftest",
	command: func(c testCase, device, addr string, server bool) []string {
		args := []string{"ib_" + string(c.op) + "_" + string(c.test), "-d", device, "-F",
			"-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.iters)}
		if strings.HasPrefix(device, "rxe") {
			args = append(args, "-x", "1") // the lab's IPv4 address
		} else {
			args = append(args, "-R") // iWARP is connected by the RDMA CM
		}
		if server {
			return args
		}
		return append(args, addr)
	},
	parse: func(c testCase, out []byte) (float64, error) {
		// Typical latency, or the rate of messages: the bandwidth has
		// two digits after the point, which says little of 8 bytes.
		const column = 4
		for _, l := range strings.Split(string(out), "\n") {
			f := strings.Fields(l)
			if len(f) > column && f[0] == strconv.Itoa(c.size) && f[1] == strconv.Itoa(c.iters) {
				v, err := strconv.ParseFloat(f[column], 64)
				if c.test == perf.Bandwidth {
					v *= 1e6 * float64(c.size) / (1 << 20)
				}
				return v, err
			}
		}
		return 0, fmt.Errorf("no result in %q", out)
	},
}

// run runs a tool, on one processor if cpu names it.
func (t tool) run(ctx context.Context, cpu int, args []string) ([]byte, error) {
	if cpu != anyCPU {
		args = append([]string{"taskset", "-c", strconv.Itoa(cpu)}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(append(stderr.Bytes(), stdout.Bytes()...)))
	}
	return stdout.Bytes(), nil
}

// listening waits until a program listens on the port: perftest does not say
// when it is ready, and a trial connection would be taken for its client.
func listening(ctx context.Context, port int) error {
	const listen = "0A" // TCP_LISTEN
	want := fmt.Sprintf(":%04X", port)
	for {
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, err := os.ReadFile(table)
			if err != nil {
				continue
			}
			for _, l := range strings.Split(string(b), "\n") {
				f := strings.Fields(l)
				if len(f) > 3 && strings.HasSuffix(f[1], want) && f[3] == listen {
					return nil
				}
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
