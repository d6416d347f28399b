package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
)

type stubbornSession struct {
	traceSession
	asked []string
}

func (s *stubbornSession) Shed(p ebpfprobes.Probe, _ string) error {
	s.asked = append(s.asked, p.Role)
	if p.Role == "pinning" {
		return errors.New("it holds on")
	}
	return nil
}

// TestJudge: a probe that cannot be detached is told of and does not end the trace, and
// nothing is made of a measurement while nothing was attached.
func TestJudge(t *testing.T) {
	var stderr bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetErr(&stderr)
	run := newTraceRun(cmd, &traceOutputs{interval: time.Second, budget: 0.01}, tracereport.RegistrationsSchema, "Registrations")
	run.live, run.attached = nil, true
	s := &stubbornSession{}
	run.session = s
	if next, err := run.judge(measurement{}); err != nil || next < time.Second || run.overhead != nil {
		t.Errorf("of no measurement: %v %v, %+v", next, err, run.overhead)
	}
	cost := func(role string) ebpfprobes.ProbeCost {
		return ebpfprobes.ProbeCost{Probe: ebpfprobes.Probe{Role: role, Function: role}, Hits: 1, Ran: 500 * time.Millisecond}
	}
	next, err := run.judge(measurement{overhead: ebpfprobes.Overhead{Over: time.Second, CPUs: 1, Probes: []ebpfprobes.ProbeCost{cost("pinning"), cost("mapping")}}})
	if err != nil || next != longestPause || len(s.asked) != 2 {
		t.Errorf("%v %v; asked to detach %q", next, err, s.asked)
	}
	done := make(chan struct{})
	close(done)
	run.tell(done)
	for _, want := range []string{"cannot detach pinning (pinning), which is over the budget: it holds on; the trace goes on", "mapping (mapping) is detached"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not in %q", want, &stderr)
		}
	}
}
