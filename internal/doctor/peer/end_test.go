package peer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// TestInterrupt: the end of either side's context ends both at once, wherever they are,
// and the other is told why.
func TestInterrupt(t *testing.T) {
	nothingLeft(t)
	for _, at := range []Name{StepDevice, StepReach, StepCredentials, StepMatch, StepKeys, StepConnect, StepSmall, StepOrder} {
		for _, role := range []string{RoleDialler, RoleListener} {
			if role == RoleListener && at != StepMatch && at != StepConnect && at != StepOrder {
				continue // it has not begun, or it is the same
			}
			t.Run(string(at)+" "+role, func(t *testing.T) {
				t.Parallel()
				p := newPair(t)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				end := func(_ *Result, s *Step) {
					if s.Name == at {
						cancel()
					}
				}
				here, there := ctx, context.Background()
				if p.here.Tell = end; role == RoleListener {
					p.here.Tell, p.there.Tell, here, there = nil, end, there, here
				}
				l := listener(t, "127.0.0.1:0", p.there)
				receiving, stop := context.WithCancel(there)
				defer stop()
				got := receive(receiving, l)
				r, err := Check(here, l.Addr().String(), p.here)
				if r.Verdict != Fail || err == nil {
					t.Fatalf("%v\n%s", err, show(r))
				}
				if at == StepDevice || at == StepReach {
					stop() // nobody came
				}
				other := within(t, time.Minute, got)
				own := err
				if role == RoleListener {
					own = other.err
				}
				if !errors.Is(own, ErrCancelled) {
					t.Errorf("its own error is %v", own)
				}
				if at != StepConnect {
					return // the other may know of nobody yet, or of one who left
				}
				told := other
				if role == RoleListener {
					told = outcome{r, err}
				}
				// Where the last word took more than the second that it has, it is lost.
				words := "interrupted by the user"
				if errors.Is(told.err, control.ErrGone) {
					words = "went away"
				}
				failed(t, told, told.result.Failed, told.err, words)
			})
		}
	}
}

// TestOneAfterAnother: who comes while another is tested is told so, and gets its turn.
func TestOneAfterAnother(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	l := listener(t, "127.0.0.1:0", p.there)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan outcome, 8)
	served := make(chan struct{})
	go func() {
		l.Serve(ctx, func(r *Result, err error) { ended <- outcome{r, err} })
		close(served)
	}()
	second := newPair(t)
	p.here.Tell = func(_ *Result, s *Step) {
		if s.Name != StepConnect {
			return
		}
		r, err := Check(context.Background(), l.Addr().String(), second.here)
		failed(t, outcome{r, err}, StepMatch, err, "one after another")
	}
	for range 2 {
		if r, err := Check(context.Background(), l.Addr().String(), p.here); err != nil {
			t.Fatalf("%v\n%s", err, show(r))
		}
		if o := within(t, time.Minute, ended); o.err != nil {
			t.Error(o.err)
		}
	}
	stop()
	<-served
}
