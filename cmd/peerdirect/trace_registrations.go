package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// traceRegistrations is what registrations is asked for.
type traceRegistrations struct {
	traceOutputs
	filter     ebpfprobes.Filter
	device     string
	bySyscalls bool
}

func newTraceRegistrations() *cobra.Command {
	var o traceRegistrations
	cmd := &cobra.Command{
		Use:   "registrations",
		Short: "Show what registering memory costs, by phase, and what fails",
		Long: `registrations shows how long processes take to register memory with RDMA devices
and to deregister it: a row for each process, device, operation, kind of memory
(host, on-demand, dma-buf, DEVX) and class of lengths, with the quantiles of the
whole call and the part of the time that each phase took. Below are the calls
that failed, with the phase that failed first, its error and what to do.

A phase's time is its own: what it called that has a phase too is left out, so
that phases add up to the whole.

--events prints a line for each call, --slower-than only those that took as
long, --stacks with the stack of the program. With these the table comes at the
end.

Where nothing can be attached to the kernel's functions (no types, no kprobes),
the system calls alone are followed, and it is said: whole calls, with errno and
length, without phases, causes and stacks. --by-syscalls does that anyway:
nothing of a module is held then, but every write() and ioctl() of the machine
passes the trace.
` + traceHelp,
		Example: `  sudo peerdirect trace registrations --duration 10s
  sudo peerdirect trace registrations --pid 4242 --slower-than 1ms --stacks
  sudo peerdirect trace registrations --json --interval 5s
  sudo peerdirect trace registrations --listen :9750 >/dev/null`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd.Flags()); err != nil {
				return usageError{err}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	pidFlag(f, &o.filter.PID, "only this process; 0 is all (default 0)")
	deviceFlag(cmd, &o.device)
	f.BoolVar(&o.filter.Events, "events", false, "print each call as it ends")
	f.DurationVar(&o.filter.SlowerThan, "slower-than", 0, "print each call that took as long (default none)")
	f.BoolVar(&o.filter.Stacks, "stacks", false, "print each call with the program's stack")
	f.BoolVar(&o.bySyscalls, "by-syscalls", false, "follow system calls alone, as where nothing else can be attached")
	o.flags(cmd, tracereport.RegistrationsSchema)
	return cmd
}

func (o *traceRegistrations) check(f *pflag.FlagSet) error {
	if err := o.checkSubject(f, o.device); err != nil {
		return err
	}
	if o.filter.SlowerThan < 0 {
		return fmt.Errorf("--slower-than %v: 0 or more", o.filter.SlowerThan)
	}
	if o.bySyscalls && o.filter.Stacks {
		return errors.New("--by-syscalls and --stacks: choose one of them: system calls alone tell no stacks")
	}
	o.filter.Events = o.filter.Events || f.Changed("slower-than") || o.filter.Stacks
	if o.filter.Events && o.svg == "-" {
		return errors.New("--svg - leaves standard output to the picture: the calls cannot be printed there")
	}
	return nil
}

func (o *traceRegistrations) run(cmd *cobra.Command) error {
	t, err := o.start(cmd, o.filter.PID, o.device, tracereport.RegistrationsSchema, "Registrations")
	if err != nil {
		return err
	}
	s, fallback, err := openRegistrations(o.filter, o.bySyscalls)
	if err != nil {
		return err
	}
	defer s.Close()
	if fallback != "" {
		t.frees = "no module was held"
		if o.filter.Events {
			t.live = nil // no table is drawn: it is for standard error at once
		}
		t.notice("fallback", fallback)
	}
	t.session = s
	t.look = func(now tracereport.Tracing, before traceLook) (traceLook, error) { return o.look(s, now, before) }
	if o.filter.Events {
		t.events = func(ctx context.Context, to chan<- func() error) error { return o.follow(ctx, s, t, to) }
	}
	return t.run(cmd.Context())
}

// look reads what was counted until now; rates are since the look before, if there is one.
func (o *traceRegistrations) look(s registrationSession, now tracereport.Tracing, before traceLook) (traceLook, error) {
	r := &tracereport.Registrations{Tracing: now}
	var err error
	if r.Rows, err = s.Rows(); err != nil {
		return nil, err
	}
	if r.Failures, err = s.Failures(); err != nil {
		return nil, err
	}
	if o.device != "" {
		r.Only(o.device)
	}
	if b, ok := before.(*tracereport.Registrations); ok {
		r.Rates = r.RatesSince(b)
	}
	return r, nil
}

// follow hands over the printing of each call, until those before the context's end are
// printed.
func (o *traceRegistrations) follow(ctx context.Context, s registrationSession, t *traceRun, to chan<- func() error) error {
	for e, err := range s.Events(ctx) {
		if err != nil {
			return err
		}
		if o.device != "" && e.Device != o.device {
			continue
		}
		var frames []string
		if o.filter.Stacks {
			for _, f := range e.Stack {
				frames = append(frames, f.String())
			}
		}
		to <- func() error { return printEvent(t, &e, frames) }
	}
	return nil
}

func printEvent(t *traceRun, e *ebpfprobes.Registration, frames []string) error {
	if t.stream != nil {
		return t.stream.Event(e, frames)
	}
	return tracereport.WriteEvent(t.out, e, frames)
}
