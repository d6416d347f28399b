package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// traceCompletions is what completions is asked for.
type traceCompletions struct {
	traceOutputs
	filter ebpfprobes.CompletionFilter
	device string
}

func newTraceCompletions() *cobra.Command {
	var o traceCompletions
	cmd := &cobra.Command{
		Use:   "completions",
		Short: "Show how long completions wait for the program",
		Long: `completions shows how long completions wait until the program has them: a row
for each process, completion queue and sort of wait, with the quantiles.

  woken      from the device's interrupt to the return of the read that slept
             for the event (ibv_get_cq_event): how long the program takes to
             wake up
  collected  the same, but the read began after the interrupt: the program slept
             in poll or epoll, or was busy
  polled     from posting to the program's having the completion; only with
             --polled
  marked     the same of this project's own transfers: transfer, perf, demo, and
             programs that embed its packages, in any process and without a flag

Marked rows are a sample: while a tracer is attached, each device's queues of a
process mark one operation at a time, some 2,000 a second at most, and time it
themselves. COUNT is of these. Marks are static probes (USDT) that other tools
can use too, by the program's file; their arguments are device, queue pair,
opcode, bytes, id, status, ns:

  bpftrace -e 'usdt:/usr/bin/peerdirect:peerdirect:complete
    { @[str(arg0), arg2] = hist(arg6); }'

The kernel sees nothing of queues that a program polls. --polled puts
breakpoints into the provider's library, in process --pid alone, for --window
each --every. What is posted and completes between windows is not seen: polled
rows are a sample. Completions in error are seen in windows only.

In a window each call that posts or polls takes microseconds longer, and the
times are longer by as much. What windows cost a program on hardware was not
measured. Under emulation it was much: the followed program ran up to three
times as long. The kernel's measurement leaves it out: --max-overhead neither
shows nor bounds it.

Programs that do not call their provider's functions (DEVX and direct verbs,
queues on a GPU, static builds) are not seen when they poll. --polled reads the
process's memory, which takes CAP_SYS_PTRACE.
` + traceHelp,
		Example: `  sudo peerdirect trace completions --duration 10s --log2
  sudo peerdirect trace completions --pid 4242 --polled --window 5ms --every 10s
  sudo peerdirect trace completions --duration 2m --svg completions.svg`,
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
	f.BoolVar(&o.filter.Polled, "polled", false, "queues that process --pid polls, too, in windows")
	f.DurationVar(&o.filter.Window, "window", 10*time.Millisecond, "how long a window of --polled is")
	f.DurationVar(&o.filter.Every, "every", time.Second, "from the begin of one window to that of the next")
	o.flags(cmd, tracereport.CompletionsSchema)
	return cmd
}

func (o *traceCompletions) check(f *pflag.FlagSet) error {
	if err := o.checkSubject(f, o.device); err != nil {
		return err
	}
	switch {
	case !o.filter.Polled && (f.Changed("window") || f.Changed("every")):
		return errors.New("--window and --every are for --polled")
	case o.filter.Polled && o.filter.PID == 0:
		return errors.New("--polled needs --pid: a library is traced in one process alone")
	case o.filter.Window <= 0:
		return fmt.Errorf("--window %v: above 0", o.filter.Window)
	case o.filter.Every <= o.filter.Window:
		return fmt.Errorf("--every %v: longer than --window %v", o.filter.Every, o.filter.Window)
	}
	return nil
}

func (o *traceCompletions) run(cmd *cobra.Command) error {
	t, err := o.start(cmd, o.filter.PID, o.device, tracereport.CompletionsSchema, "Completions")
	if err != nil {
		return err
	}
	s, err := ebpfprobes.Completions(o.filter)
	if err != nil {
		return err
	}
	defer s.Close()
	t.session, t.counted = s, "waits"
	if lacks := ebpfprobes.Lacking(s.Probes()); lacks != nil {
		t.notice("fallback", "completion events are not followed: "+inOneLine(lacks))
	}
	t.look = func(now tracereport.Tracing, _ traceLook) (traceLook, error) {
		r := &tracereport.Completions{Tracing: now}
		var err error
		if r.Rows, err = s.Rows(); err != nil {
			return nil, err
		}
		if r.Failures, err = s.Failures(); err != nil {
			return nil, err
		}
		if o.filter.Polled {
			n, err := s.Sampling()
			if err != nil {
				return nil, err
			}
			r.Sampling = &n
		}
		if o.device != "" {
			r.Only(o.device)
		}
		return r, nil
	}
	return t.run(cmd.Context())
}
