package peer

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// Check tests the path to the listener at HOST:PORT. There is a result in any case; the
// error is a *StepError where a step failed.
func Check(ctx context.Context, addr string, o Options) (*Result, error) {
	r := newRun(ctx, RoleDialler, o)
	r.result.Address, r.seed = addr, rand.Uint64()
	r.check(addr)
	return r.result, r.finish()
}

// check takes the steps up to the first that fails.
func (r *run) check(addr string) error {
	if err := r.step(StepDevice, func(_ context.Context, st *Step) error { return r.open(st) }); err != nil {
		return err
	}
	var nc net.Conn
	err := r.step(StepReach, func(ctx context.Context, st *Step) (err error) {
		nc, err = r.reach(ctx, st, addr)
		return err
	})
	if err != nil {
		if nc != nil {
			nc.Close()
		}
		return err
	}
	err = r.step(StepCredentials, func(ctx context.Context, st *Step) (err error) {
		if r.conn, err = control.Over(ctx, nc, r.o.Credentials, r.o.Control); err != nil {
			return err
		}
		r.result.Peer = r.conn.Peer()
		st.Summary = "both sides have proved themselves by " + r.o.Credentials.String()
		if r.conn.Peer() != "token" {
			st.Summary += "; the other is " + r.conn.Peer()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.step(StepMatch, r.greet); err != nil {
		return err
	}
	for _, x := range []struct {
		name Name
		mine func(context.Context, *Step) error
	}{
		{StepMTU, r.mtuProbe},
		{StepKeys, r.keys},
		{StepConnect, r.connect},
		{StepSmall, func(ctx context.Context, st *Step) error { return r.sends(ctx, st, StepSmall, StepSmall) }},
		{StepLarge, func(ctx context.Context, st *Step) error { return r.sends(ctx, st, StepLarge, StepLarge) }},
		{StepOrder, func(ctx context.Context, st *Step) error { return r.sends(ctx, st, StepOrder, StepOrder) }},
		{StepRead, r.readAll},
		{StepBack, r.takesBack},
	} {
		if x.name == StepRead && !r.reads() {
			r.skipRead()
			continue
		}
		if err := r.step(x.name, r.both(x.name, x.mine)); err != nil {
			return err
		}
	}
	return r.tell(message{Kind: kindBye})
}

// skipRead notes that the NICs have no reads.
func (r *run) skipRead() {
	st := r.result.step(StepRead)
	st.Verdict, st.Summary = Skipped, "the transport, or one of the NICs, has no reads"
	r.o.Tell(r.result, st)
}

// both is a step of both sides: the listener is told, this side does its part, and the
// listener says how its part went.
func (r *run) both(name Name, mine func(context.Context, *Step) error) func(context.Context, *Step) error {
	return func(ctx context.Context, st *Step) error {
		if err := r.tell(message{Kind: kindBegin, Step: name}); err != nil {
			return err
		}
		if err := mine(ctx, st); err != nil {
			return err
		}
		m, err := r.hear(ctx, kindDone, name)
		if err != nil {
			return err
		}
		st.PeerEvidence = m.Evidence
		st.Figures = append(st.Figures, m.Figures...)
		return nil
	}
}

// next is the step behind another.
func (r *run) next(name Name) Name {
	i := slices.Index(steps[:], name) + 1
	if i < len(steps) && steps[i] == StepRead && !r.reads() {
		i++
	}
	if i == len(steps) {
		return ""
	}
	return steps[i]
}
