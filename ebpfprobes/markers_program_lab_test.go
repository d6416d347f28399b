//go:build lab

package ebpfprobes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	efadevice "github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/internal/perf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// markedProgram in the environment makes this file a program of its own with marks.
const markedProgram = "EBPFPROBES_TEST_MARKED"

// TestMarkersProgram is not a test but a program that embeds the packages, for the tests
// of marks. It says "ready" and does a line's bidding: run, or tell whether it is traced.
func TestMarkersProgram(t *testing.T) {
	arguments := strings.Fields(os.Getenv(markedProgram))
	if len(arguments) == 0 {
		t.Skip("only run by other tests")
	}
	if arguments[0] == "trace" { // another tracer, to be killed
		s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "on":
			fmt.Println(marker.On())
		case "run":
			told, err := markedRun(arguments)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(told)
		}
	}
}

// markedRun moves something: both sides are this process. It tells what was measured.
func markedRun(arguments []string) (string, error) {
	ctx := context.Background()
	what := pages.SendOptions{Layout: pages.Layout{PageSize: 16 << 10, Pages: 256, Stride: 2, Seed: 1}, Iterations: 4}
	switch arguments[0] {
	case "perf":
		return markedPerf(ctx, arguments[1:])
	case "transfer":
		return "moved", markedPages(ctx, what)
	case "embedded", "unresponsive":
		e, err := transfer.NewEmbedded(transfer.EmbeddedOptions{NICs: 4})
		if err != nil {
			return "", err
		}
		defer e.Close()
		if arguments[0] == "unresponsive" {
			e.Fabric().Faults().Set(efadevice.FaultPlan{Unresponsive: true})
			if _, _, err := pages.Inside(ctx, e, 1, 0, pages.Options{Timeout: 5 * time.Second}, what, nil); err == nil {
				return "", errors.New("a peer that does not answer was no obstacle")
			}
			return "failed", nil
		}
		_, _, err = pages.Inside(ctx, e, 1, 0, pages.Options{}, what, nil)
		return "moved", err
	}
	return "", fmt.Errorf("%q", arguments)
}

// markedPages moves pages from the guest's device to itself.
func markedPages(ctx context.Context, what pages.SendOptions) error {
	rail, err := transfer.Named(os.Getenv("PEERDIRECT_DEVICE"), transfer.RCOptions{})
	if err != nil {
		return err
	}
	o := pages.Options{Rail: rail, Peers: 2}
	if o.Credentials, err = control.Token("no secret between one process"); err != nil {
		return err
	}
	receiver, err := pages.Open(o)
	if err != nil {
		return err
	}
	defer receiver.Close()
	sender, err := pages.Open(o)
	if err != nil {
		return err
	}
	defer sender.Close()
	l, err := receiver.Listen(ctx, os.Getenv("PEERDIRECT_ADDR")+":0", pages.ListenOptions{})
	if err != nil {
		return err
	}
	defer l.Close()
	received := make(chan error, 1)
	go func() { _, err := l.Receive(ctx); received <- err }()
	_, err = sender.To(ctx, []string{l.Addr().String()}, what)
	return errors.Join(err, <-received)
}

func markedPerf(ctx context.Context, arguments []string) (string, error) {
	o := perf.Defaults(perf.Op(arguments[0]), perf.Test(arguments[1]))
	o.Size, _ = strconv.Atoi(arguments[2])
	o.Iters, _ = strconv.Atoi(arguments[3])
	if len(arguments) > 4 { // messages to a completion
		o.CQMod, _ = strconv.Atoi(arguments[4])
	}
	o.Device, o.QPTimeout = os.Getenv("PEERDIRECT_DEVICE"), 18
	server := o
	server.Listen, o.Server = os.Getenv("PEERDIRECT_ADDR"), os.Getenv("PEERDIRECT_ADDR")
	served := make(chan error, 1)
	go func() { _, err := perf.Run(ctx, server, perf.Output{}); served <- err }()
	report, err := perf.Run(ctx, o, perf.Output{})
	if err = errors.Join(err, <-served); err != nil {
		return "", err
	}
	b, err := json.Marshal(report.Results[0])
	return string(b), err
}

// markedProcess is that program at work.
type markedProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startMarked(t testing.TB, file, what string) *markedProcess {
	t.Helper()
	p := &markedProcess{cmd: exec.Command(file, "-test.run=^TestMarkersProgram$", "-test.timeout=5m")}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), markedProgram+"="+what), os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.in.Close(); p.cmd.Wait() })
	p.out = bufio.NewReader(out)
	if said := p.line(t); said != "ready" {
		t.Fatalf("the program said %q", said)
	}
	return p
}

func (p *markedProcess) line(t testing.TB) string {
	t.Helper()
	l, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the program said %q: %v", l, err)
	}
	return strings.TrimSpace(l)
}

func (p *markedProcess) ask(t testing.TB, what string) string {
	t.Helper()
	fmt.Fprintln(p.in, what)
	return p.line(t)
}
