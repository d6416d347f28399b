//go:build lab

package ebpfprobes_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// modules loads another driver of RDMA and takes it away again; after each the session is
// stale, and attaches.
func modules(t *testing.T, stale func() bool, attach func() error, then func(when string)) {
	t.Helper()
	for _, arguments := range [][]string{{"siw"}, {"-r", "siw"}} {
		when := "modprobe " + strings.Join(arguments, " ")
		if out, err := exec.Command("modprobe", arguments...).CombinedOutput(); err != nil {
			t.Skipf("needs module siw: %s: %v %s", when, err, out)
		}
		if !stale() {
			t.Fatalf("%s: the session does not see that", when)
		}
		if err := attach(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		then(when)
	}
}

// TestLeaksSurviveModules: what is alive, and for how long it has been, is known on.
func TestLeaksSurviveModules(t *testing.T) {
	p := start(t, compile(t, "leaker"), device(t), "leak", "60000")
	s, err := ebpfprobes.Leaks(ebpfprobes.LeakFilter{PID: p.cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p.tell(t)
	leaking := func(rows []ebpfprobes.LeakRow) (row ebpfprobes.LeakRow) {
		for _, r := range rows {
			if r.Resource == ebpfprobes.MemoryRegion && strings.Contains(functions(r), "leak_regions") {
				return r
			}
		}
		t.Fatalf("leak_regions is not among %+v", rows)
		return row
	}
	last, named := reports(t, s, 4)
	before := leaking(last)
	modules(t, s.Stale, s.Attach, func(when string) {
		last, more := reports(t, s, 2)
		now := leaking(last)
		t.Logf("%s: %v: alive %d survivors %d grown %d, oldest %v", when, now.Verdict, now.Alive, now.Survivors, now.Grown, now.Oldest)
		if now.Survivors < before.Alive || now.Ended != 0 || !now.Oldest.Equal(before.Oldest) {
			t.Errorf("%s: %+v; before: %+v", when, now, before)
		}
		before = now
		for stack, v := range more {
			named[stack] = v
		}
	})
	if before.Verdict != ebpfprobes.Leaking {
		t.Errorf("after eight intervals %v, with a window of six", before.Verdict)
	}
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	if err := s.Attach(); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Report()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Survivors > 0 {
			t.Errorf("known after a time in which ends were missed: %+v", r)
		}
	}
}

// TestPolledSurvivesModules: windows go on.
func TestPolledSurvivesModules(t *testing.T) {
	device, transport := deviceAndTransport(t)
	p := startPoller(t, buildPoller(t), device, transport, "poll", "64", "10000000")
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: p.cmd.Process.Pid, Polled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	t.Cleanup(func() { p.cmd.Process.Kill() })
	fmt.Fprintln(p.in)
	windows := func() uint64 {
		n, err := s.Sampling()
		if err != nil {
			t.Fatal(err)
		}
		return n.Windows
	}
	modules(t, s.Stale, s.Attach, func(when string) {
		for first, waited := windows(), 0; windows() < first+3; waited++ {
			if waited == 300 {
				t.Fatalf("%s: no window in 30 s; %v", when, s.Probes())
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	if l, err := s.Losses(); err != nil || l.Cells != 0 {
		t.Errorf("%+v %v", l, err)
	}
}

// TestCallInFlightWhenDetached: its end is not seen, and nothing else is taken for it.
func TestCallInFlightWhenDetached(t *testing.T) {
	p := start(t, compile(t, "blocked"), device(t))
	s, err := ebpfprobes.Errors(ebpfprobes.ErrorFilter{PID: p.cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p.tell(t)
	if said := p.line(t); said != "blocked" {
		t.Fatalf("the program said %q", said)
	}
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	if err := s.Attach(); err != nil {
		t.Fatal(err)
	}
	p.tell(t)
	var first, second int
	if _, err := fmt.Sscanf(p.line(t), "errors %d %d", &first, &second); err != nil || first == 0 || second == 0 {
		t.Fatalf("%v: %d, %d", err, first, second)
	}
	rows, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Count != 1 || int(rows[0].Err) != second {
		t.Errorf("%+v; want the second call alone, which failed with %d", rows, second)
	}
	if l, err := s.Losses(); err != nil || l.Flights != 1 {
		t.Errorf("%+v %v; one call's end was missed", l, err)
	}
}
