package transfer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// mostReads bounds the reads in flight of a queue pair, which devices keep
// memory for; they have 16 or more.
const mostReads = 16

// patience is how long a peer may leave packets unanswered: about 4 s. Seven
// retries would be one more, and without end on rxe, which reads the number as
// it is read for receivers that are not ready.
var patience = verbs.ConnectOptions{Timeout: 17, Retry: 6}

// meetTime is how long Accept waits for the other side's on iWARP.
const meetTime = 10 * time.Second

// Offer makes the queue pairs for one more peer.
func (r *RC) Offer() (_ Peer, _ []byte, err error) {
	if r.closed {
		return 0, nil, verbs.ErrClosed
	}
	p, err := r.newPeer()
	if err != nil {
		return 0, nil, err
	}
	if err = r.prepare(p); err == nil {
		p.own, err = exchange.MakeOffer(p.pairs())
	}
	if err == nil && r.iwarp {
		ctx, cancel := context.WithTimeout(context.Background(), meetTime)
		defer cancel()
		p.meeting, err = exchange.Meet(ctx, p.pairs())
	}
	var b []byte
	if err == nil {
		own := rcOffer{Offer: p.own, reads: r.reads}
		if r.iwarp {
			p.met = p.meeting.Offer()
			own.meeting = p.met
		}
		b, err = (&offer{kind: offerRC, device: r.info.Device, rc: own}).bytes()
	}
	if err != nil {
		return 0, nil, errors.Join(err, r.end(p))
	}
	r.peers = setPeer(r.peers, p.id, p)
	return p.id, b, nil
}

// newPeer finds a number.
func (r *RC) newPeer() (*rcPeer, error) {
	id, err := freeNumber(r.info.Device, len(r.peers), r.options.Peers, func(i int) bool {
		return r.peers[i].stage == peerGone && r.peers[i].back == 0
	})
	return &rcPeer{id: id}, err
}

// prepare makes a peer's queue pairs and posts its receives. The numbers in the
// requests' IDs are those that a former peer of the same number had: nothing of
// it is left.
func (r *RC) prepare(p *rcPeer) (err error) {
	o := &r.options
	for i := range o.Queues {
		recvs := 1
		if i == 0 {
			recvs = o.RecvDepth
		}
		index := int(p.id)*o.Queues + i
		q := &rcQueue{peer: p, index: uint64(index) << idQueue}
		q.qp, err = r.pd.CreateRC(verbs.QPOptions{
			CQ: r.cq, MaxSend: o.SendDepth, MaxRecv: recvs, Port: o.Port, GID: r.gid, Access: r.access(),
		})
		if err != nil {
			return err
		}
		// What the device rounded up would not fit the completion queue.
		q.room, q.ring = o.SendDepth, make([]uint64, o.SendDepth)
		q.batch, q.recvs = q.qp.Batch(), q.qp.RecvBatch()
		for len(r.queues) <= index {
			r.queues = append(r.queues, nil)
		}
		r.queues[index], p.queues = q, append(p.queues, q)
	}
	for i := range o.RecvDepth {
		r.receive(p.queues[0], uint64(int(p.id)*o.RecvDepth+i))
	}
	return p.queues[0].recvs.Post()
}

func (p *rcPeer) pairs() (qps []*verbs.RC) {
	for _, q := range p.queues {
		qps = append(qps, q.qp)
	}
	return qps
}

// Accept connects an offered peer's queue pairs.
func (r *RC) Accept(id Peer, b []byte) error {
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
	o, err := r.readOffer(p, b)
	if err != nil {
		return err
	}
	connect := patience
	connect.MaxRead = min(r.reads, o.rc.reads)
	p.stage = peerBroken
	if r.iwarp {
		ctx, cancel := context.WithTimeout(context.Background(), meetTime)
		defer cancel()
		if p.link, err = p.meeting.Connect(ctx, o.rc.meeting, connect); err != nil {
			return err
		}
	}
	for i, q := range p.queues {
		if r.iwarp {
			break // it has done that
		}
		if err := q.qp.Connect(o.rc.Endpoints[i], connect); err != nil {
			return err
		}
	}
	p.theirs, p.metBy = o.rc.Endpoints, o.rc.meeting
	r.opened(p)
	return nil
}

// opened notes that a peer is connected.
func (r *RC) opened(p *rcPeer) {
	p.stage, p.told = peerOpen, false
	if a, err := p.queues[0].qp.Query(verbs.AttrPathMTU); err == nil && a.PathMTU.Bytes() != 0 {
		r.info.MTU = a.PathMTU.Bytes()
	}
}

// readOffer checks a peer's offer against this side's, and against those that
// were accepted before.
func (r *RC) readOffer(p *rcPeer, b []byte) (*offer, error) {
	o, err := readOffer(b, offerRC, r.info.Device)
	if err != nil {
		return nil, err
	}
	err = p.own.Match(o.rc.Offer)
	if err == nil && r.iwarp {
		// Its endpoints say nothing of the machine.
		return o, r.readMeeting(p, o)
	}
	for i := 0; err == nil && i < len(o.rc.Endpoints); i++ {
		e := o.rc.Endpoints[i]
		if samePair(e, p.own.Endpoints) {
			err = nonsense("it is this side's own")
		}
		for _, other := range r.peers {
			if other.stage == peerOpen && samePair(e, other.theirs) {
				err = nonsense("its queue pair %#x is connected already, as peer %d", e.QPN, other.id)
			}
		}
	}
	if err != nil {
		return nil, o.refuse(r.info.Device, err)
	}
	return o, nil
}

// readMeeting is readOffer's part for iWARP.
func (r *RC) readMeeting(p *rcPeer, o *offer) error {
	err := exchange.CheckMeeting(o.rc.meeting)
	if err == nil && bytes.Equal(o.rc.meeting, p.met) {
		err = nonsense("it is this side's own")
	}
	for _, other := range r.peers {
		if err == nil && other.stage == peerOpen && bytes.Equal(other.metBy, o.rc.meeting) {
			err = nonsense("its queue pair is connected already, as peer %d", other.id)
		}
	}
	if err != nil {
		return o.refuse(r.info.Device, err)
	}
	return nil
}

func samePair(e verbs.Endpoint, of []verbs.Endpoint) bool {
	return slices.ContainsFunc(of, func(x verbs.Endpoint) bool { return x.QPN == e.QPN && x.GID == e.GID && x.LID == e.LID })
}
