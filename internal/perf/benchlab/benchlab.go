// Package benchlab compares peerdirect perf with perftest on one pair of
// machines of the lab, run by run in turn, so that whatever else the host does
// falls on both.
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
	"slices"
	"strings"
	"time"
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
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Ours     float64   `json:"ours"`
	Peer     float64   `json:"peer"`
	Ratio    float64   `json:"ratio"`
	Runs     int       `json:"runs"`
	OursRuns []float64 `json:"ours_runs"`
	PeerRuns []float64 `json:"peer_runs"`
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
// has the servers, the second one the clients, and the results.
func Run(ctx context.Context, o Options) error {
	node, addrs := os.Getenv("PEERDIRECT_NODE"), strings.FieldsFunc(os.Getenv("PEERDIRECT_ADDRS"), func(r rune) bool { return r == ' ' || r == ',' })
	if len(addrs) != 2 || node != "0" && node != "1" {
		return errors.New("this runs in the lab, on two nodes: peerdirect lab run --nodes 2 -- peerdirect perf bench-lab")
	}
	if o.Rounds < 1 {
		return fmt.Errorf("%d rounds: at least 1", o.Rounds)
	}
	b := &bench{Options: o, server: node == "0", addr: addrs[0], device: os.Getenv("PEERDIRECT_DEVICE")}
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

type bench struct {
	Options
	server  bool
	addr    string // the server's
	device  string
	conn    net.Conn
	in      *json.Decoder
	out     *json.Encoder
	results []Result
}

func (b *bench) meet(ctx context.Context) (net.Conn, error) {
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
func (b *bench) tell(m message) error {
	b.conn.SetWriteDeadline(time.Now().Add(runLimit))
	return b.out.Encode(m)
}

func (b *bench) hear() (m message, err error) {
	b.conn.SetReadDeadline(time.Now().Add(2 * runLimit))
	err = b.in.Decode(&m)
	return m, err
}

func (b *bench) run(ctx context.Context) error {
	for _, c := range cases() {
		if !strings.Contains(c.name(), b.Only) {
			continue
		}
		res := Result{Name: c.name(), Unit: c.unit(), Runs: b.Rounds}
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
		res.Ours, res.Peer = median(res.OursRuns), median(res.PeerRuns)
		res.Ratio = res.Ours / res.Peer
		if len(b.results) == 0 {
			fmt.Fprintf(b.Stdout, "%-16s %-8s %12s %12s %8s  %s\n", "test", "unit", "ours", "perftest", "ratio", "runs")
		}
		fmt.Fprintf(b.Stdout, "%-16s %-8s %12.3f %12.3f %8.3f  %d\n", res.Name, res.Unit, res.Ours, res.Peer, res.Ratio, res.Runs)
		b.results = append(b.results, res)
		if err := b.save(); err != nil {
			return err
		}
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

// save writes what there is so far: a run that is cut short leaves its half.
func (b *bench) save() error {
	if b.Out == "" {
		return nil
	}
	link := strings.TrimRight(b.device, "0123456789")
	text, err := json.MarshalIndent(b.results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.Out, "perf-"+link+".json"), append(text, '\n'), 0o644)
}

// attempts is how often a run that failed is tried. On a host with more virtual
// processors than real ones the drivers' own timers run out now and then, and
// rxe does not survive every retransmission, whichever tool is at it.
const attempts = 3

// again runs one tool until it has a result.
func (b *bench) again(ctx context.Context, t tool, c testCase) (float64, error) {
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
func (b *bench) once(ctx context.Context, t tool, c testCase) (v float64, failure string, err error) {
	if b.server {
		failure, err = b.serve(ctx, t, c)
		return 0, failure, err
	}
	if _, err := b.hear(); err != nil {
		return 0, "", err
	}
	out, err := t.run(ctx, t.command(c, b.device, b.addr, false))
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

func (b *bench) serve(ctx context.Context, t tool, c testCase) (string, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := t.run(running, t.command(c, b.device, b.addr, true))
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
