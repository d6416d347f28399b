//go:build lab

package ebpfprobes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// TestMeasureAndShed measures what a known number of calls costs, and then detaches one
// probe: the calls are counted on, the phase is not, and it stays off after attaching.
func TestMeasureAndShed(t *testing.T) {
	const calls = 300
	program := build(t)
	s, err := ebpfprobes.Registrations(ebpfprobes.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	ctx, cancel := context.WithCancel(t.Context())
	measured := make(chan ebpfprobes.Overhead, 1)
	go func() {
		o, err := s.Measure(ctx, time.Hour)
		if err != nil {
			t.Error(err)
		}
		measured <- o
	}()
	time.Sleep(500 * time.Millisecond) // the measurement has begun
	registrar(t, program, "host", 64<<10, calls, nil)
	cancel()
	o := <-measured
	costs := make(map[string]ebpfprobes.ProbeCost)
	roles := make(map[string]uint64)
	for _, c := range o.Probes {
		costs[c.Probe.Function] = c
		roles[c.Probe.Role] += c.Hits
		if c.Hits > 0 && (c.Ran <= 0 || c.Way <= 0) {
			t.Errorf("%+v", c)
		}
	}
	// Each at its beginning and its end.
	for _, role := range []string{"driver's operation", "deregistering"} {
		if roles[role] != 2*calls {
			t.Errorf("%s: %d hits, want %d", role, roles[role], 2*calls)
		}
	}
	pin, ok := costs["pin_user_pages_fast"]
	if !ok || pin.Hits < 2*calls {
		t.Fatalf("pinning: %+v", pin)
	}
	if share := o.Share(); share <= 0 || share > 1 {
		t.Errorf("a share of %v", share)
	}
	for _, c := range o.Probes {
		if c.Hits > 0 {
			t.Logf("%-30s %6d hits, %v a hit in it", c.Probe.Function, c.Hits, c.Ran/time.Duration(c.Hits))
		}
	}

	pinned := func() (all, pins uint64) {
		rows, err := s.Rows()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Operation == ebpfprobes.Register && r.Command == "registrar" {
				all += r.Whole.Count
				pins += r.Phases[ebpfprobes.Pin].Count
			}
		}
		return all, pins
	}
	if all, pins := pinned(); all != calls || pins != calls {
		t.Fatalf("%d calls, %d that pinned", all, pins)
	}
	shedWholeCalls := func() {
		before, _ := pinned()
		for _, p := range s.Probes() {
			if p.Role == "whole call" && p.Usable == ebpfprobes.Yes {
				if err := s.Shed(p, "no"); err != nil {
					t.Fatal(err)
				}
			}
		}
		registrar(t, program, "host", 64<<10, calls, nil)
		if all, _ := pinned(); all != before+calls {
			t.Errorf("without the whole call: %d calls of %d", all-before, calls)
		}
		for _, p := range s.Probes() {
			if p.Role == "registering" && p.Usable == ebpfprobes.Yes {
				return
			}
		}
		t.Error("nothing stands in for the whole call")
	}
	const why = "made too much ado"
	if err := s.Shed(pin.Probe, why); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		before, _ := pinned()
		if again {
			if err := s.Attach(); err != nil {
				t.Fatal(err)
			}
		}
		registrar(t, program, "host", 64<<10, calls, nil)
		if all, pins := pinned(); all != before+calls || pins != calls {
			t.Errorf("attached again %v: %d calls, %d that pinned", again, all, pins)
		}
		said := false
		for _, p := range s.Probes() {
			if p.Function == "pin_user_pages_fast" {
				said = p.Usable == ebpfprobes.No && p.Why == why
			}
		}
		if !said {
			t.Errorf("attached again %v: the probe does not say why it is off", again)
		}
	}
	shedWholeCalls()
	if l, err := s.Losses(); err != nil || l.Any() {
		t.Errorf("%+v, %v", l, err)
	}
	for _, p := range s.Probes() {
		if p.Needed && p.Usable == ebpfprobes.Yes {
			if err := s.Shed(p, "no"); err == nil || !strings.Contains(err.Error(), "no trace without it") {
				t.Errorf("%v", err)
			}
			return
		}
	}
}
