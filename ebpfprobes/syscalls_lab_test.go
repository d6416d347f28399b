//go:build lab

package ebpfprobes_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// did is what testdata/caller.c says of one operation.
type did struct {
	count  uint64
	median time.Duration
	err    syscall.Errno
}

// followed runs a program under a session by system calls, and gives what it counted
// beside what the program says of itself.
func followed(t *testing.T, f ebpfprobes.Filter, p *program) (say string, s *ebpfprobes.SyscallSession) {
	t.Helper()
	f.PID = p.cmd.Process.Pid
	s, err := ebpfprobes.RegistrationsBySyscalls(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p.tell(t)
	return p.line(t), s
}

// called runs testdata/caller.c.
func called(t *testing.T, path string, f ebpfprobes.Filter, way string, length, count int) (map[ebpfprobes.Operation]did, *ebpfprobes.SyscallSession) {
	t.Helper()
	line, s := followed(t, f, start(t, path, rdmaDevice(t), way, strconv.Itoa(length), strconv.Itoa(count)))
	done := make(map[ebpfprobes.Operation]did)
	words := strings.Fields(line)
	for i, o := range []ebpfprobes.Operation{ebpfprobes.Register, ebpfprobes.Reregister, ebpfprobes.Deregister} {
		var d did
		if _, err := fmt.Sscan(strings.Join(words[4*i+1:4*i+4], " "), &d.count, &d.median, &d.err); err != nil {
			t.Fatalf("the caller says %q: %v", line, err)
		}
		if d.count > 0 {
			done[o] = d
		}
	}
	return done, s
}

// nothingLost fails if something was.
func nothingLost(t *testing.T, s *ebpfprobes.SyscallSession) {
	t.Helper()
	if l, err := s.Losses(); err != nil || l.Any() {
		t.Errorf("lost %+v, %v", l, err)
	}
}

// rowsOf gives the rows by operation: there is one of each.
func rowsOf(t *testing.T, s *ebpfprobes.SyscallSession) map[ebpfprobes.Operation]ebpfprobes.RegistrationRow {
	t.Helper()
	list, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[ebpfprobes.Operation]ebpfprobes.RegistrationRow)
	for _, r := range list {
		if _, twice := rows[r.Operation]; twice {
			t.Errorf("two rows of %v: %+v", r.Operation, list)
		}
		rows[r.Operation] = r
	}
	return rows
}

// TestRegistrationsBySyscalls holds what is counted of each way to call the kernel to what
// the program did.
func TestRegistrationsBySyscalls(t *testing.T) {
	bySyscalls(t, []string{"write", "mixed", "command", "region", "demand", "again", "devx"}, 10_000)
}

func TestEFARegistrationsBySyscalls(t *testing.T) {
	bySyscalls(t, []string{"mixed", "command", "region", "demand", "again", "devx"}, 1000)
}

func bySyscalls(t *testing.T, ways []string, count int) {
	const length = 64 << 10
	caller := compile(t, "caller")
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			done, s := called(t, caller, ebpfprobes.Filter{}, way, length, count)
			rows := rowsOf(t, s)
			kind := map[string]ebpfprobes.Kind{"demand": ebpfprobes.OnDemand, "devx": ebpfprobes.DEVX}[way]
			if kind == 0 {
				kind = ebpfprobes.Host
			}
			failed := make(map[ebpfprobes.Operation]syscall.Errno)
			for o, d := range done {
				r := rows[o]
				t.Logf("%v: %d calls, median %v; the program's stopwatch: %v; errno %v", o, r.Whole.Count, r.Whole.Quantile(.5), d.median, d.err)
				if r.Whole.Count != d.count || r.Bytes != d.count*length || r.Size != length || r.Kind != kind ||
					r.Device != rdmaDevice(t) || r.Command != "caller" || (r.Failed > 0) != (d.err != 0) {
					t.Errorf("%+v of %q: %d calls, %d failed, %d bytes; the program made %+v", r.RegistrationKey, r.Command, r.Whole.Count, r.Failed, r.Bytes, d)
				}
				if d.err != 0 {
					failed[o] = d.err
				}
			}
			if way == "command" || way == "mixed" || way == "write" {
				if d := done[ebpfprobes.Deregister]; d.count != uint64(count) || d.err != 0 {
					t.Errorf("the kernel refused: %+v", done)
				}
			}
			if len(rows) != len(done) || done[ebpfprobes.Register].count != uint64(count) {
				t.Errorf("%d rows; the program did %+v", len(rows), done)
			}
			failures, err := s.Failures()
			if err != nil || len(failures) != len(failed) {
				t.Errorf("%+v, %v; the program had %v", failures, err, failed)
			}
			for _, f := range failures {
				if f.Err != failed[f.Operation] || f.Count != rows[f.Operation].Failed || f.Cause != 0 || f.CausePhase != ebpfprobes.UnknownPhase {
					t.Errorf("%+v; the program had %v", f, failed)
				}
			}
			nothingLost(t, s)
		})
	}
}

