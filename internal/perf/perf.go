package perf

import (
	"context"
	"errors"
	"io"
)

// Output is where a run shows itself.
type Output struct {
	Begin    func(Conditions) error // once, before the first result
	Row      func(Result) error     // each result as it comes
	Progress io.Writer              // a terminal, or nil
}

// Run runs one side of a test from its first check to its last result. Its
// error classes are those of package exchange: a side that fails tells the
// other, and both end with the same. Nothing of the run is left when it
// returns.
func Run(ctx context.Context, o Options, out Output) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if out.Begin == nil {
		out.Begin = func(Conditions) error { return nil }
	}
	if out.Row == nil {
		out.Row = func(Result) error { return nil }
	}
	report := &Report{Schema: Schema, Results: []Result{}}
	var err error
	if o.Transport == Memcpy {
		err = runMemcpy(ctx, &o, report, out)
	} else {
		err = runWithPeer(ctx, &o, report, out)
	}
	if err != nil && ctx.Err() != nil {
		err = interrupted{}
	}
	return report, err
}

func runWithPeer(ctx context.Context, o *Options, report *Report, out Output) (err error) {
	s := &session{o: o, client: o.Server != "", report: report, out: out}
	if s.side, err = openSide(o); err != nil {
		return err
	}
	defer func() {
		if cerr := s.side.close(); err == nil {
			err = cerr
		}
	}()
	if err := s.side.check(&o.Workload); err != nil {
		return err
	}
	s.conn, err = meet(ctx, o, s.show)
	s.show("")
	if err != nil {
		return err
	}
	defer s.conn.Close()
	watched, stop := s.conn.Watch(ctx)
	defer stop()
	err = s.perform(watched)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = interrupted{}
	case watched.Err() != nil && errors.Is(err, context.Canceled):
		err = context.Cause(watched)
	}
	return s.conn.Fail(err)
}

func openSide(o *Options) (side, error) {
	if o.Transport == TCP {
		return newTCPSide(o), nil
	}
	return openRDMA(o)
}
