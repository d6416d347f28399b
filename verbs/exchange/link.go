package exchange

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

// Link is what connected queue pairs need besides themselves: on iWARP the ids
// of the RDMA CM, on other transports nothing.
type Link struct {
	conns []*rdmacm.Conn
}

// Err is why the first lost queue pair is lost, where the transport tells: only
// iWARP does.
func (l *Link) Err() error {
	if l == nil {
		return nil
	}
	for i, conn := range l.conns {
		if err := conn.Err(); err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
	}
	return nil
}

// Close gives the ids back. The queue pairs must be closed before.
func (l *Link) Close() error {
	if l == nil {
		return nil
	}
	var first error
	for _, conn := range l.conns {
		if err := conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	l.conns = nil
	return first
}

// cmOffer tells the dialling side where the RDMA CM listens. The token proves
// to the listener that a request belongs to this conversation.
type cmOffer struct {
	Addr  netip.AddrPort `json:"addr"`
	Token []byte         `json:"token"`
}

const (
	tokenSize   = 8
	privateSize = 4 + tokenSize + 4
)

// private is the private data of the request for queue pair i: magic and
// version as in a frame, token, big-endian index.
func private(token []byte, i int) []byte {
	b := append(make([]byte, 0, privateSize), magic...)
	b = append(b, Version)
	b = append(b, token...)
	return binary.BigEndian.AppendUint32(b, uint32(i))
}

// connectCM connects iWARP queue pairs, one after the other.
func (l *Link) connectCM(ctx context.Context, c *Conn, qps []*verbs.RC, o Options) error {
	ch, err := rdmacm.Open()
	if err != nil {
		return err
	}
	defer ch.Close()
	// A peer that fails meanwhile dials no more, and answers no more.
	watched, stop := c.Watch(ctx)
	defer stop()
	if c.role == Acceptor {
		err = l.acceptCM(watched, c, ch, qps, o)
	} else {
		err = l.dialCM(watched, c, ch, qps, o)
	}
	if err != nil && watched.Err() != nil && ctx.Err() == nil {
		return context.Cause(watched)
	}
	return err
}

func params(qp *verbs.RC, o Options) rdmacm.Params {
	reads := max(o.Connect.MaxRead, 1)
	return rdmacm.Params{QPN: qp.QPN(), ResponderResources: reads, InitiatorDepth: reads}
}

func (l *Link) acceptCM(ctx context.Context, c *Conn, ch *rdmacm.Channel, qps []*verbs.RC, o Options) error {
	listener, at, err := listenCM(ctx, ch, qps[0].Device(), addrOf(c.LocalAddr()), o)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := c.Send(ctx, typeCM, at); err != nil {
		return err
	}
	return l.take(ctx, listener, at, qps, o)
}

// listenCM begins to wait for a peer's queue pairs, on an address of the device's.
func listenCM(ctx context.Context, ch *rdmacm.Channel, dev *verbs.Device, near netip.Addr, o Options) (*rdmacm.Listener, cmOffer, error) {
	addr, err := o.address(dev, near)
	if err != nil {
		return nil, cmOffer{}, err
	}
	listener, err := ch.Listen(ctx, netip.AddrPortFrom(addr, 0))
	if err != nil {
		return nil, cmOffer{}, err
	}
	if err := sameDevice(dev, listener.Device(), addr); err != nil {
		listener.Close()
		return nil, cmOffer{}, err
	}
	at := cmOffer{Addr: listener.Addr(), Token: make([]byte, tokenSize)}
	rand.Read(at.Token)
	return listener, at, nil
}

// take connects the queue pairs with those of the peer that dials.
func (l *Link) take(ctx context.Context, listener *rdmacm.Listener, at cmOffer, qps []*verbs.RC, o Options) error {
	for i, qp := range qps {
		req, err := request(ctx, listener, private(at.Token, i))
		if err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
		conn, err := req.Accept(ctx, params(qp, o))
		if err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
		l.conns = append(l.conns, conn)
	}
	return nil
}

// request waits for the request with the private data given, and refuses the
// requests of others.
func request(ctx context.Context, listener *rdmacm.Listener, want []byte) (*rdmacm.Request, error) {
	for {
		req, err := listener.Accept(ctx)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(req.Private, want) {
			return req, nil
		}
		// A peer that is gone already needs no refusal.
		req.Reject([]byte("not the queue pair that is due"))
	}
}

func (l *Link) dialCM(ctx context.Context, c *Conn, ch *rdmacm.Channel, qps []*verbs.RC, o Options) error {
	var at cmOffer
	if err := c.Receive(ctx, typeCM, &at); err != nil {
		return err
	}
	if err := at.check(); err != nil {
		return c.error("connect with", &Error{Err: ErrProtocol, Detail: err.Error()})
	}
	return l.dial(ctx, ch, at, qps, o)
}

// dial connects the queue pairs with those of the peer that waits.
func (l *Link) dial(ctx context.Context, ch *rdmacm.Channel, at cmOffer, qps []*verbs.RC, o Options) error {
	dev := qps[0].Device()
	local, err := o.address(dev, at.Addr.Addr())
	if err != nil {
		return err
	}
	for i, qp := range qps {
		route, err := ch.Resolve(ctx, local, at.Addr)
		if err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
		if err := sameDevice(dev, route.Device(), local); err != nil {
			route.Close()
			return err
		}
		p := params(qp, o)
		p.Private = private(at.Token, i)
		conn, err := route.Connect(ctx, p)
		if err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
		l.conns = append(l.conns, conn)
	}
	return nil
}

func (at cmOffer) check() error {
	addr := at.Addr.Addr()
	switch {
	case !at.Addr.IsValid() || at.Addr.Port() == 0 || addr.IsUnspecified() || addr.IsMulticast() || addr == broadcast:
		return fmt.Errorf("the peer's RDMA CM address %v cannot be dialled", at.Addr)
	case len(at.Token) != tokenSize:
		return fmt.Errorf("the peer's token has %d bytes, not %d", len(at.Token), tokenSize)
	}
	return nil
}