// TestRegistrationsBySyscallsOfLibibverbs: whichever way the library takes.
func TestRegistrationsBySyscallsOfLibibverbs(t *testing.T)    { ofLibrary(t, "host", 10_000) }
func TestEFARegistrationsBySyscallsOfLibibverbs(t *testing.T) { ofLibrary(t, "host", 1000) }

// TestEFARegistrationsBySyscallsOfDMABufs knows them by the method, and what they are of.
func TestEFARegistrationsBySyscallsOfDMABufs(t *testing.T) {
	needUdmabuf(t)
	s := ofLibrary(t, "udmabuf", 50)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n := 0
	for e, err := range s.Events(ctx) {
		n++
		if err != nil || e.Length != 1<<20 || e.Kind != ebpfprobes.DMABuf || e.LKey == 0 || e.Device != rdmaDevice(t) ||
			e.Operation == ebpfprobes.Register && (e.Exporter != "udmabuf" || e.Inode == 0 || e.BufferSize != 1<<20) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if n != 100 {
		t.Errorf("%d events", n)
	}
}

func ofLibrary(t *testing.T, kind string, count int) *ebpfprobes.SyscallSession {
	t.Helper()
	const length = 1 << 20
	r := startRegistrar(t, build(t), kind, length, count, 1)
	line, s := followed(t, ebpfprobes.Filter{Events: kind == "udmabuf"}, r.program)
	rows := rowsOf(t, s)
	var m medians
	var n int
	if _, err := fmt.Sscanf(line, "register %d %g deregister %d %g", &n, &m.register, &n, &m.deregister); err != nil {
		t.Fatalf("the registrar says %q: %v", line, err)
	}
	for o, median := range map[ebpfprobes.Operation]float64{ebpfprobes.Register: m.register, ebpfprobes.Deregister: m.deregister} {
		row := rows[o]
		t.Logf("%v: median %v; the program's stopwatch, with the library: %v", o, row.Whole.Quantile(.5), time.Duration(median))
		if row.Whole.Count != uint64(count) || row.Bytes != uint64(count*length) || row.Device != rdmaDevice(t) || row.Failed != 0 || row.Kind.String() != map[string]string{"host": "host", "udmabuf": "dma-buf"}[kind] {
			t.Errorf("%v: %+v: %d calls, %d bytes; the program made %d", o, row.RegistrationKey, row.Whole.Count, row.Bytes, count)
		}
	}
	nothingLost(t, s)
	return s
}

// TestRegistrationsBySyscallsThatAreNone: a file that is written what looks like
// registrations is not shown as a device.
func TestRegistrationsBySyscallsThatAreNone(t *testing.T) {
	done, s := called(t, compile(t, "caller"), ebpfprobes.Filter{}, "foreign", 4096, 1000)
	if rows := rowsOf(t, s); len(rows) != 0 || done[ebpfprobes.Register].count != 1000 {
		t.Errorf("%+v; the program did %+v", rows, done)
	}
	nothingLost(t, s)
}

// TestRegistrationsBySyscallsUnmatched: what was registered before, or is left to the
// kernel, is told as far as it can be; and after Detach nothing is counted.
func TestRegistrationsBySyscallsUnmatched(t *testing.T) {
	p := start(t, compile(t, "caller"), rdmaDevice(t), "orphan", "4096", "100")
	_, s := followed(t, ebpfprobes.Filter{}, p)
	p.end()
	if rows := rowsOf(t, s); len(rows) != 1 || rows[ebpfprobes.Register].Whole.Count != 100 {
		t.Errorf("%+v", rows)
	}
	if err := s.Detach(); err != nil {
		t.Error(err)
	}
	if n := attachedPrograms(t); n == 0 {
		t.Error("the maps are gone too")
	}
	if err := s.Attach(); err != nil {
		t.Error(err)
	}
	nothingLost(t, s)
	if _, err := ebpfprobes.RegistrationsBySyscalls(ebpfprobes.Filter{Stacks: true}); err == nil {
		t.Error("stacks were not refused")
	}
}
