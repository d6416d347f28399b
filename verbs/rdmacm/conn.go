package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"syscall"
	"time"
)

// MaxPrivate is how much private data the interface can carry, in bytes. A
// transport may take less: on InfiniBand and RoCE a dial takes 56, an accept 196
// and a refusal 148.
const MaxPrivate = 255

// Params is what a side brings to a connection.
type Params struct {
	QPN                uint32 // the queue pair, on the device that Device names
	SRQ                bool   // its receives come from a shared queue
	ResponderResources uint8  // reads and atomics of the peer to serve at once
	InitiatorDepth     uint8  // reads and atomics to issue at once
	Private            []byte // for the peer to see; at most MaxPrivate bytes

	// Modify moves an InfiniBand or RoCE queue pair with the attributes of the
	// kernel, which leaves that to its owner: to INIT, to RTR and to RTS, in this
	// order and before the connection is reported. An iWARP queue pair must be
	// in INIT with its access flags; the kernel does the rest, and Modify is not
	// called.
	Modify func(QPAttr) error
}

func (p *Params) check() error {
	switch {
	case p.QPN == 0 || p.QPN >= 1<<24:
		return fmt.Errorf("queue pair number %#x is not within 1 and 0xffffff: %w", p.QPN, syscall.EINVAL)
	case len(p.Private) > MaxPrivate:
		return fmt.Errorf("%d bytes of private data, at most %d fit: %w", len(p.Private), MaxPrivate, syscall.EINVAL)
	}
	return nil
}

// Listen waits for connections on an address of an RDMA device. Port 0 lets the
// kernel choose one; it is not a TCP port except on iWARP.
func Listen(ctx context.Context, addr netip.AddrPort) (*Listener, error) {
	ch, err := Open()
	if err != nil {
		return nil, err
	}
	defer ch.Close()
	return ch.Listen(ctx, addr)
}

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

// A Listener is bound to an address of a device.
type Listener struct {
	id   *id
	addr netip.AddrPort
	dev  Device
}

// portAttempts bounds how often another port is tried where the kernel chose
// one. It keeps RDMA ports apart from TCP's, but an iWARP driver needs both.
const portAttempts = 8

// Listen is the package's Listen on this channel.
func (ch *Channel) Listen(ctx context.Context, addr netip.AddrPort) (*Listener, error) {
	if !addr.Addr().IsValid() {
		return nil, &Error{Op: "listen", Err: syscall.EINVAL, Detail: "no IP address given"}
	}
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return nil, &Error{Op: "listen", Addr: addr, Err: err}
		}
		l, err := ch.listen(addr)
		if err == nil {
			return l, nil
		}
		if addr.Port() != 0 || attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
}

func (ch *Channel) listen(addr netip.AddrPort) (*Listener, error) {
	const op = "listen"
	x, err := ch.create(op)
	if err != nil {
		return nil, err
	}
	l := &Listener{id: x, addr: addr}
	c, err := bind(x.num, addr)
	if err == nil {
		err = x.run(c)
	}
	if err == nil {
		err = x.run(listen(x.num, queueMax))
	}
	if err == nil {
		l.dev, l.addr, _, err = x.query()
	}
	if err != nil {
		x.destroy()
		return nil, commandError(op, addr, err)
	}
	return l, nil
}

// Addr is the address with the port that a peer dials.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Device is the device that has the address, and none for an address of all.
func (l *Listener) Device() Device { return l.dev }

// Accept waits for a request. The request holds the peer until it is answered
// or closed.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	const op = "accept on"
	for {
		ev, err := l.id.next(ctx)
		if err != nil {
			return nil, l.error(op, err)
		}
		switch ev.Type {
		case EventConnectRequest:
		case EventAddrChange:
			continue
		default:
			return nil, eventError(op, l.addr, ev.Event)
		}
		x, err := l.id.ch.register(op)
		if err != nil {
			l.id.ch.k.run(destroyID(ev.id))
			return nil, l.error(op, err)
		}
		x.num = ev.id
		r := &Request{id: x, Event: ev.Event}
		if r.dev, r.local, r.remote, err = x.query(); err != nil {
			// The peer is gone already; the next one may not be.
			x.destroy()
			continue
		}
		return r, nil
	}
}

func (l *Listener) error(op string, err error) error {
	var inner *Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &Error{Op: op, Addr: l.addr, Err: err}
}

// Close stops listening and refuses the requests that wait. Connections that
// were accepted stay.
func (l *Listener) Close() error { return l.id.destroy() }

// A Request is a peer that wants to connect. The embedded Event holds what the
// peer sent along. It is answered once, by one goroutine.
type Request struct {
	Event
	id            *id // nil once it is answered
	dev           Device
	local, remote netip.AddrPort
}

// LocalAddr is the address that was dialled.
func (r *Request) LocalAddr() netip.AddrPort { return r.local }

// RemoteAddr is the address of the peer.
func (r *Request) RemoteAddr() netip.AddrPort { return r.remote }

// Device is the device on which the queue pair for this request must be.
func (r *Request) Device() Device { return r.dev }

// take takes the id out of a request or a route, which is used up by that.
func take(x **id, op string, remote netip.AddrPort) (*id, error) {
	if *x == nil {
		return nil, &Error{Op: op, Addr: remote, Err: ErrClosed, Detail: "it is answered, connected or closed already"}
	}
	taken := *x
	*x = nil
	return taken, nil
}

