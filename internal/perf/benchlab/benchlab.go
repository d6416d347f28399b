// Package benchlab compares peerdirect perf with perftest in the lab, run by run
// in turn, so that whatever else the host does falls on both.
//
// On two machines that is the way perf is used, and each run's time is the
// host's: it varies by more than the tools differ. On one machine whose clock
// counts its instructions (lab run --accel icount), with the two sides and the
// kernel's work each on processors of their own, a run's time is the number of
// instructions that the path takes, and comes out nearly the same each time.
package benchlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench"
)

// Options of a comparison.
type Options struct {
	Rounds int       // of each tool and case; their median counts
	Only   string    // cases whose name contains this; empty: all
	Out    string    // folder for the JSON
	Stdout io.Writer // for the table
	Log    io.Writer // for what goes on
}

// Result is one line of the JSON. Ratio is ours to the peer's: for bandwidth
// more is better, for latency less.
type Result struct {
	bench.Result
	Interval [2]float64 `json:"ratio_90"` // where the ratio lies, at 90 %
	OursRuns []float64  `json:"ours_runs"`
	PeerRuns []float64  `json:"peer_runs"`
}

// port is where the two nodes meet; the tools use toolPort.
const (
	port     = 18600
	toolPort = 18515
	runLimit = 2 * time.Minute // of one run of one tool
)

// message is what the nodes tell each other: that the server of the next run
// listens, or how the run went for its client. Package exchange is not used:
// there is nothing to agree on, and it gives a peer up that is silent for 5 s,
// which a virtual machine on a crowded host may be.
type message struct {
	Error string `json:"error,omitempty"`
}

// Run runs this node's part; the lab's environment says which. The first node
// has the servers, the second one the clients, and the results. One node has
// both.
func Run(ctx context.Context, o Options) error {
	node, addrs := os.Getenv("PEERDIRECT_NODE"), strings.FieldsFunc(os.Getenv("PEERDIRECT_ADDRS"), func(r rune) bool { return r == ' ' || r == ',' })
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds: at least 1", o.Rounds)
	}
	switch {
	case len(addrs) == 1 && node == "0":
		if err := kernelApart(); err != nil {
			return err
		}
		b := comparison{Options: o, addr: addrs[0], device: os.Getenv("PEERDIRECT_DEVICE"), cpu: clientCPU}
		other := b
		other.server, other.cpu = true, serverCPU
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		served := make(chan error, 1)
		go func() {
			err := other.start(ctx)
			if err != nil {
				cancel(err)
			}
			served <- err
		}()
		err := b.start(ctx)
		cancel(err)
		return errors.Join(err, <-served)
	case len(addrs) == 2 && (node == "0" || node == "1"):
		b := comparison{Options: o, server: node == "0", addr: addrs[0], device: os.Getenv("PEERDIRECT_DEVICE"), cpu: anyCPU}
		return b.start(ctx)
	}
	return errors.New("this runs in the lab, on one node or two: peerdirect lab run --nodes 2 -- peerdirect perf bench-lab")
}

// Processors of the one machine: the sides spin, each on its own, and what the
// kernel does for them has the rest.
const (
	anyCPU    = -1
	serverCPU = 0
	clientCPU = 1
	kernelCPU = 2 // and those above
)

// kernelApart keeps the kernel's work queues, where the software RDMA drivers
// do their work, off the sides' processors.
func kernelApart() error {
	cpus := runtime.NumCPU()
	if cpus <= kernelCPU {
		return fmt.Errorf("%d processors: on one machine the two sides and the kernel want %d, of which the clock may count instructions: "+
			"peerdirect lab run --accel icount --cpus 4 -- peerdirect perf bench-lab", cpus, kernelCPU+1)
	}
	mask := fmt.Sprintf("%x", uint64(1)<<cpus-1<<kernelCPU)
	return os.WriteFile("/sys/devices/virtual/workqueue/cpumask", []byte(mask), 0)
}

func (b *comparison) start(ctx context.Context) error {
	conn, err := b.meet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	b.conn, b.in, b.out = conn, json.NewDecoder(conn), json.NewEncoder(conn)
	return b.run(ctx)
}

type comparison struct {
	Options
	server  bool
	addr    string // the server's
	device  string
	cpu     int // of the tools
	conn    net.Conn
	in      *json.Decoder
	out     *json.Encoder
	results []Result
}

