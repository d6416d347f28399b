package transfer

import (
	"errors"

	"github.com/peerdirect/peerdirect/verbs"
)

// Disconnect ends a peer by destroying its queue pairs: what comes for them from
// then on is of nobody.
func (r *RC) Disconnect(id Peer) error {
	switch {
	case r.closed:
		return verbs.ErrClosed
	case int(id) >= len(r.peers) || r.peers[id].stage == peerGone:
		return noPeer(id)
	}
	return r.end(r.peers[id])
}

// end destroys a peer's queue pairs and finds out what became of its operations.
func (r *RC) end(p *rcPeer) error {
	p.stage, p.told = peerLeaving, true
	if p.err == nil {
		p.err = errLeft
	}
	for _, q := range p.queues {
		q.qp.Fail() // a device may refuse what it has done already
	}
	// What has completed is known to have been carried out; so look before the
	// library forgets it with the queue pair (mlx5 does).
	errs := []error{r.settle()}
	for _, q := range p.queues {
		q.batch.Close()
		q.recvs.Close()
		errs = append(errs, q.qp.Close())
	}
	errs = append(errs, p.link.Close(), p.meeting.Close())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	r.takeBack(p)
	p.stage = peerGone
	return nil
}

// settle polls what the device has to tell, behind what Poll has not given yet.
// It ends, for no receive is posted meanwhile.
func (r *RC) settle() error {
	if r.head == r.tail {
		r.head, r.tail = 0, 0
	}
	for {
		if r.tail == len(r.wcs) {
			r.wcs = append(r.wcs, make([]verbs.Completion, len(r.wcs))...)
		}
		n, err := r.cq.Poll(r.wcs[r.tail:])
		if r.marks.Waiting() {
			r.markCompletion(r.wcs[r.tail:][:n])
		}
		r.tail += n
		if n == 0 || err != nil {
			return err
		}
	}
}

// takeBack takes the completions of a peer whose queue pairs are gone out of
// those that were polled: what it sent is kept for the next Polls, and operations
// that have none are given back.
func (r *RC) takeBack(p *rcPeer) {
	kept := r.head
	for _, wc := range r.wcs[r.head:r.tail] {
		q := r.queues[wc.ID>>idQueue&idQueueMask]
		switch {
		case q.peer != p:
			r.wcs[kept] = wc
			kept++
		case wc.ID&idRecv == 0 && !p.drained:
			q.first++
			q.room++
			if wc.ID&idDouble != 0 && wc.Status == verbs.StatusSuccess {
				q.first++ // the write before it
			}
			if wc.ID&idHalf == 0 {
				r.refuse(p, wc.ID, wc.Status == verbs.StatusSuccess)
			}
		case wc.ID&idRecv != 0 && wc.Status == verbs.StatusSuccess && p.theirs != nil:
			p.back++
			r.late = append(r.late, rcLate{p, wc})
		}
	}
	r.tail = kept
	if p.drained {
		return
	}
	for _, q := range p.queues {
		r.giveBack(q, q.first, uint32(verbs.StatusFlushed))
	}
}

// rcLate is what a peer sent before this side disconnected it. Its buffer is not
// used again before its number is.
type rcLate struct {
	peer *rcPeer
	wc   verbs.Completion
}

// refuse has Poll give an operation back that the device has no completion of,
// or not any more.
func (r *RC) refuse(p *rcPeer, id uint64, done bool) {
	p.back++
	r.refused = append(r.refused, refusal{p, id & maxID, done})
}

// completion is what Poll gives of it.
func (x *refusal) completion() Completion {
	x.peer.back--
	if x.done {
		return Completion{Kind: Done, Peer: x.peer.id, ID: x.id}
	}
	return x.peer.failed(x.id)
}
