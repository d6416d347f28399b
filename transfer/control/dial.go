package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Dial connects to a listener at HOST:PORT, the loopback address without a host,
// and returns when both sides have proved themselves. Programs start in any
// order, so it tries again for Options.Window while the connection is refused,
// or closed in the handshake, as by a listener that is being flooded. The context
// bounds it as well.
func Dial(ctx context.Context, addr string, c Credentials, o Options) (*Conn, error) {
	const op = "dial"
	full, err := hostPort(addr)
	if err == nil {
		err = c.check()
	}
	if err == nil {
		o, err = o.withDefaults()
	}
	if err == nil {
		err = o.nameable(c)
	}
	if err != nil {
		return nil, about(op, addr, err)
	}
	begin := time.Now()
	window, cancel := context.WithTimeout(ctx, o.Window)
	defer cancel()
	var last error // refusal: the window may end within the next try
	for tries, pause := 1, 10*time.Millisecond; ; tries++ {
		conn, err := dialOnce(ctx, window, full, c, o)
		if err == nil {
			return conn, nil
		}
		if refused(err) {
			last = err
			select {
			case <-time.After(pause):
				pause = min(2*pause, 250*time.Millisecond)
				continue
			case <-window.Done():
			}
		} else if _, met := err.(*Error); last != nil && !met && timeout(err) {
			err = last
		}
		e := about(op, full, err)
		took := time.Since(begin).Round(10 * time.Millisecond)
		switch _, isDNS := errors.AsType[*net.DNSError](err); {
		case ctx.Err() == context.Canceled:
			e.Err = ctx.Err()
		case errors.Is(err, syscall.ECONNREFUSED):
			e.Detail = fmt.Sprintf("tried %d times in %v: is the other side started, on that port, and on an address that this machine reaches?", tries, took)
		case errors.Is(err, ErrGone):
			e.Detail += fmt.Sprintf(", %d times in %v: is it being flooded, or the port another service's?", tries, took)
		case isDNS:
			e.Detail = "the name has no address; see: getent hosts"
		case timeout(err) && e.Detail == "":
			e.Err = context.DeadlineExceeded
			e.Detail = fmt.Sprintf("no answer in %v: is the machine up, and no firewall between?", took)
		}
		return nil, e
	}
}

// refused says that trying again may help: nobody listens, or who does had no
// place for one more.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrGone)
}

// dialOnce connects within the window, and has the time of a handshake after it.
func dialOnce(ctx, window context.Context, addr string, c Credentials, o Options) (*Conn, error) {
	dialer := net.Dialer{KeepAlive: -1} // the heartbeat is ours
	nc, err := dialer.DialContext(window, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return proven(ctx, nc, c, o)
}

// proven makes a conversation of a connection that was dialled, or closes it.
func proven(ctx context.Context, nc net.Conn, c Credentials, o Options) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Handshake)
	defer cancel()
	s, err := prove(ctx, nc, c, dialler, o)
	if err != nil {
		return nil, err
	}
	return start(s, o), nil
}

// Over is the second half of Dial, on a connection that the caller has dialled: it
// returns when both sides have proved themselves, after Options.Handshake at most.
// It takes the connection over, and closes it if it fails. There is no second try.
func Over(ctx context.Context, nc net.Conn, c Credentials, o Options) (*Conn, error) {
	const op = "prove to"
	err := c.check()
	if err == nil {
		o, err = o.withDefaults()
	}
	if err == nil {
		err = o.nameable(c)
	}
	addr := nc.RemoteAddr().String()
	if err != nil {
		nc.Close()
		return nil, about(op, addr, err)
	}
	conn, err := proven(ctx, nc, c, o)
	if err != nil {
		return nil, about(op, addr, err)
	}
	return conn, nil
}

// nameable tells whether a peer can have the name that is asked for.
func (o Options) nameable(c Credentials) error {
	if _, certified := c.kind.(*certificates); o.Peer != "" && !certified {
		return why(ErrUsage, "a peer with a token has no name to ask for (%q): use certificates", o.Peer)
	}
	return nil
}
