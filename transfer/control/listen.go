package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Listener lets peers in that prove themselves.
type Listener struct {
	nl          net.Listener
	credentials Credentials
	o           Options

	proven  chan *Conn
	stopped chan struct{} // closed by Close
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   []*halfOpen // the oldest first
	stats  Stats
}

// halfOpen is a connection whose other side has not proved itself.
type halfOpen struct{ end context.CancelCauseFunc }

// Stats are what has happened to a listener.
type Stats struct {
	HalfOpen int    // connections that have not proved themselves, now
	Proved   uint64 // connections that have
	Refused  uint64 // failed to: other credentials, other protocols, silence
	Crowded  uint64 // closed before they could: Options.HalfOpen younger ones came
	Unwanted uint64 // proved themselves and were closed: too many waited for Accept
	Last     error  // what was wrong with the last one of Refused and Unwanted, or with the listening
	LastAt   time.Time
}

// Listen waits for peers on HOST:PORT. Without a host, as in ":18631", it is the
// loopback address, and only this machine reaches it; to be reached from others,
// name an address of this one, or 0.0.0.0 or [::] for all of them.
//
// At most Options.HalfOpen connections are proving themselves at once, each for at
// most Options.Handshake. One more takes the place of the oldest of them, which is
// closed: those who say nothing keep out nobody who does.
func Listen(ctx context.Context, addr string, c Credentials, o Options) (*Listener, error) {
	const op = "listen on"
	full, err := hostPort(addr)
	if err == nil {
		err = c.check()
	}
	if err == nil {
		o, err = o.withDefaults()
	}
	if err != nil {
		return nil, about(op, addr, err)
	}
	config := net.ListenConfig{KeepAlive: -1}
	nl, err := config.Listen(ctx, "tcp", full)
	if err != nil {
		e := about(op, full, err)
		switch {
		case ctx.Err() != nil:
			e.Err = ctx.Err()
		case errors.Is(err, syscall.EADDRINUSE):
			e.Detail = "another program has the port; see which with: ss -ltnp, or choose another"
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			e.Detail = "this machine does not have that address; see: ip addr"
		case errors.Is(err, syscall.EACCES):
			e.Detail = "ports below 1024 need CAP_NET_BIND_SERVICE; choose another"
		}
		return nil, e
	}
	l := &Listener{nl: nl, credentials: c, o: o, proven: make(chan *Conn, o.HalfOpen), stopped: make(chan struct{})}
	l.running.Go(l.listen)
	return l, nil
}

// Addr is the address that a peer dials.
func (l *Listener) Addr() net.Addr { return l.nl.Addr() }

// Stats are counts since Listen.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.HalfOpen = len(l.open)
	return s
}

// Watch tells of those who were not let in until the context ends: the first at once,
// more of them after ten seconds together, so that a flood does not fill a log.
func (l *Listener) Watch(ctx context.Context, warn func(error)) {
	const every, rest = 200 * time.Millisecond, 10 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	known := uint64(0)
	var told time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s := l.Stats()
		if n := s.Refused + s.Unwanted; n > known && time.Since(told) > rest {
			warn(fmt.Errorf("%d connections were not let in, the last: %w", n-known, s.Last))
			known, told = n, time.Now()
		}
	}
}

// Accept waits for a peer that has proved itself.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	var err error
	select {
	case <-l.stopped:
		err = ErrClosed
	default:
		select {
		case conn := <-l.proven:
			return conn, nil
		case <-l.stopped:
			err = ErrClosed
		case <-ctx.Done():
			err = why(ctx.Err(), "nobody came who proved itself")
		}
	}
	return nil, about("accept on", l.Addr().String(), err)
}

// Close stops listening and closes what Accept has not given out. What it has
// goes on.
func (l *Listener) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stopped)
		for _, h := range l.open {
			h.end(ErrClosed)
		}
	}
	l.mu.Unlock()
	err := l.nl.Close()
	l.running.Wait()
	for {
		select {
		case conn := <-l.proven:
			conn.Close()
			continue
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			err = nil
		}
		return err
	}
}
