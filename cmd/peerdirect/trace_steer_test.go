package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
)

type steeredSession struct {
	traceSession
	detached chan struct{}
}

func (s *steeredSession) Detach() error                      { close(s.detached); return nil }
func (s *steeredSession) Stale() bool                        { return false }
func (s *steeredSession) Probes() []ebpfprobes.Probe         { return nil }
func (s *steeredSession) Losses() (ebpfprobes.Losses, error) { return ebpfprobes.Losses{}, nil }

// TestSteerWhileOutputIsStalled: SIGUSR1 detaches though nobody reads standard output.
func TestSteerWhileOutputIsStalled(t *testing.T) {
	r, w := io.Pipe()
	var stderr bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetOut(w)
	cmd.SetErr(&stderr)
	run := newTraceRun(cmd, &traceOutputs{interval: time.Millisecond, everyInterval: true, json: true}, tracereport.RegistrationsSchema, "Registrations")
	s := &steeredSession{detached: make(chan struct{})}
	run.session = s
	run.begin = func(time.Time) error { return nil }
	run.look = func(now tracereport.Tracing, _ traceLook) (traceLook, error) {
		return &tracereport.Registrations{Tracing: now}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run.run(ctx) }()
	if _, err := r.Read(make([]byte, 1)); err != nil { // it writes, and has to wait
		t.Fatal(err)
	}
	run.usr1 <- syscall.SIGUSR1
	select {
	case <-s.detached:
	case <-time.After(time.Minute):
		t.Error("SIGUSR1 waits for standard output")
	}
	cancel()
	go io.Copy(io.Discard, r)
	if err := <-ended; err != nil || !strings.Contains(stderr.String(), "peerdirect: detached;") {
		t.Errorf("%v, %q", err, &stderr)
	}
}

// TestTraceEndsWithItsProcess: its number is another's by now.
func TestTraceEndsWithItsProcess(t *testing.T) {
	var stdout, stderr bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	run := newTraceRun(cmd, &traceOutputs{interval: time.Second}, tracereport.RegistrationsSchema, "Registrations")
	run.session = &steeredSession{}
	run.look = func(now tracereport.Tracing, _ traceLook) (traceLook, error) {
		return &tracereport.Registrations{Tracing: now}, nil
	}
	run.process = tracedProcess{pid: syscall.Getpid(), began: "1"}
	if err := run.run(t.Context()); err != nil || !strings.Contains(stderr.String(), "has ended") || !strings.Contains(stdout.String(), "no call was seen") {
		t.Errorf("%v, %q, %q", err, &stderr, &stdout)
	}
}
