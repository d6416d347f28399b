package engine

import (
	"context"
	"errors"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// Over gives the control connection over TCP and TLS to engines: what the two sides
// said on it before Connect is theirs.
func Over(c *control.Conn) Control { return wire{c} }

type wire struct{ *control.Conn }

func (w wire) Send(kind uint16, payload []byte) error {
	return w.Conn.Send(control.Type(kind), payload)
}

func (w wire) Receive(ctx context.Context) (uint16, []byte, error) {
	kind, payload, err := w.Conn.Receive(ctx)
	return uint16(kind), payload, err
}

func (w wire) Identity() string { return w.Peer() }

func (w wire) Left() bool { return errors.Is(w.Err(), control.ErrLeft) }

// Join joins the engine that listens at HOST:PORT. Both sides prove who they are
// by the credentials before either says anything else. The options say which name
// the peer's certificate must have, and how long it may be silent.
func (e *Engine) Join(ctx context.Context, addr string, c control.Credentials, o control.Options) (*Peer, error) {
	conn, err := control.Dial(ctx, addr, c, o)
	if err != nil {
		return nil, err
	}
	return e.Connect(ctx, wire{conn}, true)
}

// Listener waits for engines that join this one.
type Listener struct {
	*control.Listener
	e *Engine
}

// Listen begins to wait for peers, on the loopback address unless another is
// given.
func (e *Engine) Listen(ctx context.Context, addr string, c control.Credentials, o control.Options) (*Listener, error) {
	l, err := control.Listen(ctx, addr, c, o)
	if err != nil {
		return nil, err
	}
	return &Listener{l, e}, nil
}

// Accept waits for the next peer that has proved who it is, and joins it. An
// error of one peer's is no end of the listener. Several goroutines may call it at
// once: a peer that says nothing then holds up one call, for 30 seconds at most, and
// not all that come behind it.
func (l *Listener) Accept(ctx context.Context) (*Peer, error) {
	conn, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return l.e.Connect(ctx, wire{conn}, false)
}
