package exchange

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/peerdirect/peerdirect/verbs"
)

// MaxQueuePairs is how many queue pairs one ConnectRC connects.
const MaxQueuePairs = 4096

// Options of ConnectRC. The zero value is right.
type Options struct {
	// Connect tunes the queue pairs. On iWARP only MaxRead counts.
	Connect verbs.ConnectOptions
	// Address is the IP address of the device's network interface that an iWARP
	// connection is made from or waited for on; default: found by the device.
	Address netip.Addr
}

// Offer is one side's half of ConnectRC: all its queue pairs, in order. Who has
// another way of telling it to the peer makes it, checks the peer's against it,
// and connects the queue pairs with the endpoints.
type Offer struct {
	Transport string           `json:"transport"`
	Device    string           `json:"device"`
	Endpoints []verbs.Endpoint `json:"endpoints"`
}

// ConnectRC connects the queue pairs of both sides, the first with the first and
// so on, and returns when both know that all are ready to send. They must be in
// INIT, as CreateRC leaves them, and on one device.
//
// InfiniBand and RoCE queue pairs are moved by ibv_modify_qp with the endpoints
// that the peer told. iWARP ones are connected through the RDMA CM: the side
// that accepted listens on the address of its device's interface, tells where,
// and the other dials once for each. On iWARP the dialling side should be the
// first to send on a queue pair: the protocol asks for it, though siw does not.
//
// The Link holds what must live as long as the queue pairs; close it after
// them. After an error the conversation is over: the peer has been told why,
// and fails with the same words. The queue pairs are of no more use then.
func ConnectRC(ctx context.Context, c *Conn, qps []*verbs.RC, o Options) (*Link, error) {
	link, err := connectRC(ctx, c, qps, o)
	if err != nil {
		link.Close()
		return nil, c.Fail(err)
	}
	return link, nil
}

func connectRC(ctx context.Context, c *Conn, qps []*verbs.RC, o Options) (*Link, error) {
	link := new(Link)
	own, err := MakeOffer(qps)
	if err != nil {
		return link, c.error("connect with", err)
	}
	if err := c.Send(ctx, typeEndpoints, own); err != nil {
		return link, err
	}
	var peer Offer
	if err := c.Receive(ctx, typeEndpoints, &peer); err != nil {
		return link, err
	}
	if err := own.Match(peer); err != nil {
		return link, c.error("connect with", err)
	}
	if len(qps) > 0 && qps[0].Device().Transport() == verbs.TransportIWARP {
		err = link.connectCM(ctx, c, qps, o)
	} else {
		for i, qp := range qps {
			if err = ctx.Err(); err != nil {
				break
			}
			if err = qp.Connect(peer.Endpoints[i], o.Connect); err != nil {
				break
			}
		}
	}
	if err != nil {
		if over := c.Err(); over != nil {
			err = over // the peer's reason is the better one
		}
		return link, c.error("connect with", err)
	}
	return link, c.Barrier(ctx)
}

// MakeOffer describes queue pairs of one device, which must be in INIT.
func MakeOffer(qps []*verbs.RC) (Offer, error) {
	if len(qps) > MaxQueuePairs {
		return Offer{}, &Error{Err: ErrUsage, Detail: fmt.Sprintf("%d queue pairs, at most %d at once", len(qps), MaxQueuePairs)}
	}
	own := Offer{Endpoints: make([]verbs.Endpoint, 0, len(qps))}
	for _, qp := range qps {
		dev := qp.Device()
		if len(own.Endpoints) > 0 && dev != qps[0].Device() {
			return Offer{}, &Error{Err: ErrUsage, Detail: fmt.Sprintf("queue pairs of %s and of %s: connect each device's apart", own.Device, dev.Name())}
		}
		own.Device, own.Transport = dev.Name(), dev.Transport().String()
		e, err := qp.Endpoint()
		if err != nil {
			return Offer{}, err
		}
		own.Endpoints = append(own.Endpoints, e)
	}
	return own, nil
}

// Match checks what the peer offers: on its own, and against this side's. The
// error is ErrMismatch or, for what no peer could mean, ErrProtocol.
func (own Offer) Match(peer Offer) error {
	mismatch := func(format string, args ...any) error {
		return &Error{Err: ErrMismatch, Detail: fmt.Sprintf(format, args...)}
	}
	if own.Transport != peer.Transport {
		return mismatch("the peer's %s speaks %s and this side's %s %s: choose devices of one transport",
			quoted(peer.Device), quoted(peer.Transport), own.Device, own.Transport)
	}
	if len(own.Endpoints) != len(peer.Endpoints) {
		return mismatch("the peer has %d queue pairs and this side %d: ask for the same number on both", len(peer.Endpoints), len(own.Endpoints))
	}
	iwarp := own.Transport == verbs.TransportIWARP.String()
	seen := make(map[uint32]bool, len(peer.Endpoints))
	for i, e := range peer.Endpoints {
		if err := checkEndpoint(e, iwarp); err != nil {
			return &Error{Err: ErrProtocol, Detail: fmt.Sprintf("the peer's queue pair %d: %v", i, err)}
		}
		if seen[e.QPN] {
			return &Error{Err: ErrProtocol, Detail: fmt.Sprintf("the peer's queue pair %d: number %#x appears twice", i, e.QPN)}
		}
		seen[e.QPN] = true
		if e.Link != own.Endpoints[i].Link {
			return mismatch("the peer's port of %s is %s and this side's of %s %s: choose ports of one link layer",
				quoted(peer.Device), quoted(e.Link), own.Device, own.Endpoints[i].Link)
		}
	}
	return nil
}

// checkEndpoint tells whether an endpoint could be one at all.
func checkEndpoint(e verbs.Endpoint, iwarp bool) error {
	const bits24 = 1 << 24
	if e.QPN == 0 || e.QPN >= bits24 {
		return fmt.Errorf("number %#x is none that a queue pair has", e.QPN)
	}
	if iwarp {
		return nil // the RDMA CM brings the rest
	}
	if e.PSN >= bits24 {
		return fmt.Errorf("packet number %#x has more than 24 bits", e.PSN)
	}
	if _, ok := verbs.MTUOf(e.MTU); !ok {
		return fmt.Errorf("a path MTU of %d bytes does not exist", e.MTU)
	}
	const firstMulticastLID = 0xc000
	if e.LID >= firstMulticastLID {
		return fmt.Errorf("LID %#x is a multicast one", e.LID)
	}
	switch {
	case e.GID.IsZero() && e.Link == verbs.LinkInfiniBand.String() && e.LID != 0:
		return nil // within an InfiniBand subnet the LID is enough
	case e.GID.IsZero():
		return fmt.Errorf("no GID: give its network interface an address")
	}
	return CheckGID(e.GID)
}

// CheckGID tells whether a peer's GID could be that of a port at all.
func CheckGID(gid verbs.GID) error {
	// A RoCE GID is an IP address, an InfiniBand or EFA one looks like one.
	if a := gid.Addr(); a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a == broadcast {
		return fmt.Errorf("GID %v is not the address of a port", gid)
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
