package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Listener is the other side of tests, one after another.
type Listener struct {
	o       Options
	control *control.Listener
	came    chan *control.Conn
	busy    chan string // has the peer's address while a test goes on
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Listen waits for diallers on HOST:PORT; without a host only this machine can connect.
// The NIC is opened once, to find out now whether it can be.
func Listen(ctx context.Context, addr string, o Options) (*Listener, error) {
	o.defaults()
	rail, err := o.Rail.Open(transfer.Want{Peers: 1, NICs: 1, Queues: 1})
	if err == nil {
		err = rail.Close()
	}
	if err != nil {
		return nil, err
	}
	c, err := control.Listen(ctx, addr, o.Credentials, o.Control)
	if err != nil {
		return nil, err
	}
	l := &Listener{o: o, control: c, came: make(chan *control.Conn), busy: make(chan string, 1)}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() { l.accept(ctx) })
	l.running.Go(func() { c.Watch(ctx, l.o.Warn) })
	return l, nil
}

// Addr is the address that a dialler dials.
func (l *Listener) Addr() net.Addr { return l.control.Addr() }

// accept hands those who proved themselves to Receive.
func (l *Listener) accept(ctx context.Context) {
	for {
		c, err := l.control.Accept(ctx)
		if err != nil {
			return // closed
		}
		l.running.Go(func() { l.hand(ctx, c) })
	}
}

// parting is how long one who comes is let wait for another to be gone: that one may
// have had its result, and be freed here.
const parting = time.Second

// hand hands one who has proved itself to Receive, or sends it away while there is
// another.
func (l *Listener) hand(ctx context.Context, c *control.Conn) {
	soon := time.NewTimer(parting)
	defer soon.Stop()
	select {
	case l.busy <- c.RemoteAddr().String():
		select {
		case l.came <- c:
		case <-ctx.Done():
			c.Close()
		}
	case <-soon.C:
		l.refuse(c)
	case <-ctx.Done():
		c.Close()
	}
}

// refuse tells a dialler that there is another.
func (l *Listener) refuse(c *control.Conn) {
	m := message{Kind: kindHello, NIC: &NIC{Version: l.o.Version, Device: "busy"}, Error: &said{
		Text: "it is testing the path to another node, and tests one after another", Class: exchange.ClassFailed, Remedy: "try again in half a minute",
	}}
	if b, err := m.bytes(); err == nil {
		c.Send(typeMessage, b)
	}
	c.Close()
}

// Receive is the other side of one test, of the next dialler that proves itself. The
// result is nil if nobody came before the context ended; else the error is the test's.
func (l *Listener) Receive(ctx context.Context) (*Result, error) {
	var c *control.Conn
	select {
	case c = <-l.came:
	case <-ctx.Done():
		return nil, ErrCancelled
	}
	defer func() { <-l.busy }()
	r := newRun(ctx, RoleListener, l.o)
	r.conn = c
	r.result.Address, r.result.Peer = c.RemoteAddr().String(), c.Peer()
	r.serve()
	return r.result, r.finish()
}

// Serve is the other side of tests until the context ends, and calls ended for each.
func (l *Listener) Serve(ctx context.Context, ended func(*Result, error)) {
	for ctx.Err() == nil {
		if r, err := l.Receive(ctx); r != nil {
			ended(r, err)
		}
	}
}

// Close stops listening.
func (l *Listener) Close() error {
	l.stop()
	err := l.control.Close()
	l.running.Wait()
	return err
}

// serve takes the steps as the dialler asks for them.
func (r *run) serve() error {
	for _, name := range []Name{StepReach, StepCredentials} {
		r.step(name, func(_ context.Context, st *Step) error {
			st.Summary = r.conn.String() + " came"
			return nil
		})
	}
	if err := r.step(StepDevice, func(_ context.Context, st *Step) error { return r.open(st) }); err != nil {
		return err
	}
	if err := r.step(StepMatch, r.greet); err != nil {
		return err
	}
	parts := map[Name]func(context.Context, *Step) error{
		StepMTU:     r.mtuAnswer,
		StepKeys:    r.keys,
		StepConnect: r.connect,
		StepSmall:   func(ctx context.Context, st *Step) error { return r.takes(ctx, st, StepSmall, StepSmall) },
		StepLarge:   func(ctx context.Context, st *Step) error { return r.takes(ctx, st, StepLarge, StepLarge) },
		StepOrder:   func(ctx context.Context, st *Step) error { return r.takes(ctx, st, StepOrder, StepOrder) },
		StepRead:    r.serveRead,
		StepBack:    r.sendsBack,
	}
	for last := StepMatch; ; {
		name, err := r.asked(last)
		if err != nil || name == "" {
			return err
		}
		if name == StepBack && !r.reads() {
			r.skipRead()
		}
		if err := r.step(name, r.answer(name, parts[name])); err != nil {
			return err
		}
		last = name
	}
}

// asked waits for the dialler's next step, which must be the one behind the last; ""
// when it has taken them all.
func (r *run) asked(last Name) (Name, error) {
	limit := idleTime + r.o.Timeout // it may still be in the last
	ctx, cancel := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("%w for %v: the dialler is connected and asks for nothing", ErrTimeout, limit))
	defer cancel()
	next := r.next(last)
	k := kindBegin
	if next == "" {
		k = kindBye
	}
	m, err := r.hear(ctx, k, next)
	if err == nil {
		return m.Step, nil
	}
	// What the dialler says of a step that this side had done is that step's end.
	at := last
	var p *PeerError
	if !errors.As(err, &p) && next != "" {
		at = next
	}
	return "", r.fail(at, why(r.ctx, err))
}

// answer does this side's part of a step, and says how it went.
func (r *run) answer(name Name, mine func(context.Context, *Step) error) func(context.Context, *Step) error {
	return func(ctx context.Context, st *Step) error {
		if err := mine(ctx, st); err != nil {
			return err
		}
		return r.tell(message{Kind: kindDone, Step: name, Evidence: append([]string(nil), st.Evidence...), Figures: st.Figures})
	}
}
