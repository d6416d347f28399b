package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// helloTime is how long a peer may take to say who it is, and the rails to
// connect, where the context gives no less.
const helloTime = 30 * time.Second

// Connect joins the engine at the other end of a control connection, which
// calls Connect as well, and takes the connection over. dialled is true on the
// side that made the connection. It returns when one rail at least is connected.
func (e *Engine) Connect(ctx context.Context, c Control, dialled bool) (*Peer, error) {
	if e.o.Manual != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w: begin by Begin and Meet", ErrWaits), c.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	p, err := e.meet(ctx, c, dialled)
	if err != nil {
		return nil, errors.Join(e.interrupted(ctx, err), c.Close())
	}
	select {
	case <-p.up:
		if err := p.Err(); err != nil {
			<-p.fenced
			return nil, e.interrupted(ctx, err)
		}
		return p, nil
	case <-ctx.Done():
		err := fmt.Errorf("%w: no rail to %s was connected: %w", ErrLost, p.name, context.Cause(ctx))
		p.end(err)
		<-p.fenced
		return nil, p.Err()
	}
}

// interrupted adds to an error that the engine was closed, or the context has ended:
// the other side may have been the first to give up for the same reason.
func (e *Engine) interrupted(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case e.ctx.Err() != nil:
		return fmt.Errorf("%w: the engine was closed: %w", ErrClosed, err)
	case cause != nil && !errors.Is(err, cause):
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func (e *Engine) meet(ctx context.Context, c Control, dialled bool) (*Peer, error) {
	if err := e.hello(c); err != nil {
		return nil, err
	}
	kind, payload, err := c.Receive(ctx)
	if err != nil {
		return nil, err
	}
	p, err := e.admit(c, dialled, kind, payload)
	if err != nil {
		return nil, err
	}
	go p.read()
	return p, nil
}

// hello says who this side is.
func (e *Engine) hello(c Control) error {
	own := message{kind: msgHello, incarnation: e.incarnation, count: uint32(len(e.rails)), name: e.o.Name}
	return c.Send(uint16(own.kind), own.append(nil))
}

// admit makes a peer of who sent the first message, and begins to connect rails.
func (e *Engine) admit(c Control, dialled bool, kind uint16, payload []byte) (*Peer, error) {
	var hello message
	if err := hello.parse(kind, payload); err != nil {
		return nil, err
	}
	if hello.kind != msgHello {
		return nil, fmt.Errorf("%w: a message of type %d before the hello", errProtocol, kind)
	}
	p := &Peer{
		e: e, control: c, dialled: dialled, name: hello.name, identity: c.Identity(), incarnation: hello.incarnation,
		rails: min(len(e.rails), int(hello.count)), idle: make(chan struct{}), ended: make(chan struct{}), fenced: make(chan struct{}), up: make(chan struct{}),
		notices: make(map[Number]*outgoing), targets: make(map[string]*Target), grants: make(map[string]*grant), meetings: make(map[string]*meeting),
		changed: make(chan struct{}), timers: make(map[*timer]struct{}),
	}
	p.own.p = p
	p.own.keys = make([]atomic.Uint64, p.rails)
	p.all = firstRails(p.rails)
	for _, w := range e.workers {
		p.at = append(p.at, &peerAt{p: p, w: w, others: len(e.workers) > 1, rails: w.drives.and(p.all),
			links: make([]*link, len(w.rails)), offers: make([]*message, len(w.rails))})
	}
	for _, r := range e.rails[:p.rails] {
		p.workersUp = max(p.workersUp, r.w.index+1)
	}
	p.workers.Store(int32(len(e.workers)))
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	e.peers[p] = struct{}{}
	p.next.Store(e.met)
	for _, a := range p.at {
		a.pick = int(e.met) / len(e.workers) % max(1, len(a.links)) // and with another rail
	}
	e.met++
	e.ending.Add(1) // the fence's
	if e.o.Manual == nil {
		e.ending.Add(1) // the reader's
	}
	e.mu.Unlock()
	if dialled {
		for i := range p.rails {
			r := e.rails[i]
			a := p.at[r.w.index]
			r.w.do(func() { a.offer(r, 1) })
		}
	}
	return p, nil
}
