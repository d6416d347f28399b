package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
)

// drain gives back what lost peers have in flight when the device has nothing
// more to tell. Devices flush what is posted; but siw forgets what was posted
// after its queue pair fell, because a program cannot know of that in time.
func (r *RC) drain() {
	for _, p := range r.peers {
		if p.err == nil || p.drained {
			continue
		}
		p.drained = true
		for _, q := range p.queues {
			r.giveBack(q, q.first, uint32(verbs.StatusFlushed))
		}
	}
}

// Poll gives completions without waiting.
func (r *RC) Poll(out []Completion) (int, error) {
	if r.closed {
		return 0, verbs.ErrClosed
	}
	r.repost()
	n := 0
	for n < len(out) {
		if r.head == r.tail {
			if err := r.poll(); err != nil {
				return n, err
			}
			if r.head == r.tail {
				break
			}
		}
		if r.completion(&r.wcs[r.head], &out[n]) {
			n++
		}
		r.head++
	}
	for n < len(out) && len(r.late) > 0 {
		x := r.late[0]
		r.late = append(r.late[:0], r.late[1:]...)
		x.peer.back--
		r.delivered(x.peer, &x.wc, &out[n])
		n++
	}
	for n < len(out) && len(r.refused) > 0 {
		last := len(r.refused) - 1
		x := r.refused[last]
		r.refused = r.refused[:last]
		out[n] = x.completion()
		n++
	}
	return n, nil
}

func (r *RC) poll() error {
	n, err := r.cq.Poll(r.wcs)
	r.head, r.tail = 0, n
	if n > 0 && r.marks.Waiting() {
		r.markCompletion(r.wcs[:n])
	}
	if n == 0 && r.iwarp {
		r.drain()
	}
	return err
}

// markCompletion looks for the completion of the marked operation.
func (r *RC) markCompletion(wcs []verbs.Completion) {
	for i := range wcs {
		wc := &wcs[i]
		if wc.ID&(idMarked|idRecv) == idMarked && !r.queues[wc.ID>>idQueue&idQueueMask].peer.drained {
			r.marks.Complete(uint32(wc.Status))
		}
	}
}

// repost gives the buffers of the messages that were polled before back to the
// device.
func (r *RC) repost() {
	for _, p := range r.peers {
		if p.err != nil || p.queues[0].recvs.Len() == 0 {
			continue
		}
		if err := p.queues[0].recvs.Post(); err != nil {
			r.lose(p, &LostError{Device: r.info.Device, Err: err})
		}
	}
}

// completion turns a work completion into one of the rail's, false if it is
// nothing to tell.
func (r *RC) completion(wc *verbs.Completion, out *Completion) bool {
	q := r.queues[wc.ID>>idQueue&idQueueMask]
	p := q.peer
	if wc.ID&idRecv != 0 {
		return r.received(q, wc, out)
	}
	if p.drained {
		return false // it was given back
	}
	q.room++
	q.first++
	if wc.ID&idDouble != 0 && wc.Status == verbs.StatusSuccess {
		q.room++ // the write before it, which does not complete by itself
		q.first++
	}
	if wc.Status == verbs.StatusSuccess {
		*out = Completion{Kind: Done, Peer: p.id, ID: wc.ID & maxID}
		return true
	}
	r.lose(p, r.cause(p, wc))
	if wc.ID&idHalf != 0 {
		return false // the SEND behind it brings the operation back
	}
	*out = p.failed(wc.ID & maxID)
	return true
}

// received turns the completion of a receive into a message or a notice.
func (r *RC) received(q *rcQueue, wc *verbs.Completion, out *Completion) bool {
	p := q.peer
	if wc.Status != verbs.StatusSuccess {
		r.lose(p, r.cause(p, wc))
		if p.told {
			return false
		}
		p.told = true
		*out = Completion{Kind: Lost, Peer: p.id, Err: p.err}
		return true
	}
	buffer := wc.ID & maxID
	if p.err == nil {
		r.receive(q, buffer)
	}
	if p.stage != peerOpen {
		return false
	}
	r.delivered(p, wc, out)
	return true
}

// delivered is what a peer sent.
func (r *RC) delivered(p *rcPeer, wc *verbs.Completion, out *Completion) {
	if imm, ok := wc.Imm(); ok {
		*out = Completion{Kind: Notice, Peer: p.id, Imm: imm}
		return
	}
	data := r.inbox.buf.Bytes()[(wc.ID&maxID)*MessageSize:][:wc.Bytes]
	if imm, ok := getNotice(data); ok {
		*out = Completion{Kind: Notice, Peer: p.id, Imm: imm}
		return
	}
	*out = Completion{Kind: Message, Peer: p.id, Data: data}
}

// cause is the error of a completion. A flush is not a cause: the queue pair
// was in error already, because the peer ended the connection.
func (r *RC) cause(p *rcPeer, wc *verbs.Completion) error {
	if p.err != nil {
		return p.err
	}
	if wc.Status == verbs.StatusFlushed {
		return &LostError{Device: r.info.Device, Err: errors.New("the connection ended: the peer or the network is gone")}
	}
	return &LostError{Device: r.info.Device, Request: wrongRequest(wc.Status), Err: &verbs.CompletionError{
		ID: wc.ID & maxID, Status: wc.Status, QPN: wc.QPN, VendorErr: wc.VendorErr,
	}}
}

// wrongRequest tells whether a status blames the request, and not the way.
func wrongRequest(s verbs.Status) bool {
	switch s {
	case verbs.StatusLocalLength, verbs.StatusLocalProtection, verbs.StatusRemoteInvalidRequest, verbs.StatusRemoteAccess:
		return true
	}
	return false
}

// failed is the completion of an operation that was not carried out.
func (p *rcPeer) failed(id uint64) Completion {
	err := ErrFlushed
	if !p.told {
		p.told = true
		err = p.err
	}
	return Completion{Kind: Failed, Peer: p.id, ID: id, Err: err}
}

// LostError is why a peer was lost.
type LostError struct {
	Device string
	Err    error
	// Request tells that an operation was itself the cause: its key, range or
	// length is wrong, and would be on any rail.
	Request bool
}

func (e *LostError) Error() string { return fmt.Sprintf("connection on %s: %v", e.Device, e.Err) }

func (e *LostError) Unwrap() error { return e.Err }

// Wait returns when Poll has something to give, or the context ends.
func (r *RC) Wait(ctx context.Context) error {
	if r.closed {
		return verbs.ErrClosed
	}
	r.repost()
	for start := time.Now(); ; {
		if ready, err := r.ready(); ready || err != nil {
			return err
		}
		if time.Since(start) >= r.options.Spin {
			break
		}
	}
	for {
		if err := r.cq.RequestNotify(false); err != nil {
			return err
		}
		// What came before the request raises no event.
		if ready, err := r.ready(); ready || err != nil {
			return err
		}
		if _, err := r.channel.Wait(ctx); err != nil {
			return err
		}
		if ready, err := r.ready(); ready || err != nil {
			return err
		}
	}
}

func (r *RC) ready() (bool, error) {
	if r.head == r.tail {
		if err := r.poll(); err != nil {
			return false, err
		}
	}
	return r.head < r.tail || len(r.refused) > 0 || len(r.late) > 0, nil
}

func getNotice(b []byte) (imm uint32, ok bool) {
	if len(b) != noticeBytes || binary.BigEndian.Uint32(b) != noticeMark {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[4:]), true
}
