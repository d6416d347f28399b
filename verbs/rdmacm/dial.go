package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

// Dial connects a queue pair to a listener. A local address chooses the device;
// the zero Addr leaves that to the kernel's routes.
func Dial(ctx context.Context, local netip.Addr, remote netip.AddrPort, p Params) (*Conn, error) {
	ch, err := Open()
	if err != nil {
		return nil, err
	}
	defer ch.Close()
	return ch.Dial(ctx, local, remote, p)
}

// A Route is a listener's address that is resolved: which device leads there is
// known, and nothing is connected yet. It is used once, by one goroutine.
type Route struct {
	id            *id // nil once it is used
	src           netip.Addr
	dst           netip.AddrPort
	dev           Device
	local, remote netip.AddrPort
}

// resolveTimeout is how long the kernel tries to resolve an address or a path
// where the context sets no deadline.
const resolveTimeout = 5 * time.Second

func timeout(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return resolveTimeout
}

// Dial is the package's Dial on this channel.
func (ch *Channel) Dial(ctx context.Context, local netip.Addr, remote netip.AddrPort, p Params) (*Conn, error) {
	route, err := ch.Resolve(ctx, local, remote)
	if err != nil {
		return nil, err
	}
	return route.Connect(ctx, p)
}

// Resolve finds the device and the path that lead to a listener.
func (ch *Channel) Resolve(ctx context.Context, local netip.Addr, remote netip.AddrPort) (*Route, error) {
	const op = "resolve"
	if !remote.IsValid() || remote.Port() == 0 {
		return nil, &Error{Op: op, Addr: remote, Err: syscall.EINVAL, Detail: "an IP address and a port are needed"}
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: op, Addr: remote, Err: err}
	}
	x, err := ch.create(op)
	if err != nil {
		return nil, err
	}
	r := &Route{id: x, src: local, dst: remote}
	if r.dev, r.local, r.remote, err = x.resolve(ctx, local, remote); err != nil {
		x.giveUp(ctx)
		return nil, commandError(op, remote, err)
	}
	return r, nil
}

func (x *id) resolve(ctx context.Context, src netip.Addr, dst netip.AddrPort) (dev Device, local, remote netip.AddrPort, err error) {
	c, err := resolveAddr(x.num, netip.AddrPortFrom(src, 0), dst, timeout(ctx))
	if err == nil {
		err = x.step(ctx, c, EventAddrResolved, dst)
	}
	if err == nil {
		err = x.step(ctx, resolveRoute(x.num, timeout(ctx)), EventRouteResolved, dst)
	}
	if err != nil {
		return dev, local, remote, err
	}
	return x.query()
}

// step runs a command that an event answers.
func (x *id) step(ctx context.Context, c command, want EventType, dst netip.AddrPort) error {
	if err := x.run(c); err != nil {
		return err
	}
	ev, err := x.next(ctx)
	if err != nil {
		return err
	}
	if ev.Type != want {
		return eventError("resolve", dst, ev.Event)
	}
	return nil
}

// LocalAddr is the address that the connection will come from.
func (r *Route) LocalAddr() netip.AddrPort { return r.local }

// RemoteAddr is the listener's address.
func (r *Route) RemoteAddr() netip.AddrPort { return r.remote }

// Device is the device on which the queue pair for this route must be.
func (r *Route) Device() Device { return r.dev }

// Close gives the route up, unless it is used.
func (r *Route) Close() error {
	x, err := take(&r.id, "close", r.remote)
	if err != nil {
		return nil
	}
	return x.destroy()
}

// Connect connects a queue pair and waits until it is established. The route is
// used up, whatever comes of it.
//
// The kernel chooses the local port among those of RDMA, and an iWARP driver
// wants the same one of TCP, where it may be taken: then another is tried.
func (r *Route) Connect(ctx context.Context, p Params) (*Conn, error) {
	const op = "dial"
	x, err := take(&r.id, op, r.remote)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		taken := false
		var peer Event
		peer, taken, err = r.connect(ctx, x, &p)
		if err == nil {
			return &Conn{id: x, dev: r.dev, local: r.local, remote: r.remote, peer: peer}, nil
		}
		if !taken || attempt == portAttempts {
			return nil, commandError(op, r.remote, err)
		}
		again, rerr := x.ch.Resolve(ctx, r.src, r.dst)
		if rerr != nil {
			return nil, rerr
		}
		if again.dev != r.dev {
			again.Close()
			return nil, &Error{Op: op, Addr: r.remote, Err: ErrNoDevice, Detail: fmt.Sprintf("the route has moved from %v to %v", r.dev, again.dev)}
		}
		x, r.local = again.id, again.local
	}
}

// connect makes one attempt with an id, which is gone after an error. taken
// says that the error is that of a local port that is in use.
func (r *Route) connect(ctx context.Context, x *id, p *Params) (peer Event, taken bool, err error) {
	if err = p.check(); err == nil && p.Modify != nil {
		err = x.modify(p.Modify, nil, StateInit)
	}
	if err != nil {
		x.destroy()
		return peer, false, err
	}
	// An iWARP driver opens its TCP connection inside the command, so that
	// this may take as long as TCP likes.
	connected := make(chan error, 1)
	go func() { connected <- x.run(connect(x.num, p)) }()
	select {
	case err = <-connected:
		// TCP says the first of a bind, the second of a connect.
		taken = errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
	case <-ctx.Done():
		x.abandon(connected)
		return peer, false, ctx.Err()
	}
	if err == nil {
		peer, err = r.established(ctx, x, p)
	}
	if err != nil {
		x.giveUp(ctx)
	}
	return peer, taken, err
}

func (r *Route) established(ctx context.Context, x *id, p *Params) (Event, error) {
	ev, err := x.next(ctx)
	if err != nil {
		return Event{}, err
	}
	switch ev.Type {
	case EventEstablished:
		return ev.Event, nil
	case EventConnectResponse:
		// InfiniBand and RoCE: the kernel leaves the queue pair to us, and tells
		// the peer that we are ready when it is accepted from this side too.
		if p.Modify == nil {
			return Event{}, &Error{Op: "dial", Addr: r.remote, Err: syscall.EINVAL,
				Detail: "an InfiniBand or RoCE queue pair needs Params.Modify"}
		}
		if err := x.modify(p.Modify, nil, StateRTR, StateRTS); err != nil {
			return Event{}, err
		}
		return ev.Event, x.run(accept(x.num, x.uid, nil))
	}
	return Event{}, eventError("dial", r.remote, ev.Event)
}
