//go:build lab

package ebpfprobes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

const leakInterval = 1500 * time.Millisecond

// functions gives the names of a row's stack, innermost first.
func functions(r ebpfprobes.LeakRow) string {
	var names []string
	for _, f := range r.Stack {
		names = append(names, f.Function)
	}
	return strings.Join(names, " ")
}

// reports takes n reports and gives the last, and what was ever called other than steady.
func reports(t *testing.T, s *ebpfprobes.LeakSession, n int) (last []ebpfprobes.LeakRow, named map[string]ebpfprobes.Verdict) {
	t.Helper()
	named = make(map[string]ebpfprobes.Verdict)
	for range n {
		time.Sleep(leakInterval)
		var err error
		if last, err = s.Report(); err != nil {
			t.Fatal(err)
		}
		for _, r := range last {
			if r.Verdict != ebpfprobes.Steady {
				named[fmt.Sprintf("%v: %s", r.Resource, functions(r))] = r.Verdict
			}
		}
	}
	return last, named
}

func TestEFALeakIsNamed(t *testing.T) { testLeakIsNamed(t) }
func TestLeakIsNamed(t *testing.T)    { testLeakIsNamed(t) }

func testLeakIsNamed(t *testing.T) {
	t.Helper()
	dev := device(t)
	path := compile(t, "leaker")
	before := attachedPrograms(t)
	p := start(t, path, dev, "leak", "18000")
	s, err := ebpfprobes.Leaks(ebpfprobes.LeakFilter{PID: p.cmd.Process.Pid, Window: 6, KernelStacks: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, probe := range s.Probes() {
		t.Log(probe)
	}
	p.tell(t)
	last, named := reports(t, s, 10)
	for _, r := range last {
		t.Logf("%v %v alive %d bytes %d born %d survivors %d ended %d grown %d: %s: %s %s",
			r.Verdict, r.Resource, r.Alive, r.Bytes, r.Born, r.Survivors, r.Ended, r.Grown, r.Command, functions(r), r.StackNote)
	}
	var leaked, buffers uint64
	if _, err := fmt.Sscanf(p.line(t), "leaked %d buffers %d", &leaked, &buffers); err != nil {
		t.Fatal(err)
	}
	if last, err = s.Report(); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]uint64{"mr leak_regions main": leaked, "mr honest_setup main": 8, "mr honest_ring main": 16}
	if buffers > 0 {
		wanted["dma-buf leak_buffers main"] = buffers
	}
	for want, n := range wanted {
		// The compiler may have made two calls of a loop.
		var alive, bytes uint64
		for _, r := range last {
			kind, stack, _ := strings.Cut(want, " ")
			if r.Resource.String() != kind || !strings.Contains(functions(r)+" ", " "+stack+" ") {
				continue
			}
			alive, bytes = alive+r.Alive, bytes+r.Bytes
			if r.StackNote != "" {
				t.Errorf("%s: %s", want, r.StackNote)
			}
			if inKernel := fmt.Sprint(r.KernelStack); kind == "mr" && !strings.Contains(inKernel, "ib_uverbs_") {
				t.Errorf("%s: the kernel's functions are %s", want, inKernel)
			}
		}
		if alive != n || bytes != 8192*n {
			t.Errorf("%s: %d alive, %d bytes, and the program says %d, %d", want, alive, bytes, n, 8192*n)
		}
	}
	for stack, v := range named {
		if v != ebpfprobes.Leaking || !strings.Contains(stack, "leak_regions") && !strings.Contains(stack, "leak_buffers") {
			t.Errorf("called %v: %s", v, stack)
		}
	}
	if want := 1 + int(min(buffers, 1)); len(named) != want {
		t.Errorf("%d stacks were named, want %d: %v", len(named), want, named)
	}
	if l, err := s.Losses(); err != nil || l.Any() {
		t.Errorf("losses: %+v %v", l, err)
	}
	p.tell(t)
	p.in.Close()
	p.cmd.Wait()
	if last, err = s.Report(); err != nil || len(last) > 0 {
		t.Errorf("alive after the program's end: %+v %v", last, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if after := attachedPrograms(t); after != before {
		t.Errorf("%d descriptors of BPF are open after Close, %d were before", after, before)
	}
}

func TestHonestProgramIsNotNamed(t *testing.T) {
	dev := device(t)
	p := start(t, compile(t, "leaker"), dev, "honest", "18000")
	s, err := ebpfprobes.Leaks(ebpfprobes.LeakFilter{Window: 6, KernelStacks: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p.tell(t)
	last, named := reports(t, s, 10)
	if len(named) > 0 {
		t.Errorf("named: %v", named)
	}
	alive := uint64(0)
	for _, r := range last {
		if r.PID == p.cmd.Process.Pid && r.Resource == ebpfprobes.MemoryRegion {
			alive += r.Alive
		}
	}
	if alive < 23 || alive > 25 {
		t.Errorf("%d regions are alive, and the program has 24", alive)
	}
}

func TestAbandonedBufferIsNamed(t *testing.T) {
	needUdmabuf(t)
	path := compile(t, "leaker")
	s, err := ebpfprobes.Leaks(ebpfprobes.LeakFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := start(t, path, "-", "abandon", "0")
	p.line(t)
	last, named := reports(t, s, 3)
	if len(named) != 1 {
		t.Fatalf("named: %v of %+v", named, last)
	}
	for stack, v := range named {
		if v != ebpfprobes.Abandoned || !strings.HasPrefix(stack, "dma-buf: ") || !strings.Contains(stack, " make_buffer ") {
			t.Errorf("%v: %s", v, stack)
		}
	}
	p.in.Close()
	p.cmd.Wait()
	if last, _ = reports(t, s, 1); len(last) > 0 {
		t.Errorf("alive after the socket's end: %+v", last)
	}
}

func TestPassedBufferIsNotNamed(t *testing.T) {
	needUdmabuf(t)
	path := compile(t, "leaker")
	s, err := ebpfprobes.Leaks(ebpfprobes.LeakFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := start(t, path, "-", "pass", "0")
	p.line(t)
	last, named := reports(t, s, 3)
	if len(named) > 0 {
		t.Errorf("named: %v", named)
	}
	if len(last) != 1 || !last[0].Gone || last[0].Unheld != 0 || last[0].Alive != 1 {
		t.Errorf("%+v", last)
	}
}
