//go:build lab

package ebpfprobes_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// The library's file is replaced under a running program, as an upgrade does it: what
// the program has mapped is traced all the same, and told.
func TestReplacedLibrary(t *testing.T) {
	device, transport := deviceAndTransport(t)
	p := startPoller(t, buildPoller(t), device, transport, "poll", "64", "200")
	library := mappedProvider(t, p.cmd.Process.Pid, device)
	replace(t, library)
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: p.cmd.Process.Pid, Polled: true, Window: time.Minute, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.Sleep(time.Second)
	said := p.run(t)
	told := false
	for _, q := range s.Probes() {
		told = told || q.Usable == ebpfprobes.Yes && strings.Contains(q.Why, "replaced")
	}
	if n, err := s.Sampling(); err != nil || n.Posts != said.completions || !told {
		t.Errorf("%+v, %v; the program had %d; told: %v", n, err, said.completions, told)
	}
}

// mappedProvider finds the device's provider among those that libibverbs has loaded.
func mappedProvider(t *testing.T, pid int, device string) string {
	t.Helper()
	name := map[bool]string{true: "libefa", false: "librxe"}[strings.HasPrefix(device, "efa")]
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.Index(line, "/"); i >= 0 && strings.Contains(line, name) {
			return strings.TrimSpace(line[i:])
		}
	}
	t.Fatalf("no %s in\n%s", name, maps)
	return ""
}

func replace(t *testing.T, file string) {
	t.Helper()
	from, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(to.Close(), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

// Of two work requests with one id nobody can tell which has completed: neither is timed.
func TestRepeatedIDs(t *testing.T) {
	device, transport := deviceAndTransport(t)
	if transport == "srd" {
		t.Skip("needs a device with connected queue pairs: --link rxe")
	}
	p := startPoller(t, buildPoller(t), device, transport, "pairs", "64", "100")
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: p.cmd.Process.Pid, Polled: true, Window: time.Minute, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.Sleep(time.Second)
	p.run(t)
	rows, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var timed, untimed, repeated uint64
	for _, r := range rows {
		timed, untimed, repeated = timed+r.Times.Count, untimed+r.Untimed, repeated+r.Repeated
	}
	if timed != 0 || untimed != 200 || repeated != 100 {
		t.Errorf("%d timed, %d untimed, %d repeated; want 0, 200, 100", timed, untimed, repeated)
	}
}

// The followed process is killed: the session goes on, and tells.
func TestKilledProcess(t *testing.T) {
	device, transport := deviceAndTransport(t)
	p := startPoller(t, buildPoller(t), device, transport, "poll", "64", "100000000")
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: p.cmd.Process.Pid, Polled: true, Window: 50 * time.Millisecond, Every: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p.in.WriteString("\n")
	time.Sleep(2 * time.Second)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Process.Wait()
	gone := false
	for wait := time.Now().Add(20 * time.Second); !gone && time.Now().Before(wait); time.Sleep(100 * time.Millisecond) {
		for _, q := range s.Probes() {
			gone = gone || q.Usable == ebpfprobes.No && strings.Contains(q.Why, "no process")
		}
	}
	rows, err := s.Rows()
	if !gone || err != nil || len(rows) == 0 {
		t.Errorf("told: %v; %d rows, %v", gone, len(rows), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A process without RDMA, and none at all.
func TestNothingToFollow(t *testing.T) {
	deviceAndTransport(t)
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: cmd.Process.Pid, Polled: true})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Probes()[len(s.Probes())-1]
	if last.Usable != ebpfprobes.No || !strings.Contains(last.Why, "no provider of RDMA devices") {
		t.Errorf("%v", last)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: 1 << 22, Polled: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v", s, err)
	}
}

// rdma-core's own program, at both ends, without naming a process.
func TestPingPongEvents(t *testing.T) {
	device, transport := deviceAndTransport(t)
	if transport == "srd" {
		t.Skip("needs a device with connected queue pairs: --link rxe")
	}
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const iterations = 500
	arguments := []string{"-d", device, "-g", "1", "-e", "-n", strconv.Itoa(iterations)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, "ibv_rc_pingpong", arguments...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // it tells nobody when it listens
	client := exec.CommandContext(ctx, "ibv_rc_pingpong", append(arguments, "localhost")...)
	said, err := client.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	server.Wait()
	t.Logf("%s", said)
	rows, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	events := make(map[int]uint64)
	for _, r := range rows {
		t.Logf("%d %s %s number %d %s: %d, median %v", r.PID, r.Command, r.Device, r.Number, r.Wait, r.Times.Count, r.Times.Quantile(.5))
		events[r.PID] += r.Times.Count
	}
	// Each end has a completion for sending and one for receiving, an event for one or both.
	for _, pid := range []int{server.Process.Pid, client.Process.Pid} {
		if n := events[pid]; n < iterations/2 || n > 2*iterations+1 {
			t.Errorf("process %d had %d events in %d iterations", pid, n, iterations)
		}
	}
}
