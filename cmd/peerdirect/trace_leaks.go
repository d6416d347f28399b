package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// traceLeaks is what leaks is asked for.
type traceLeaks struct {
	traceOutputs
	filter ebpfprobes.LeakFilter
	device string
}

func newTraceLeaks() *cobra.Command {
	o := traceLeaks{traceOutputs: traceOutputs{interval: 10 * time.Second}}
	cmd := &cobra.Command{
		Use:   "leaks",
		Short: "Show regions, queues and dma-bufs that nobody ends, with makers",
		Long: `leaks follows the births and ends of protection domains, completion queues,
queue pairs, memory regions and dma-bufs, and shows what is alive: a row for
each process and stack that made it. A stack's objects are called

  leaking    over --window intervals none of those that had survived an interval
             ended, and in more than half of the intervals they became more
  growing    over three windows they never became fewer, and in two of three
             intervals more, though some ended
  abandoned  their maker has ended: another process still holds the descriptor
             of the device that they belong to; or, of dma-bufs, no process
             holds them

and its functions are printed. What lives shorter than an interval is not looked
at: a program that registers and deregisters all the time is steady, and so is a
cache that is full. One that takes longer than half a window to fill looks like
a leak until it is full: choose a longer --interval.

Objects that are older than the trace are not known to it; after SIGUSR1 it
begins anew.
` + traceHelp,
		Example: `  sudo peerdirect trace leaks
  sudo peerdirect trace leaks --pid 4242 --interval 1m
  sudo peerdirect trace leaks --duration 5m --json`,
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
	f.IntVar(&o.filter.Window, "window", 6, "intervals that a verdict is made of")
	f.BoolVar(&o.filter.KernelStacks, "kernel-stacks", false, "print the kernel's functions, too")
	o.commonFlags(cmd, tracereport.LeaksSchema)
	return cmd
}

func (o *traceLeaks) check(f *pflag.FlagSet) error {
	if o.filter.Window < 2 {
		return fmt.Errorf("--window %d: 2 at least", o.filter.Window)
	}
	return o.checkSubject(f, o.device)
}

func (o *traceLeaks) run(cmd *cobra.Command) error {
	t, err := o.start(cmd, o.filter.PID, o.device, tracereport.LeaksSchema, "Leaks")
	if err != nil {
		return err
	}
	t.forgets = "; objects that were known are forgotten"
	s, err := ebpfprobes.Leaks(o.filter)
	if err != nil {
		return err
	}
	defer s.Close()
	t.session = s
	reports := &intervalReports{session: s, interval: o.interval}
	t.look = func(now tracereport.Tracing, _ traceLook) (traceLook, error) {
		rows, at, err := reports.rows()
		if err != nil {
			return nil, err
		}
		now.At = at
		r := &tracereport.Leaks{Tracing: now, Rows: rows, Window: o.filter.Window, Interval: o.interval}
		if o.device != "" {
			r.Only(o.device)
		}
		return r, nil
	}
	return t.run(cmd.Context())
}

// intervalReports asks for a report once an interval, however often it is looked at:
// each report ends an interval of the verdicts.
type intervalReports struct {
	session  *ebpfprobes.LeakSession
	interval time.Duration

	mu   sync.Mutex
	at   time.Time
	last []ebpfprobes.LeakRow
}

func (r *intervalReports) rows() ([]ebpfprobes.LeakRow, time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Ticks are not exact.
	if now := time.Now(); now.Sub(r.at) >= r.interval-r.interval/10 {
		rows, err := r.session.Report()
		if err != nil {
			return nil, now, err
		}
		r.last, r.at = rows, now
	}
	return r.last, r.at, nil
}
