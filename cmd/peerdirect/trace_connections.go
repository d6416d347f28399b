package main

import (
	"context"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
)

// traceConnections is what connections is asked for.
type traceConnections struct {
	traceOutputs
	filter ebpfprobes.ConnectionFilter
	device string
}

func newTraceConnections() *cobra.Command {
	var o traceConnections
	cmd := &cobra.Command{
		Use:   "connections",
		Short: "Show queue pairs: who makes them and changes their state",
		Long: `connections shows the queue pairs that are alive, with the peer that they were
told, and below how often each process made, changed and destroyed some: from
which state to which, how long it took, and what was refused with which error.

--events prints a line for each change; the table comes at the end.

A queue pair that is older than the trace is there from its first change on, and
its state is unknown before. After SIGUSR1 it begins anew. A device takes a
queue pair to the error state by itself: that is no change that the kernel
makes, and 'trace errors' shows it where the device reports it.
` + traceHelp,
		Example: `  sudo peerdirect trace connections
  sudo peerdirect trace connections --pid 4242 --events
  sudo peerdirect trace connections --json --events --duration 1m`,
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
	pidFlag(f, &o.filter.PID, "only this process; 0 is all (default 0)")
	deviceFlag(cmd, &o.device)
	f.BoolVar(&o.filter.Events, "events", false, "print each change as it ends")
	o.commonFlags(cmd, tracereport.ConnectionsSchema)
	return cmd
}

func (o *traceConnections) run(cmd *cobra.Command) error {
	t, err := o.start(cmd, o.filter.PID, o.device, tracereport.ConnectionsSchema, "Connections")
	if err != nil {
		return err
	}
	t.forgets = "; queue pairs that were known are forgotten"
	s, err := ebpfprobes.Connections(o.filter)
	if err != nil {
		return err
	}
	defer s.Close()
	t.session = s
	t.look = func(now tracereport.Tracing, _ traceLook) (traceLook, error) {
		r := &tracereport.Connections{Tracing: now}
		var err error
		if r.QPs, err = s.QPs(); err != nil {
			return nil, err
		}
		if r.Transitions, err = s.Transitions(); err != nil {
			return nil, err
		}
		if o.device != "" {
			r.Only(o.device)
		}
		return r, nil
	}
	if o.filter.Events {
		t.events = func(ctx context.Context, to chan<- func() error) error {
			for c, err := range s.Events(ctx) {
				if err != nil {
					return err
				}
				if o.device != "" && c.QP.Device != o.device {
					continue
				}
				to <- func() error {
					if t.stream != nil {
						return t.stream.Change(&c)
					}
					return tracereport.WriteChange(t.out, &c)
				}
			}
			return nil
		}
	}
	return t.run(cmd.Context())
}
