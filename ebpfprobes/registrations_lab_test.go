//go:build lab

package ebpfprobes_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// opener begins a session: ebpfprobes.Registrations, or one that attaches otherwise.
type opener func(ebpfprobes.Filter) (*ebpfprobes.RegistrationSession, error)

// traced runs the registrar under a session and gives what the session counted.
func traced(t *testing.T, open opener, f ebpfprobes.Filter, kind string, length, count int) (rows []ebpfprobes.RegistrationRow, failures []ebpfprobes.RegistrationFailure, events []ebpfprobes.Registration) {
	t.Helper()
	registrar(t, build(t), kind, length, count, func(pid int) func() {
		f.PID = pid
		s, err := open(f)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			for _, p := range s.Probes() {
				if p.Needed && p.Usable != ebpfprobes.Yes {
					t.Log(p)
				}
			}
			if rows, err = s.Rows(); err != nil {
				t.Error(err)
			}
			if failures, err = s.Failures(); err != nil {
				t.Error(err)
			}
			if f.Events {
				// All has been sent by now: what is not there in a second is lost.
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				for e, err := range s.Events(ctx) {
					if err != nil {
						t.Error(err)
					}
					events = append(events, e)
				}
			}
			if lost, err := s.Losses(); err != nil || lost.Any() {
				t.Errorf("lost %+v, %v", lost, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return rows, failures, events
}

// TestRegistrationsAreCounted holds a session's counts to those of the program: exact,
// and the phases of all calls add up to them.
func TestRegistrationsAreCounted(t *testing.T)    { counted(t, ebpfprobes.Registrations, 4<<10, 100_000) }
func TestEFARegistrationsAreCounted(t *testing.T) { counted(t, ebpfprobes.Registrations, 1<<20, 2000) }

func counted(t *testing.T, open opener, length, count int) {
	files := openFiles(t)
	rows, failures, _ := traced(t, open, ebpfprobes.Filter{}, "host", length, count)
	if len(failures) != 0 {
		t.Errorf("failed: %+v", failures)
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, r := range rows {
		if r.Operation != [...]ebpfprobes.Operation{ebpfprobes.Register, ebpfprobes.Deregister}[i] || r.Kind != ebpfprobes.Host ||
			r.Device != rdmaDevice(t) || r.Size != uint64(length) || r.Command != "registrar" || r.Failed != 0 {
			t.Errorf("%+v of %q, %d failed", r.RegistrationKey, r.Command, r.Failed)
		}
		if r.Whole.Count != uint64(count) || r.Bytes != uint64(count*length) {
			t.Errorf("%v: %d calls of %d bytes; the program made %d of %d", r.Operation, r.Whole.Count, r.Bytes, count, count*length)
		}
		sum := time.Duration(0)
		for _, h := range r.Phases {
			sum += h.Sum
		}
		if sum != r.Whole.Sum {
			t.Errorf("%v: the phases are %v, the whole %v", r.Operation, sum, r.Whole.Sum)
		}
	}
	for _, p := range []ebpfprobes.Phase{ebpfprobes.Uverbs, ebpfprobes.Driver, ebpfprobes.Pin} {
		if n := rows[0].Phases[p].Count; n != uint64(count) {
			t.Errorf("%d of %d registrations had phase %v", n, count, p)
		}
	}
	if n := openFiles(t); n != files {
		t.Errorf("%d open descriptors, %d before", n, files)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	f, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(f)
}

func TestRegistrationsOneByOne(t *testing.T)    { oneByOne(t, ebpfprobes.Registrations) }
func TestEFARegistrationsOneByOne(t *testing.T) { oneByOne(t, ebpfprobes.Registrations) }

func oneByOne(t *testing.T, open opener) {
	const length, count = 256 << 10, 3
	began := time.Now()
	_, _, events := traced(t, open, ebpfprobes.Filter{Events: true, Stacks: true}, "host", length, count)
	if len(events) != 2*count {
		t.Fatalf("%d events: %+v", len(events), events)
	}
	last := began
	for i, e := range events {
		if e.Operation != [...]ebpfprobes.Operation{ebpfprobes.Register, ebpfprobes.Deregister}[i%2] || e.Kind != ebpfprobes.Host ||
			e.Device != rdmaDevice(t) || e.Length != length || e.Command != "registrar" || e.Err != 0 || e.LKey == 0 || e.IOVA == 0 {
			t.Errorf("%+v", e)
		}
		if i%2 == 1 && (e.LKey != events[i-1].LKey || e.RKey != events[i-1].RKey || e.IOVA != events[i-1].IOVA) {
			t.Errorf("%+v deregisters %+v", e, events[i-1])
		}
		sum := time.Duration(0)
		for _, d := range e.Spent {
			sum += d
		}
		if sum != e.Took || e.Took <= 0 {
			t.Errorf("the phases are %v, the whole %v", sum, e.Took)
		}
		if e.At.Before(last) || e.At.After(time.Now()) {
			t.Errorf("ended at %v, after %v", e.At, last)
		}
		if last = e.At; len(e.Stack) == 0 {
			t.Error("no stack")
		}
	}
}

func TestRegistrationsThatFail(t *testing.T)    { failing(t, ebpfprobes.Registrations) }
func TestEFARegistrationsThatFail(t *testing.T) { failing(t, ebpfprobes.Registrations) }

func failing(t *testing.T, open opener) {
	const count = 7
	rows, failures, _ := traced(t, open, ebpfprobes.Filter{}, "hole", 64<<10, count)
	if len(rows) != 1 || rows[0].Whole.Count != count || rows[0].Failed != count || rows[0].Operation != ebpfprobes.Register {
		t.Errorf("%+v", rows)
	}
	if len(failures) != 1 {
		t.Fatalf("%+v", failures)
	}
	if f := failures[0]; f.Err != syscall.EFAULT || f.Cause != syscall.EFAULT || f.CausePhase != ebpfprobes.Pin || f.Count != count || f.Device != rdmaDevice(t) {
		t.Errorf("%+v", f)
	}
}

// TestRegistrationsThatAreLeft: what a killed process leaves registered, the kernel
// deregisters.
func TestRegistrationsThatAreLeft(t *testing.T)    { left(t, ebpfprobes.Registrations) }
func TestEFARegistrationsThatAreLeft(t *testing.T) { left(t, ebpfprobes.Registrations) }

func left(t *testing.T, open opener) {
	const length, count = 64 << 10, 50
	r := startRegistrar(t, build(t), "left", length, count, 1)
	s, err := open(ebpfprobes.Filter{PID: r.cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r.round(t)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end()
	rows, err := s.Rows()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for i, row := range rows {
		if row.Operation != [...]ebpfprobes.Operation{ebpfprobes.Register, ebpfprobes.Deregister}[i] || row.Whole.Count != count || row.Bytes != count*length ||
			row.Kind != ebpfprobes.Host || row.Device != rdmaDevice(t) || row.Failed != 0 {
			t.Errorf("%+v: %d calls, %d failed, %d bytes", row.RegistrationKey, row.Whole.Count, row.Failed, row.Bytes)
		}
	}
	if lost, err := s.Losses(); err != nil || lost.Any() {
		t.Errorf("lost %+v, %v", lost, err)
	}
}

func TestEFARegistrationsOfDMABufs(t *testing.T) {
	if _, err := os.Stat("/dev/udmabuf"); err != nil {
		t.Skip("needs /dev/udmabuf: Debian's 6.1 has none, the lab's 6.12 and 7.3 do")
	}
	const length, count = 1 << 20, 50
	rows, _, events := traced(t, ebpfprobes.Registrations, ebpfprobes.Filter{Events: true}, "udmabuf", length, count)
	if len(rows) != 2 || len(events) != 2*count {
		t.Fatalf("%d rows, %d events: %+v", len(rows), len(events), rows)
	}
	for _, r := range rows {
		if r.Kind != ebpfprobes.DMABuf || r.Whole.Count != count {
			t.Errorf("%+v: %d", r.RegistrationKey, r.Whole.Count)
		}
	}
	for _, p := range []ebpfprobes.Phase{ebpfprobes.Attach, ebpfprobes.BufferMap} {
		if n := rows[0].Phases[p].Count; n != count {
			t.Errorf("%d of %d registrations had phase %v", n, count, p)
		}
	}
	for _, e := range events {
		if e.Operation == ebpfprobes.Register && (e.Exporter != "udmabuf" || e.Inode == 0 || e.Inode != events[0].Inode || e.BufferSize != length) {
			t.Errorf("%+v", e)
		}
	}
}
