//go:build lab

package ebpfprobes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// failures runs the program and gives what it says has failed, what was counted of it,
// and the same from single events.
func failures(t *testing.T, what string) (said []string, rows []ebpfprobes.ErrorRow, events []ebpfprobes.Failure) {
	t.Helper()
	before := attachedPrograms(t)
	p := start(t, compile(t, "failer"), device(t), what)
	s, err := ebpfprobes.Errors(ebpfprobes.ErrorFilter{PID: p.cmd.Process.Pid, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, probe := range s.Probes() {
		if probe.Usable == ebpfprobes.Yes {
			t.Log(probe)
		}
	}
	p.tell(t)
	for line := p.line(t); line != "done"; line = p.line(t) {
		t.Log("the program: ", line)
		said = append(said, line)
	}
	if rows, err = s.Rows(); err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for _, r := range rows {
		t.Logf("%+v cause %v", r, r.Cause)
		total += r.Count
		if r.PID != p.cmd.Process.Pid || r.Device != device(t) {
			t.Errorf("of process %d, device %q: %+v", r.PID, r.Device, r)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for e, err := range s.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if events = append(events, e); uint64(len(events)) == total {
			break
		}
	}
	if uint64(len(events)) != total {
		t.Errorf("%d events were sent, %d were counted", len(events), total)
	}
	if l, err := s.Losses(); err != nil || l.Any() {
		t.Errorf("losses: %+v %v", l, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if after := attachedPrograms(t); after != before {
		t.Errorf("%d descriptors of BPF are open after Close, %d were before", after, before)
	}
	return said, rows, events
}

func TestEFAFailedCalls(t *testing.T) { testFailedCalls(t) }

func TestFailedCalls(t *testing.T) {
	if strings.HasPrefix(device(t), "siw") {
		t.Skip("needs rxe or EFA: siw has no datagram queue pairs")
	}
	testFailedCalls(t)
}

func testFailedCalls(t *testing.T) {
	t.Helper()
	said, _, events := failures(t, "calls")
	var seen []string
	for _, e := range events {
		if e.Class == ebpfprobes.CallError && e.Command == "failer" {
			what, _, _ := strings.Cut(e.What, " (")
			seen = append(seen, fmt.Sprintf("%s %d", what, int(e.Err)))
		}
	}
	if len(said) != 4 {
		t.Fatalf("the program said %q", said)
	}
	// libibverbs asks in ways that an older kernel refuses: those may come between.
	next := 0
	for _, s := range seen {
		if next < len(said) && strings.HasPrefix(said[next]+" ", s+" ") {
			next++
		}
	}
	if next < len(said) {
		t.Errorf("saw %q, the program says %q", seen, said)
	}
}

func TestFailedCompletions(t *testing.T) {
	if !strings.HasPrefix(device(t), "rxe") {
		t.Skip("needs rxe: of other devices the kernel does not see completions")
	}
	said, rows, _ := failures(t, "completions")
	count, names := make(map[string]uint64), map[int]string{2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR"}
	var number uint32
	for _, s := range said {
		var status int
		if _, err := fmt.Sscanf(s, "completion %d of %d", &status, &number); err != nil {
			t.Fatal(err)
		}
		count[names[status]]++
	}
	for _, r := range rows {
		if r.Class != ebpfprobes.CompletionError {
			continue
		}
		if count[r.What] != r.Count || r.Number != number {
			t.Errorf("%s: %d times, last of queue pair %d; the program says %d, %d", r.What, r.Count, r.Number, count[r.What], number)
		}
		delete(count, r.What)
	}
	if len(count) > 0 {
		t.Errorf("not seen: %v", count)
	}
}

func TestEFARefusedCommand(t *testing.T) {
	if !strings.HasPrefix(device(t), "efa") {
		t.Skip("needs EFA devices: lab run --efa 1")
	}
	said, rows, _ := failures(t, "queues")
	var errno int
	if _, err := fmt.Sscanf(said[0], "create qp %d", &errno); err != nil {
		t.Fatal(err)
	}
	var call, command bool
	for _, r := range rows {
		switch {
		case r.Class == ebpfprobes.CallError && strings.Contains(strings.ToLower(r.What), "qp") && r.Err == syscall.Errno(errno):
			call = r.Cause != nil && r.Cause.What == "efa_com_create_qp"
		case r.Class == ebpfprobes.CommandError && r.What == "efa_com_create_qp":
			command = r.Count == 1 && r.Err != 0
		}
	}
	if !call || !command {
		t.Errorf("the refused command: as the call's cause %v, by itself %v", call, command)
	}
}

// TestMLX5Commands attaches to the tracepoint of a driver without a device.
func TestMLX5Commands(t *testing.T) {
	if out, err := exec.Command("modprobe", "mlx5_ib").CombinedOutput(); err != nil {
		t.Skipf("needs module mlx5_ib: %v %s", err, out)
	}
	s, err := ebpfprobes.Errors(ebpfprobes.ErrorFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	attached := false
	for _, p := range s.Probes() {
		if p.Function == "mlx5_cmd" {
			t.Log(p)
			attached = p.Usable == ebpfprobes.Yes && p.By == ebpfprobes.ByTracepoint
		}
	}
	if !attached {
		t.Error("mlx5:mlx5_cmd is not attached")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("modprobe", "-r", "mlx5_ib").CombinedOutput(); err != nil {
		t.Errorf("the module is still held after Close: %v %s", err, out)
	}
}

// TestPortDown takes the link of a device down.
func TestPortDown(t *testing.T) {
	dev := device(t)
	if !strings.HasPrefix(dev, "rxe") {
		t.Skip("needs rxe, whose port follows a network device")
	}
	name, err := os.ReadFile("/sys/class/infiniband/" + dev + "/ports/1/gid_attrs/ndevs/0")
	if err != nil {
		t.Fatal(err)
	}
	link := func(to string) {
		if out, err := exec.Command("ip", "link", "set", strings.TrimSpace(string(name)), to).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	s, err := ebpfprobes.Errors(ebpfprobes.ErrorFilter{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	t.Cleanup(func() { link("up") })
	link("down")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for e, err := range s.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", e)
		if e.Class == ebpfprobes.EventError && e.What == "PORT_ERR" && e.Device == dev && e.Number == 1 {
			return
		}
	}
	t.Error("PORT_ERR was not seen")
}