// Accept connects a queue pair to the peer and waits until it is established.
// The request is used up, whatever comes of it.
func (r *Request) Accept(ctx context.Context, p Params) (*Conn, error) {
	const op = "accept"
	x, err := take(&r.id, op, r.remote)
	if err != nil {
		return nil, err
	}
	if err := r.accept(ctx, x, &p); err != nil {
		x.giveUp(ctx)
		return nil, commandError(op, r.remote, err)
	}
	return &Conn{id: x, dev: r.dev, local: r.local, remote: r.remote, peer: r.Event}, nil
}

func (r *Request) accept(ctx context.Context, x *id, p *Params) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.Modify != nil {
		limit := func(a *QPAttr) {
			if a.Mask&QPMaxDestRdAtomic != 0 {
				a.MaxDestRdAtomic = p.ResponderResources
			}
			if a.Mask&QPMaxRdAtomic != 0 {
				a.MaxRdAtomic = p.InitiatorDepth
			}
		}
		if err := x.modify(p.Modify, limit, QPInit, QPRTR, QPRTS); err != nil {
			return err
		}
	}
	if err := x.run(accept(x.num, x.uid, p)); err != nil {
		return err
	}
	ev, err := x.next(ctx)
	if err != nil {
		return err
	}
	if ev.Type != EventEstablished {
		return eventError("accept", r.remote, ev.Event)
	}
	return nil
}

// Reject refuses the peer and tells it why. The request is used up.
func (r *Request) Reject(private []byte) error {
	const op = "reject"
	x, err := take(&r.id, op, r.remote)
	if err != nil {
		return err
	}
	if len(private) > MaxPrivate {
		private = private[:MaxPrivate]
	}
	err = x.run(reject(x.num, private))
	if closing := x.destroy(); err == nil {
		err = closing
	}
	if err != nil {
		return commandError(op, r.remote, err)
	}
	return nil
}

// Close refuses the peer without a word, unless the request is answered.
func (r *Request) Close() error {
	x, err := take(&r.id, "close", r.remote)
	if err != nil {
		return nil
	}
	return x.destroy()
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
		err = x.modify(p.Modify, nil, QPInit)
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
		if err := x.modify(p.Modify, nil, QPRTR, QPRTS); err != nil {
			return Event{}, err
		}
		return ev.Event, x.run(accept(x.num, x.uid, nil))
	}
	return Event{}, eventError("dial", r.remote, ev.Event)
}

// modify moves a queue pair through states with the kernel's attributes.
func (x *id) modify(to func(QPAttr) error, adjust func(*QPAttr), states ...QPState) error {
	for _, state := range states {
		attr, err := x.attr(state)
		if err != nil {
			return err
		}
		// What iWARP has for INIT is not meant to be used (before a connect it
		// would take all access away), and it has nothing for RTR and RTS.
		// InfiniBand's INIT always names a P_Key, which iWARP does not know.
		if state == QPInit && attr.Mask&QPPKeyIndex == 0 {
			return nil
		}
		if adjust != nil {
			adjust(&attr)
		}
		if err := to(attr); err != nil {
			return err
		}
	}
	return nil
}

func (x *id) attr(state QPState) (QPAttr, error) {
	c := initQPAttr(x.num, state)
	if err := x.run(c); err != nil {
		return QPAttr{}, commandError(fmt.Sprintf("%s for %v", commandName(c.num), state), netip.AddrPort{}, err)
	}
	return decodeQPAttr(c.answer), nil
}

// A Conn is an established connection of a queue pair. Close it after the queue
// pair.
type Conn struct {
	id            *id
	dev           Device
	local, remote netip.AddrPort
	peer          Event
}

// LocalAddr is this side's address.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// Device is the device that carries the connection.
func (c *Conn) Device() Device { return c.dev }

// Peer is what the peer sent along with its request or its answer.
func (c *Conn) Peer() Event { return c.peer }

// Done is closed when the peer disconnects, the link or the device is lost, or
// the Conn is closed. Err then tells which.
func (c *Conn) Done() <-chan struct{} { return c.id.gone }

// Err is nil while the connection stands.
func (c *Conn) Err() error {
	c.id.mu.Lock()
	lost := c.id.lost
	c.id.mu.Unlock()
	var e *Error
	if !errors.As(lost, &e) {
		return lost
	}
	named := *e
	named.Addr = c.remote
	return &named
}

// Events gives what the connection manager reports of the connection, as it
// comes, until the context ends or the connection is gone.
func (c *Conn) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			ev, err := c.id.next(ctx)
			if err != nil || !yield(ev.Event) {
				return
			}
		}
	}
}

// Disconnect tells the peer that this is the end. An iWARP queue pair sends
// what is posted and closes; others are moved by their owner. It does not wait
// for the peer: Done does.
func (c *Conn) Disconnect() error {
	if err := c.id.run(disconnect(c.id.num)); err != nil {
		return commandError("disconnect", c.remote, err)
	}
	return nil
}

// QPAttr gives the kernel's attributes for moving the queue pair to a state.
func (c *Conn) QPAttr(state QPState) (QPAttr, error) { return c.id.attr(state) }

// Close gives the connection back to the kernel.
func (c *Conn) Close() error { return c.id.destroy() }
