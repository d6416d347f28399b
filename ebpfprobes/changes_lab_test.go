//go:build lab

package ebpfprobes_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// TestClockStep sets the wall's clock while a session runs: events tell its time.
func TestClockStep(t *testing.T) {
	const step = 3 * time.Hour
	p := start(t, compile(t, "failer"), device(t), "calls")
	s, err := ebpfprobes.Errors(ebpfprobes.ErrorFilter{PID: p.cmd.Process.Pid, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	set := func(by time.Duration) {
		to := unix.NsecToTimespec(time.Now().UnixNano() + int64(by))
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &to); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(-step) })
	set(step)
	before := time.Now().Round(0)
	p.tell(t)
	for p.line(t) != "done" {
	}
	after := time.Now().Round(0)
	rows, err := s.Rows()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%+v %v", rows, err)
	}
	for _, r := range rows {
		if r.First.Before(before.Add(-time.Second)) || r.Last.After(after.Add(time.Second)) {
			t.Errorf("from %v to %v; it was between %v and %v", r.First, r.Last, before, after)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n := 0
	for e, err := range s.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; e.At.Before(before.Add(-time.Second)) || e.At.After(after.Add(time.Second)) {
			t.Errorf("at %v; it was between %v and %v", e.At, before, after)
		}
	}
	if n == 0 {
		t.Error("no event was sent")
	}
}

// TestRenamedDevice: rows and events tell the name of now.
func TestRenamedDevice(t *testing.T) {
	const other = "renamed0"
	name := device(t)
	client, err := nldev.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := start(t, compile(t, "connector"), name, "ud", "1")
	s, err := ebpfprobes.Connections(ebpfprobes.ConnectionFilter{PID: p.cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p.tell(t)
	p.line(t)
	devices := func() (names []string) {
		rows, err := s.Transitions()
		if err != nil || len(rows) == 0 {
			t.Fatalf("%+v %v", rows, err)
		}
		for _, r := range rows {
			if len(names) == 0 || names[len(names)-1] != r.Device {
				names = append(names, r.Device)
			}
		}
		return names
	}
	if was := devices(); len(was) != 1 || was[0] != name {
		t.Errorf("on %q, want %s", was, name)
	}
	if err := client.RenameDevice(t.Context(), name, other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c, err := nldev.Open()
		if err == nil {
			err = c.RenameDevice(context.Background(), other, name)
			c.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	if is := devices(); len(is) != 1 || is[0] != other {
		t.Errorf("on %q, want %s", is, other)
	}
	// An event has its name from the kernel's programs.
	p = start(t, compile(t, "connector"), other, "ud", "1")
	all, err := ebpfprobes.Connections(ebpfprobes.ConnectionFilter{PID: p.cmd.Process.Pid, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { all.Close() })
	p.tell(t)
	p.line(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n := 0
	for c, err := range all.Events(ctx) {
		if n++; err != nil || c.QP.Device != other {
			t.Errorf("event on %q %v, want %s", c.QP.Device, err, other)
		}
	}
	if n == 0 {
		t.Error("no event was sent")
	}
}
