package transfer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// MaxOffer is the most bytes that an offer has, see [Rail].
const MaxOffer = 4096

// peerStage is how far a peer is.
type peerStage uint8

const (
	peerOffered peerStage = iota // has a number, and waits for Accept
	peerBroken                   // Accept failed half way
	peerOpen
	peerLeaving // Disconnect failed, and is called again
	peerGone    // its number is free when nothing of it is left
)

// errLeft is the end of a peer that this side has disconnected.
var errLeft = errors.New("disconnected")

// noPeer says that there is no peer of that number to post to.
func noPeer(p Peer) error { return fmt.Errorf("no peer %d is connected on this rail", p) }

// freeNumber finds a number for a new peer: one that is free again, or the next.
func freeNumber(device string, known, most int, free func(i int) bool) (Peer, error) {
	for i := range known {
		if free(i) {
			return Peer(i), nil
		}
	}
	if known < most {
		return Peer(known), nil
	}
	return 0, fmt.Errorf("the rail on %s was opened for %d peers: disconnect one, and poll what is left of it", device, most)
}

// setPeer puts a peer at its number.
func setPeer[P any](peers []P, at Peer, p P) []P {
	if int(at) == len(peers) {
		return append(peers, p)
	}
	peers[at] = p
	return peers
}

// refuse names both sides of an offer that is not accepted.
func (o *offer) refuse(device string, err error) error {
	e := &exchange.Error{Op: "accept on " + device + " the offer of", Peer: "a rail", Err: err}
	if o.device != "" {
		e.Peer = o.device
	}
	var inner *exchange.Error
	if errors.As(err, &inner) {
		e.Err, e.Detail = inner.Err, inner.Detail
	}
	return e
}

// offered gives what may be accepted in a peer's place, or why nothing may.
func (s peerStage) acceptable(p Peer) error {
	switch s {
	case peerOffered:
		return nil
	case peerOpen:
		return fmt.Errorf("peer %d is connected already", p)
	case peerBroken:
		return fmt.Errorf("peer %d failed to connect: disconnect it, and offer again", p)
	}
	return noPeer(p)
}

// readOffer reads an offer for a rail of some kind on a device.
func readOffer(b []byte, want offerKind, device string) (*offer, error) {
	o, err := parseOffer(b)
	if err == nil && o.kind != want {
		err = &exchange.Error{Err: exchange.ErrMismatch, Detail: fmt.Sprintf(
			"the peer's rail is %v and this one %v, which do not reach each other: choose devices of one kind", o.kind, want)}
	}
	if err != nil {
		return nil, o.refuse(device, err)
	}
	return o, nil
}

func nonsense(format string, args ...any) error {
	return &exchange.Error{Err: exchange.ErrProtocol, Detail: fmt.Sprintf(format, args...)}
}

// offerName tells whether an offer may name a device, transport or link layer so.
func offerName(s string) bool {
	return s != "" && len(s) <= maxOfferName && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c <= ' ' || c > '~' })
}

const maxOfferName = 63

func (k offerKind) String() string {
	switch k {
	case offerRC:
		return "reliable connections"
	case offerEFA:
		return "EFA"
	case offerJoined:
		return "several devices"
	case offerOther:
		return "one of a test"
	}
	return "of unknown kind " + strconv.Itoa(int(k))
}
