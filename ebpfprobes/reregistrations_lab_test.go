//go:build lab

package ebpfprobes_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// TestReregistrations holds the counts of calls that register a region again to what the
// program that made them says. What no driver offers is refused before the handler: only
// the file operation tells of it.
func TestReregistrations(t *testing.T)    { reregistered(t) }
func TestEFAReregistrations(t *testing.T) { reregistered(t) }

func reregistered(t *testing.T) {
	const count = 100
	path := compile(t, "caller")
	t.Run("file operation", func(t *testing.T) { again(t, path, ebpfprobes.Registrations, count, true) })
	t.Run("handler", func(t *testing.T) {
		again(t, path, func(f ebpfprobes.Filter) (*ebpfprobes.RegistrationSession, error) {
			return ebpfprobes.RegistrationsByKprobes(t, f, "whole call")
		}, count, false)
	})
}

func again(t *testing.T, path string, open opener, count uint64, refused bool) {
	p := start(t, path, rdmaDevice(t), "again", "65536", strconv.FormatUint(count, 10))
	s, err := open(ebpfprobes.Filter{PID: p.cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p.tell(t)
	words := strings.Fields(p.line(t)) // of each operation: its name, how often, median, errno
	rows, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[ebpfprobes.Operation]ebpfprobes.RegistrationRow)
	for _, r := range rows {
		seen[r.Operation] = r
	}
	for o := range ebpfprobes.Deregister + 1 {
		told, r := words[4*int(o):4*int(o)+4], seen[o]
		want, failed := count, uint64(0)
		if told[3] != "0" {
			failed = count
		}
		if told[3] == strconv.Itoa(int(syscall.EOPNOTSUPP)) && !refused {
			want, failed = 0, 0
		}
		t.Logf("%v: %d calls, %d failed; the program: %v", o, r.Whole.Count, r.Failed, told)
		if r.Whole.Count != want || r.Failed != failed || told[1] != strconv.FormatUint(count, 10) {
			t.Errorf("%v: want %d calls, %d failed", o, want, failed)
		}
	}
	if len(rows) != len(seen) {
		t.Errorf("%d rows of %d operations", len(rows), len(seen))
	}
	if lost, err := s.Losses(); err != nil || lost.Any() {
		t.Errorf("lost %+v, %v", lost, err)
	}
}
