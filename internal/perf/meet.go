package perf

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"

	"github.com/peerdirect/peerdirect/internal/uname"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// thisMachine describes where the side runs.
func thisMachine(o *Options) *Side {
	s := &Side{Arch: runtime.GOARCH, Version: o.Version, GIDIndex: Auto, Events: o.Events, Kernel: uname.Release()}
	s.Host, _ = os.Hostname()
	return s
}

// meet finds the peer.
func meet(ctx context.Context, o *Options, say func(string)) (*exchange.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if o.Server != "" {
		dial := exchange.DialOptions{Window: o.Timeout, Waiting: func(err error) { say(err.Error() + ": waiting") }}
		return dial.Dial(ctx, o.address())
	}
	l, err := exchange.Listen(ctx, o.address())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	say("waiting for the client on " + l.Addr().String())
	conn, err := l.Accept(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &TimeoutError{"no client connected to " + l.Addr().String(), o.Timeout}
	}
	return conn, err
}

// hostOf is the host part of a socket's address.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