func (b *comparison) meet(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	addr := fmt.Sprintf("%s:%d", b.addr, port)
	if b.server {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		stop := context.AfterFunc(ctx, func() { l.Close() })
		defer stop()
		return l.Accept()
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// tell and hear bound their waits by what a run may take.
func (b *comparison) tell(m message) error {
	b.conn.SetWriteDeadline(time.Now().Add(runLimit))
	return b.out.Encode(m)
}

func (b *comparison) hear() (m message, err error) {
	b.conn.SetReadDeadline(time.Now().Add(2 * runLimit))
	err = b.in.Decode(&m)
	return m, err
}

func (b *comparison) run(ctx context.Context) error {
	for _, c := range cases() {
		if !strings.Contains(c.name(), b.Only) {
			continue
		}
		var res Result
		for range b.Rounds {
			for _, t := range []struct {
				tool   tool
				values *[]float64
			}{{ours, &res.OursRuns}, {theirs, &res.PeerRuns}} {
				v, err := b.again(ctx, t.tool, c)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name(), t.tool.name, err)
				}
				*t.values = append(*t.values, v)
			}
		}
		if b.server {
			continue
		}
		res.Result = bench.Compare(c.name(), c.unit(), res.OursRuns, res.PeerRuns)
		res.Interval = bench.Interval(res.OursRuns, res.PeerRuns)
		if len(b.results) == 0 {
			fmt.Fprintf(b.Stdout, "%-16s %-8s %12s %12s %8s  %-13s  %s\n", "test", "unit", "ours", "perftest", "ratio", "at 90 %", "runs")
		}
		fmt.Fprintf(b.Stdout, "%-16s %-8s %12.3f %12.3f %8.3f  %.3f - %.3f  %d\n",
			res.Name, res.Unit, res.Ours, res.Peer, res.Ratio, res.Interval[0], res.Interval[1], res.Runs)
		b.results = append(b.results, res)
		if err := b.save(); err != nil {
			return err
		}
	}
	return nil
}

// save writes what there is so far: a run that is cut short leaves its half.
func (b *comparison) save() error {
	if b.Out == "" {
		return nil
	}
	link := strings.TrimRight(b.device, "0123456789")
	text, err := json.MarshalIndent(b.results, "", "  ")
	if err != nil {
		return err
	}
	name := "perf-" + link
	if b.cpu != anyCPU {
		name += "-counted"
	}
	return os.WriteFile(filepath.Join(b.Out, name+".json"), append(text, '\n'), 0o644)
}

// attempts is how often a run that failed is tried. On a host with more virtual
// processors than real ones the drivers' own timers run out now and then, and
// rxe does not survive every retransmission, whichever tool is at it.
const attempts = 3

// again runs one tool until it has a result.
func (b *comparison) again(ctx context.Context, t tool, c testCase) (float64, error) {
	var failed error
	for range attempts {
		v, failure, err := b.once(ctx, t, c)
		if err != nil {
			return 0, err
		}
		if failure == "" {
			return v, nil
		}
		failed = errors.New(failure)
		if !b.server {
			fmt.Fprintf(b.Log, "%s %s failed: %s\n", c.name(), t.name, failure)
		}
	}
	return 0, failed
}

// once runs one tool once, on both nodes. A failure is the tool's, an error the
// end of the comparison.
func (b *comparison) once(ctx context.Context, t tool, c testCase) (v float64, failure string, err error) {
	if b.server {
		failure, err = b.serve(ctx, t, c)
		return 0, failure, err
	}
	if _, err := b.hear(); err != nil {
		return 0, "", err
	}
	out, err := t.run(ctx, b.cpu, t.command(c, b.device, b.addr, false))
	if err == nil {
		v, err = t.parse(c, out)
	}
	var m message
	if err != nil {
		m.Error = err.Error()
	} else {
		fmt.Fprintf(b.Log, "%s %s: %.3f %s\n", c.name(), t.name, v, c.unit())
	}
	return v, m.Error, b.tell(m)
}

func (b *comparison) serve(ctx context.Context, t tool, c testCase) (string, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := t.run(running, b.cpu, t.command(c, b.device, b.addr, true))
		done <- err
	}()
	err := listening(ctx, toolPort)
	if err == nil {
		err = b.tell(message{})
	}
	var m message
	if err == nil {
		m, err = b.hear()
	}
	if err != nil {
		return "", err
	}
	if m.Error != "" {
		stop() // a server may wait for ever for a client that has failed
	}
	if err := <-done; err != nil && m.Error == "" {
		fmt.Fprintf(b.Log, "%s %s: the server failed, the client did not: %v\n", c.name(), t.name, err)
	}
	return m.Error, nil
}
