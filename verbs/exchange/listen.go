package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// loopback is who is meant where an address names no host.
const loopback = "127.0.0.1"

// hostPort completes an address.
func hostPort(op, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", &Error{Op: op, Peer: addr, Err: ErrUsage, Detail: "an address is HOST:PORT, :PORT or [IPv6]:PORT"}
	}
	if host == "" {
		host = loopback
	}
	return net.JoinHostPort(host, port), nil
}

// Listener waits for peers.
type Listener struct {
	nl   *net.TCPListener
	turn chan struct{} // held by the one Accept: a deadline belongs to the listener
}

// Listen waits for peers on HOST:PORT. Without a host it is the loopback
// address; to be reached from other machines, name an address of this one or
// 0.0.0.0 or [::] for all of them.
func Listen(ctx context.Context, addr string) (*Listener, error) {
	const op = "listen on"
	addr, err := hostPort(op, addr)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	nl, err := config.Listen(ctx, "tcp", addr)
	if err == nil {
		return &Listener{nl: nl.(*net.TCPListener), turn: make(chan struct{}, 1)}, nil
	}
	e := &Error{Op: op, Peer: addr, Err: cause(err)}
	_, port, _ := net.SplitHostPort(addr)
	switch {
	case ctx.Err() != nil:
		e.Err = ctx.Err()
	case errors.Is(err, syscall.EADDRINUSE):
		e.Detail = fmt.Sprintf("another program has port %s; see which with: ss -ltnp 'sport = :%s', or choose another port", port, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Detail = "this machine does not have that address; see: ip addr"
	case errors.Is(err, syscall.EACCES):
		e.Detail = "ports below 1024 need CAP_NET_BIND_SERVICE; choose another port"
	}
	return nil, e
}

// cause is what package net wraps, without the addresses that Error names too.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addr is the address that a peer dials.
func (l *Listener) Addr() net.Addr { return l.nl.Addr() }

// Accept waits for a peer. Its first word is the peer's hello, see Conn.Greet.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	e := &Error{Op: "accept on", Peer: l.nl.Addr().String()}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		e.Err, e.Detail = ctx.Err(), "nobody connected"
		return nil, e
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		l.nl.SetDeadline(time.Unix(1, 0))
	})
	nc, err := l.nl.Accept()
	if !stop() {
		<-fired
		l.nl.SetDeadline(time.Time{})
	}
	if err == nil {
		return New(nc, Acceptor), nil
	}
	switch {
	case errors.Is(err, net.ErrClosed):
		e.Err = ErrClosed
	case ctx.Err() != nil:
		e.Err, e.Detail = ctx.Err(), "nobody connected"
	default:
		e.Err = cause(err)
	}
	return nil, e
}

// Close stops listening. Conversations that have begun go on.
func (l *Listener) Close() error {
	if err := l.nl.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// DefaultWindow is how long a Dialer tries.
const DefaultWindow = 5 * time.Second

// DialOptions say how long to try, and whom to tell.
type DialOptions struct {
	// Window bounds how long a peer that is not there yet is waited for; default
	// DefaultWindow. The context's deadline counts as well.
	Window time.Duration
	// Waiting, where set, is called once, when the peer refuses for the first
	// time: a command can say that it waits.
	Waiting func(err error)
}

// Dial begins a conversation with a listener at HOST:PORT, the loopback address
// without a host. Programs start in any order, so a refused connection is tried
// again for DefaultWindow.
func Dial(ctx context.Context, addr string) (*Conn, error) { return DialOptions{}.Dial(ctx, addr) }

// Dial is the package's Dial with options.
func (o DialOptions) Dial(ctx context.Context, addr string) (*Conn, error) {
	const op = "dial"
	addr, err := hostPort(op, addr)
	if err != nil {
		return nil, err
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	start := time.Now()
	within, cancel := context.WithTimeout(ctx, o.Window)
	defer cancel()
	dialer := net.Dialer{KeepAlive: -1} // New sets its own
	pause := 10 * time.Millisecond
	var last error // refusal: the window may end inside the next attempt
	for attempts := 1; ; attempts++ {
		nc, err := dialer.DialContext(within, "tcp", addr)
		if err == nil {
			return New(nc, Dialer), nil
		}
		e := &Error{Op: op, Peer: addr, Err: cause(err)}
		refused := errors.Is(err, syscall.ECONNREFUSED)
		// The dialler sees the deadline on a clock of its own, and may be ahead
		// of the context.
		var ne net.Error
		over := within.Err() != nil || errors.As(err, &ne) && ne.Timeout()
		switch {
		case refused:
			last = e.Err
		case last != nil && over:
			e.Err, refused = last, true
		}
		if refused && attempts == 1 && o.Waiting != nil {
			o.Waiting(e)
		}
		if refused && !over {
			select {
			case <-time.After(pause):
				pause = min(2*pause, 250*time.Millisecond)
				continue
			case <-within.Done():
			}
		}
		waited := time.Since(start).Round(10 * time.Millisecond)
		var dns *net.DNSError
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			e.Err = ctx.Err()
		case refused:
			e.Detail = fmt.Sprintf("tried %d times in %v: is the other side started, and on that port?", attempts, waited)
		case errors.As(err, &dns):
			e.Detail = "the name has no address; see: getent hosts"
		case over:
			e.Err = context.DeadlineExceeded
			e.Detail = fmt.Sprintf("no answer in %v: is the machine up, and no firewall between?", waited)
		}
		return nil, e
	}
}
