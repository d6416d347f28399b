package main

import (
	"context"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
)

// traceErrors is what errors is asked for.
type traceErrors struct {
	traceOutputs
	filter    ebpfprobes.ErrorFilter
	device    string
	questions bool
}

func newTraceErrors() *cobra.Command {
	var o traceErrors
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "Show what fails: calls, device commands, queues, completions",
		Long: `errors shows what failed, a row for each sort:

  call        a call of the uverbs interface returned an error: which command,
              and the device's command that failed within it, if one did
  command     a device refused a command of its driver: EFA's, irdma's,
              bnxt_re's and erdma's by function, mlx5's with status and syndrome
  event       a device or a queue reported by itself: device fatal, port down,
              queue pair in error
  completion  a work request completed in error: rxe only; of other devices the
              kernel does not see completions

Libraries ask for what a device or a kernel may not have, and for entries of
tables that are empty: calls that are most likely such questions (EOPNOTSUPP,
EPROTONOSUPPORT, ENOTTY, no such entry) are left out without --questions.
WR_FLUSH_ERR is what follows another error.

--events prints a line for each failure; the table comes at the end.
` + traceHelp,
		Example: `  sudo peerdirect trace errors
  sudo peerdirect trace errors --device mlx5_0 --events
  sudo peerdirect trace errors --json --duration 1m`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkSubject(cmd.Flags(), o.device); err != nil {
				return usageError{err}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	pidFlag(f, &o.filter.PID, "only this process, and what devices report to all; 0 is all (default 0)")
	deviceFlag(cmd, &o.device)
	f.BoolVar(&o.filter.Events, "events", false, "print each failure")
	f.BoolVar(&o.questions, "questions", false, "with calls that are most likely questions of a library")
	o.commonFlags(cmd, tracereport.ErrorsSchema)
	return cmd
}

func (o *traceErrors) run(cmd *cobra.Command) error {
	t, err := o.start(cmd, o.filter.PID, o.device, tracereport.ErrorsSchema, "Errors")
	if err != nil {
		return err
	}
	s, err := ebpfprobes.Errors(o.filter)
	if err != nil {
		return err
	}
	defer s.Close()
	t.session = s
	t.look = func(now tracereport.Tracing, _ traceLook) (traceLook, error) {
		r := &tracereport.Errors{Tracing: now}
		var err error
		if r.Rows, err = s.Rows(); err != nil {
			return nil, err
		}
		if o.device != "" {
			r.Only(o.device)
		}
		if !o.questions {
			r.WithoutQuestions()
		}
		return r, nil
	}
	if o.filter.Events {
		t.events = func(ctx context.Context, to chan<- func() error) error {
			for e, err := range s.Events(ctx) {
				if err != nil {
					return err
				}
				if o.device != "" && e.Device != o.device && e.Device != "" || e.Question() && !o.questions {
					continue
				}
				to <- func() error {
					if t.stream != nil {
						return t.stream.Failure(&e)
					}
					return tracereport.WriteFailure(t.out, &e)
				}
			}
			return nil
		}
	}
	return t.run(cmd.Context())
}
