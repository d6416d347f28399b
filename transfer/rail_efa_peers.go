package transfer

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/wire"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// fabric is the one that an embedded device is on, 0 for the kernel's.
func (r *EFA) fabric() fabricID {
	if e := r.options.embedded; e != nil {
		return e.id
	}
	return fabricID{}
}

// Offer finds a number for one more peer: the endpoint is the same for all.
func (r *EFA) Offer() (Peer, []byte, error) {
	if r.closed {
		return 0, nil, verbs.ErrClosed
	}
	id, err := freeNumber(r.info.Device, len(r.peers), r.options.Peers, func(i int) bool {
		p := r.peers[i]
		return p.stage == peerGone && p.back == 0 && p.flight == 0
	})
	if err != nil {
		return 0, nil, err
	}
	b, err := (&offer{kind: offerEFA, device: r.info.Device, efa: efaOffer{
		address: r.ep.Address(), notice: r.notice.mr.Remote().At(0), fabric: r.fabric(),
	}}).bytes()
	if err != nil {
		return 0, nil, err
	}
	r.peers = setPeer(r.peers, id, &efaPeer{id: id})
	return id, b, nil
}

// Accept makes an address handle of the peer's endpoint, without which it could
// not write here.
func (r *EFA) Accept(id Peer, b []byte) error {
	if r.closed {
		return verbs.ErrClosed
	}
	if int(id) >= len(r.peers) {
		return noPeer(id)
	}
	p := r.peers[id]
	if err := p.stage.acceptable(id); err != nil {
		return err
	}
	if p.err != nil {
		return p.err // the endpoint has failed, for all peers
	}
	o, err := r.readOffer(b)
	if err != nil {
		return err
	}
	if o.efa.fabric != r.fabric() && !r.options.embedded.fabric.Reaches(wire.GID(o.efa.address.GID)) {
		return o.refuse(r.info.Device, &exchange.Error{Err: errors.ErrUnsupported, Detail: "its device is software in another process, and no link leads to it, or none any more: " +
			"link the two fabrics first (device.Fabric.Link), run the nodes in one process, or on devices of the kernel"})
	}
	ah, err := r.dev.CreateAH(o.efa.address.GID)
	if err != nil {
		return err
	}
	// Operations name their peer by the handle's number: those of a former peer
	// that the device has not looked at yet would go to this one.
	for _, other := range r.peers {
		if other.stage == peerGone && other.flight > 0 && other.ah.Number() == ah.Number() {
			return errors.Join(fmt.Errorf("%s gives peer %d the handle %d, by which operations to the former peer %d are still in flight: poll until they have come back, then accept again: %w",
				r.info.Device, id, ah.Number(), other.id, efa.ErrBusy), ah.Close())
		}
	}
	a := o.efa.address
	p.ah, p.to, p.notice = ah, ah.To(a.QPN, a.QKey), o.efa.notice
	p.name = efaName(ah.Number(), a.QPN)
	r.byName[p.name] = p
	p.stage = peerOpen
	return nil
}

// readOffer checks a peer's offer by itself, and against those that were
// accepted before.
func (r *EFA) readOffer(b []byte) (*offer, error) {
	o, err := readOffer(b, offerEFA, r.info.Device)
	if err != nil {
		return nil, err
	}
	a, kernel := o.efa.address, fabricID{}
	switch {
	case a.GID.IsZero():
		err = nonsense("its endpoint has no GID")
	case exchange.CheckGID(verbs.GID(a.GID)) != nil:
		err = nonsense("%v", exchange.CheckGID(verbs.GID(a.GID)))
	case (o.efa.fabric == kernel) != (r.fabric() == kernel):
		err = &exchange.Error{Err: exchange.ErrMismatch, Detail: "only one side's EFA device is embedded: choose devices of one kind"}
	case a.GID == r.ep.Address().GID && a.QPN == r.ep.QPN():
		err = nonsense("it is this side's own")
	}
	for _, p := range r.peers {
		if err == nil && p.stage == peerOpen && p.to.AH().GID() == a.GID && p.to.QPN() == a.QPN {
			err = nonsense("%v is connected already, as peer %d", a, p.id)
		}
	}
	if err != nil {
		return nil, o.refuse(r.info.Device, err)
	}
	return o, nil
}

// efaName is what a receive's completion tells of who sent.
func efaName(ah, qpn uint16) uint32 { return uint32(ah)<<16 | uint32(qpn) }

// Disconnect ends a peer by destroying its address handle. The device's answer
// to what comes from the peer is "unknown peer" from then on, also in the middle
// of a write; efa/device does so at the packet, and its documentation does not
// say where hardware looks. Operations to the peer end by themselves, most as
// "invalid address handle". A SEND needs no handle: it takes a receive, and is
// dropped by Poll as a stranger's.
func (r *EFA) Disconnect(id Peer) error {
	switch {
	case r.closed:
		return verbs.ErrClosed
	case int(id) >= len(r.peers) || r.peers[id].stage == peerGone:
		return noPeer(id)
	}
	p := r.peers[id]
	p.stage = peerLeaving
	if p.err == nil {
		p.err = errLeft
	} else if !p.told {
		r.lost--
	}
	p.told = true
	var shared []Peer
	if p.ah != nil {
		if err := p.ah.Close(); err != nil {
			return err
		}
		for _, other := range r.peers {
			if other.stage == peerOpen && other.ah.GID() == p.ah.GID() {
				shared = append(shared, other.id)
			}
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	r.forget(p)
	p.stage = peerGone
	if shared != nil {
		return &NotFencedError{Device: p.ah.GID().String(), Peers: shared}
	}
	return nil
}

// settle polls what the device has to tell, behind what Poll has not given yet.
// It ends, for no receive is posted meanwhile.
func (r *EFA) settle() error {
	if r.head == r.tail {
		r.head, r.tail = 0, 0
	}
	for {
		if r.tail == len(r.got) {
			r.got = append(r.got, make([]efa.Completion, len(r.got))...)
		}
		n, err := r.ep.Poll(r.got[r.tail:])
		r.marked(r.got[r.tail:][:n])
		r.tail += n
		if n == 0 || err != nil {
			return err
		}
	}
}

// forget keeps what a peer sent and Poll has not given for the next Polls, by the
// peer's number, and gives its name up: who gets that next is another, and what it
// sends from now on is a stranger's.
func (r *EFA) forget(p *efaPeer) {
	if r.byName[p.name] != p {
		return // it was not connected
	}
	kept := r.head
	for i := r.head; i < r.tail; i++ {
		c := &r.got[i]
		if c.ID&efaIDRecv != 0 && c.Status == efa.StatusOK && efaName(c.AH, c.SrcQPN) == p.name {
			p.back++
			r.late = append(r.late, efaLate{p, *c})
			continue
		}
		r.got[kept] = *c
		kept++
	}
	r.tail = kept
	delete(r.byName, p.name)
}

// efaLate is what a peer sent before this side disconnected it.
type efaLate struct {
	peer *efaPeer
	c    efa.Completion
}

// refuse has Poll give an operation back that the device did not take.
func (r *EFA) refuse(p *efaPeer, id uint64) {
	p.back++
	r.refused = append(r.refused, efaRefusal{p, id})
}
