package exchange

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

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

// sameDevice tells whether the kernel chose the device that the queue pairs are
// on: two devices on one interface share its addresses.
func sameDevice(dev *verbs.Device, chosen rdmacm.Device, addr netip.Addr) error {
	want := dev.Info().Index
	if want < 0 || chosen.Index < 0 || want == chosen.Index {
		return nil
	}
	return &Error{Err: ErrMismatch, Detail: fmt.Sprintf(
		"the RDMA CM takes address %v to be of RDMA device %d, but the queue pairs are on %s, which is %d: keep one RDMA device an interface, see: rdma link",
		addr, chosen.Index, dev.Name(), want)}
}

// addrOf is the IP address in a net.Addr, if there is one.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// address is an address of the device's interface: the one nearest to another
// address, and an IPv4 one rather than IPv6 where there is none.
func (o Options) address(dev *verbs.Device, near netip.Addr) (netip.Addr, error) {
	if o.Address.IsValid() {
		return o.Address, nil
	}
	prefixes, err := interfacePrefixes(dev)
	if err != nil {
		return netip.Addr{}, err
	}
	best, ok := nearest(prefixes, near)
	if !ok {
		return netip.Addr{}, &Error{Err: ErrNoDevice, Detail: fmt.Sprintf(
			"the network interface of %s has no IP address, which the RDMA CM needs; give it one with: ip addr add", dev.Name())}
	}
	return best, nil
}

// nearest chooses by, in this order: the address itself, its subnet, its
// family, IPv4, not link-local.
func nearest(prefixes []netip.Prefix, near netip.Addr) (best netip.Addr, ok bool) {
	most := -1
	for _, p := range prefixes {
		a := p.Addr()
		score := 0
		for i, yes := range []bool{
			!a.IsLinkLocalUnicast(),
			a.Is4(),
			near.IsValid() && a.Is4() == near.Is4(),
			near.IsValid() && p.Contains(near),
			a == near,
		} {
			if yes {
				score |= 1 << i
			}
		}
		if score > most {
			best, most = a, score
		}
	}
	return best, most >= 0
}

// interfacePrefixes are the addresses of the network interfaces that a device
// sits on. The kernel names the interface with the GID; where it does not, the
// GID of an iWARP port begins with the interface's hardware address.
func interfacePrefixes(dev *verbs.Device) ([]netip.Prefix, error) {
	gids, err := dev.GIDs(1)
	if err != nil {
		return nil, err
	}
	for port := 2; err == nil; port++ { // ends at the port that is not there
		var more []verbs.GIDEntry
		more, err = dev.GIDs(port)
		gids = append(gids, more...)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, ifi := range interfaces {
		if ifi.Flags&net.FlagUp == 0 || !slices.ContainsFunc(gids, func(g verbs.GIDEntry) bool { return sitsOn(g, ifi) }) {
			continue
		}
		addrs, err := ifi.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if p, ok := prefixOf(a); ok {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

func sitsOn(g verbs.GIDEntry, ifi net.Interface) bool {
	if g.IfIndex != 0 {
		return g.IfIndex == ifi.Index
	}
	return len(ifi.HardwareAddr) == 6 && bytes.Equal(g.GID[:6], ifi.HardwareAddr)
}

// prefixOf leaves IPv6 link-local addresses out: they mean nothing without an
// interface, and the peer's interfaces are not ours.
func prefixOf(a net.Addr) (netip.Prefix, bool) {
	n, ok := a.(*net.IPNet)
	if !ok {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	ip = ip.Unmap()
	if !ok || ip.Is6() && ip.IsLinkLocalUnicast() {
		return netip.Prefix{}, false
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(ip, ones), true
}
