//go:build lab

package ebpfprobes_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

func TestConnections(t *testing.T) {
	if !strings.HasPrefix(device(t), "rxe") {
		t.Skip("needs rxe: iWARP's queue pairs go other ways")
	}
	testConnections(t, "rc")
}

func TestEFAConnections(t *testing.T) { testConnections(t, "ud") }

func testConnections(t *testing.T, kind string) {
	const count = 20
	dev := device(t)
	before := attachedPrograms(t)
	p := start(t, compile(t, "connector"), dev, kind, fmt.Sprint(count))
	pid := p.cmd.Process.Pid
	s, err := ebpfprobes.Connections(ebpfprobes.ConnectionFilter{PID: pid, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, probe := range s.Probes() {
		t.Log(probe)
	}
	p.tell(t)
	steps := []string{
		"created ?→RESET", "modified RESET→INIT", "modified INIT→RTR", "modified RTR→RTS",
		"modified RTS→INIT refused", "modified RTS→ERR", "modified ERR→RESET", "destroyed RESET→?",
	}
	var numbers []uint32
	var refusal syscall.Errno
	for range count {
		var n uint32
		var r int
		if _, err := fmt.Sscanf(p.line(t), "qp %d refused %d", &n, &r); err != nil {
			t.Fatal(err)
		}
		numbers, refusal = append(numbers, n), syscall.Errno(r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var seen []ebpfprobes.QPChange
	for c, err := range s.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, c); len(seen) == count*len(steps) {
			break
		}
	}
	if len(seen) != count*len(steps) {
		for _, c := range seen[:min(len(seen), 2*len(steps))] {
			t.Logf("%+v", c)
		}
		t.Fatalf("%d changes were seen, the program made %d", len(seen), count*len(steps))
	}
	for i, c := range seen {
		got, want := fmt.Sprintf("%v %v→%v", c.Change, c.From, c.To), steps[i%len(steps)]
		if c.Err != 0 {
			got += " refused"
			if c.Err != refusal {
				t.Errorf("change %d was refused with %v, the program says %v", i, c.Err, refusal)
			}
		}
		number := numbers[i/len(steps)]
		if got != want || c.QP.Number != number || c.PID != pid || c.QP.PID != pid || c.Command != "connector" || c.QP.Device != dev {
			t.Errorf("change %d: %s of queue pair %d of %s by %d (%s), want %s of %d", i, got, c.QP.Number, c.QP.Device, c.PID, c.Command, want, number)
		}
		if c.Change == ebpfprobes.Modified && (c.Took <= 0 || c.Took > time.Second) {
			t.Errorf("change %d took %v", i, c.Took)
		}
		if kind == "rc" && c.To == ebpfprobes.StateRTR && (c.QP.RemoteQPN != number || c.QP.MTU != 1024 || c.QP.RemoteGID.String() != gid(t, dev, 1)) {
			t.Errorf("change %d: peer %d %v, MTU %d, want %d %s 1024", i, c.QP.RemoteQPN, c.QP.RemoteGID, c.QP.MTU, number, gid(t, dev, 1))
		}
	}
	t.Logf("%+v", seen[2])
	rows, err := s.Transitions()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(steps) {
		t.Errorf("%d sorts of changes were counted, want %d", len(rows), len(steps))
	}
	for _, r := range rows {
		if r.Count != count || r.PID != pid || r.Device != dev || r.Command != "connector" {
			t.Errorf("counted: %+v", r)
		}
	}
	if left, err := s.QPs(); err != nil || len(left) > 0 {
		t.Errorf("alive: %+v %v", left, err)
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
}

// gid is an entry of the device's table, as an address is written.
func gid(t *testing.T, device string, index int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/class/infiniband", device, "ports/1/gids", fmt.Sprint(index)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), ":", ""))
	if err != nil || len(b) != 16 {
		t.Fatalf("%q: %v", text, err)
	}
	return netip.AddrFrom16([16]byte(b)).String()
}
