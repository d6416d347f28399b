package transfer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// ofNIC names the NIC that an error is of.
func (j *Joined) ofNIC(i int, err error) error {
	if err == nil || len(j.members) == 1 {
		return err
	}
	return fmt.Errorf("NIC %d of %d: %w", i+1, len(j.members), err)
}

// newPeer finds a number for one more peer. How many there may be is the
// members' to say.
func (j *Joined) newPeer() (*joinedPeer, error) {
	if j.closed {
		return nil, verbs.ErrClosed
	}
	known := len(j.peers)
	id, err := freeNumber(j.Info().Device, known, math.MaxInt, func(i int) bool {
		p := j.peers[i]
		for _, n := range p.flight {
			if n > 0 {
				return false
			}
		}
		waits := func(c Completion) bool { return c.Peer == p.id }
		return p.stage == peerGone && p.back == 0 && !slices.ContainsFunc(j.got[j.head:j.tail], waits)
	})
	if err != nil {
		return nil, err
	}
	p := &joinedPeer{id: id, flight: make([]int, len(j.members))}
	j.peers = setPeer(j.peers, id, p)
	if int(id) == known {
		for _, m := range j.members {
			m.grow()
		}
	}
	return p, nil
}

// name notes how a member calls a peer.
func (j *Joined) name(p *joinedPeer, member int, name Peer) {
	m := j.members[member]
	p.of, p.left = append(p.of, name), append(p.left, false)
	for len(m.peers) <= int(name) {
		m.peers = append(m.peers, nil)
	}
	m.peers[name] = p
}

// grow makes room in the queue for another peer's operations.
func (m *member) grow() {
	bigger := make([]Op, len(m.queue)+m.depth)
	n := 0
	for ; m.first != m.last; m.first++ {
		bigger[n] = m.queue[m.first%len(m.queue)]
		n++
	}
	m.queue, m.first, m.last = bigger, 0, n
}

// Offer holds the members' offers, in their order.
func (j *Joined) Offer() (Peer, []byte, error) {
	p, err := j.newPeer()
	if err != nil {
		return 0, nil, err
	}
	o := offer{kind: offerJoined, device: j.Info().Device}
	for i, m := range j.members {
		name, b, err := m.rail.Offer()
		if err != nil {
			return 0, nil, errors.Join(j.ofNIC(i, err), j.end(p))
		}
		j.name(p, i, name)
		o.joined = append(o.joined, b)
	}
	b, err := o.bytes()
	if err != nil {
		return 0, nil, errors.Join(err, j.end(p))
	}
	return p.id, b, nil
}

// Accept has each member accept the peer's of the same number.
func (j *Joined) Accept(id Peer, b []byte) error {
	if j.closed {
		return verbs.ErrClosed
	}
	if int(id) >= len(j.peers) {
		return noPeer(id)
	}
	p := j.peers[id]
	if err := p.stage.acceptable(id); err != nil {
		return err
	}
	device := j.Info().Device
	o, err := readOffer(b, offerJoined, device)
	if err != nil {
		return err
	}
	if len(o.joined) != len(j.members) {
		return o.refuse(device, &exchange.Error{Err: exchange.ErrMismatch, Detail: fmt.Sprintf(
			"it is of %d devices, and this side has %d: choose as many on both", len(o.joined), len(j.members))})
	}
	for i, m := range j.members {
		if err := m.rail.Accept(p.of[i], o.joined[i]); err != nil {
			if i > 0 {
				p.stage = peerBroken
			}
			return j.ofNIC(i, err)
		}
	}
	p.stage = peerOpen
	return nil
}

// Disconnect ends a peer on every member.
func (j *Joined) Disconnect(id Peer) error {
	switch {
	case j.closed:
		return verbs.ErrClosed
	case int(id) >= len(j.peers) || j.peers[id].stage == peerGone:
		return noPeer(id)
	}
	return j.end(j.peers[id])
}

func (j *Joined) end(p *joinedPeer) error {
	p.stage, p.told = peerLeaving, true
	p.lose(errLeft)
	for _, m := range j.members {
		j.withdraw(m, p)
	}
	// Only its loss is told no more.
	kept := j.head
	for _, c := range j.got[j.head:j.tail] {
		if c.Peer != p.id || c.Kind != Lost {
			j.got[kept] = c
			kept++
		}
	}
	j.tail = kept
	var errs []error
	for i, name := range p.of {
		if p.left[i] {
			continue
		}
		err := j.members[i].rail.Disconnect(name)
		p.left[i] = err == nil || errors.Is(err, ErrNotFenced)
		if _, ok := err.(*NotFencedError); ok {
			err = ErrNotFenced // the member's numbers are not this rail's
		}
		errs = append(errs, j.ofNIC(i, err))
	}
	err := errors.Join(errs...)
	for i := range p.of {
		if !p.left[i] {
			return err
		}
	}
	p.stage = peerGone
	return err
}

// withdraw takes a peer's operations out of a member's queue.
func (j *Joined) withdraw(m *member, p *joinedPeer) {
	kept := m.first
	last := m.last
	for i := m.first; i != last; i++ {
		op := m.queue[i%len(m.queue)]
		if m.peers[op.Peer] != p {
			m.queue[kept%len(m.queue)] = op
			kept++
			continue
		}
		j.refuse(p, op.ID)
		for k, other := range j.members {
			if other == m {
				p.flight[k]--
			}
		}
	}
	m.last = kept
}
