package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
)

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
			if a.Mask&QPMaxDestRDAtomic != 0 {
				a.MaxDestRDAtomic = p.ResponderResources
			}
			if a.Mask&QPMaxRDAtomic != 0 {
				a.MaxRDAtomic = p.InitiatorDepth
			}
		}
		if err := x.modify(p.Modify, limit, StateInit, StateRTR, StateRTS); err != nil {
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
