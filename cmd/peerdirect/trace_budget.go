package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
)

// A measurement takes a second. It makes programs dearer, so the pauses between them
// grow, until one second in ten is measured.
const (
	measureFor   = time.Second
	longestPause = 9 * time.Second
)

// measurement is a measurement's outcome.
type measurement struct {
	overhead ebpfprobes.Overhead
	err      error
}

func (t *traceRun) measure(ctx context.Context, to chan<- measurement) {
	o, err := t.session.Measure(ctx, measureFor)
	select {
	case to <- measurement{o, err}:
	case <-ctx.Done():
		// The last one is for the final table.
		if err == nil && o.Over > 0 {
			t.addOverhead(o)
		}
	}
}

func (t *traceRun) addOverhead(o ebpfprobes.Overhead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := ebpfprobes.Overhead{}
	if t.overhead != nil {
		sum = *t.overhead
	}
	sum.Add(o)
	t.overhead, t.lastShare = &sum, o.Share()
}

// judge holds a measurement against the budget, detaches what has to go, and tells when
// to measure next; 0 is never.
func (t *traceRun) judge(m measurement) (next time.Duration, err error) {
	if m.err != nil {
		why := m.err.Error()
		if errors.Is(m.err, fs.ErrPermission) {
			why += " (CAP_SYS_ADMIN)"
		}
		t.mu.Lock()
		t.overhead, t.unmeasured = nil, why
		t.mu.Unlock()
		t.notice("unmeasured", fmt.Sprintf("the overhead cannot be measured, so --max-overhead bounds nothing: %s", why))
		return 0, nil
	}
	if m.overhead.Over == 0 { // nothing is attached
		t.pause = min(max(2*t.pause, time.Second), longestPause)
		return t.pause, nil
	}
	t.addOverhead(m.overhead)
	drop, within := m.overhead.OverBudget(float64(t.budget))
	if !t.attached || within && len(drop) == 0 {
		t.pause = min(max(2*t.pause, time.Second), longestPause)
		return t.pause, nil
	}
	share := tracereport.Percent(m.overhead.Share())
	if !within {
		return longestPause, t.detach(fmt.Sprintf(
			"tracing took %s of the time of all CPUs, which is more than %s even without what it can do without: detached; SIGUSR1 attaches again",
			share, t.bound()))
	}
	next = time.Millisecond // measured again at once: it may not have been enough
	for _, c := range drop {
		why := fmt.Sprintf("detached: tracing took %s of the time of all CPUs, of %s that it may", share, t.bound())
		if err := t.session.Shed(c.Probe, why); err != nil {
			t.notice("failed", fmt.Sprintf("cannot detach %s (%s), which is over the budget: %v; the trace goes on", c.Probe.Role, c.Probe.Function, err))
			next = longestPause
			continue
		}
		one := ebpfprobes.Overhead{Over: m.overhead.Over, CPUs: m.overhead.CPUs, Probes: []ebpfprobes.ProbeCost{c}}
		t.notice("shed", fmt.Sprintf("tracing took %s of the time of all CPUs, of %s that it may: %s (%s) is detached, which took %s of it",
			share, t.bound(), c.Probe.Role, c.Probe.Function, tracereport.Percent(one.Share())))
	}
	t.forgetOverhead()
	return next, nil
}

// bound is the budget as it is printed.
func (t *traceRun) bound() string {
	return strconv.FormatFloat(100*float64(t.budget), 'g', 3, 64) + "%"
}

// forgetOverhead begins the sum anew, after what is attached has changed.
func (t *traceRun) forgetOverhead() {
	t.mu.Lock()
	t.overhead = nil
	t.mu.Unlock()
}
