package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

// Meeting connects iWARP queue pairs where no Conn is: each side makes one, tells the
// other its Offer by whatever way the two have, and both call Connect.
type Meeting struct {
	qps      []*verbs.RC
	ch       *rdmacm.Channel
	listener *rdmacm.Listener
	at       cmOffer
}

// Meet begins to wait for the peer, on an address of the device's interface. The
// queue pairs must be in INIT and on one device.
func Meet(ctx context.Context, qps []*verbs.RC) (*Meeting, error) {
	ch, err := rdmacm.Open()
	if err != nil {
		return nil, err
	}
	m := &Meeting{qps: qps, ch: ch}
	if m.listener, m.at, err = listenCM(ctx, ch, qps[0].Device(), netip.Addr{}, Options{}); err != nil {
		ch.Close()
		return nil, err
	}
	return m, nil
}

// Offer is what the peer has to know, of MeetingSize bytes.
func (m *Meeting) Offer() []byte {
	addr := m.at.Addr.Addr().As16()
	b := binary.BigEndian.AppendUint16(addr[:], m.at.Addr.Port())
	return append(b, m.at.Token...)
}

// MeetingSize is how many bytes an Offer of a Meeting has.
const MeetingSize = 16 + 2 + tokenSize

// readMeeting reads an offer and checks it by itself.
func readMeeting(b []byte) (at cmOffer, err error) {
	if len(b) != MeetingSize {
		return at, &Error{Err: ErrProtocol, Detail: "where the peer's RDMA CM waits takes other than MeetingSize bytes"}
	}
	addr := netip.AddrFrom16([16]byte(b[:16])).Unmap()
	at = cmOffer{Addr: netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[16:])), Token: b[18:]}
	if err := at.check(); err != nil {
		return at, &Error{Err: ErrProtocol, Detail: err.Error()}
	}
	return at, nil
}

// CheckMeeting tells what is wrong with an offer of a Meeting.
func CheckMeeting(b []byte) error {
	_, err := readMeeting(b)
	return err
}

// Connect connects the queue pairs with the peer's, which must call Connect at the
// same time: it waits for that. The side with the lower token dials. The Meeting is
// over then. The Link is to be closed after the queue pairs.
func (m *Meeting) Connect(ctx context.Context, theirs []byte, o verbs.ConnectOptions) (*Link, error) {
	at, err := readMeeting(theirs)
	if err != nil {
		return nil, err
	}
	link, options := new(Link), Options{Connect: o}
	switch bytes.Compare(m.at.Token, at.Token) {
	case 0:
		return nil, &Error{Err: ErrProtocol, Detail: "the peer's token is this side's own"}
	case -1:
		err = link.dial(ctx, m.ch, at, m.qps, options)
	case 1:
		err = link.take(ctx, m.listener, m.at, m.qps, options)
	}
	m.Close()
	return link, err
}

// Close ends the waiting. It may be called on nil, and again.
func (m *Meeting) Close() error {
	if m == nil || m.ch == nil {
		return nil
	}
	err := m.listener.Close()
	if e := m.ch.Close(); err == nil {
		err = e
	}
	m.ch = nil
	return err
}
