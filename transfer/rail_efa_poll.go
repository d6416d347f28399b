package transfer

import (
	"context"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
)

// Poll gives completions without waiting.
func (r *EFA) Poll(out []Completion) (int, error) {
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
		if r.completion(&r.got[r.head], &out[n]) {
			n++
		}
		r.head++
	}
	for n < len(out) && len(r.late) > 0 {
		x := r.late[0]
		r.late = append(r.late[:0], r.late[1:]...)
		x.peer.back--
		r.delivered(x.peer, &x.c, &out[n])
		n++
	}
	for n < len(out) && len(r.refused) > 0 {
		last := len(r.refused) - 1
		x := r.refused[last]
		r.refused = r.refused[:last]
		x.peer.back--
		out[n] = r.failed(x.peer, x.id)
		n++
	}
	for n < len(out) {
		p := r.untold()
		if p == nil {
			break
		}
		p.told = true
		r.lost--
		out[n] = Completion{Kind: Lost, Peer: p.id, Err: p.err}
		n++
	}
	return n, nil
}

func (r *EFA) poll() error {
	n, err := r.ep.Poll(r.got)
	r.head, r.tail = 0, n
	r.marked(r.got[:n])
	return err
}

// marked looks for the completion of the marked operation.
func (r *EFA) marked(got []efa.Completion) {
	if len(got) == 0 || !r.marks.Waiting() {
		return
	}
	for i := range got {
		if c := &got[i]; c.ID&(efaIDMarked|efaIDRecv) == efaIDMarked {
			r.marks.Complete(verbsStatus(c.Status))
		}
	}
}

// repost gives the buffers of the messages that were polled before back to the
// device. A queue pair that takes none has failed for every peer.
func (r *EFA) repost() {
	if r.recvs.Len() == 0 {
		return
	}
	if err := r.recvs.Post(); err != nil {
		r.loseAll(err)
	}
}

// completion turns a completion into the rail's; false if there is nothing in
// it for the caller.
func (r *EFA) completion(c *efa.Completion, out *Completion) bool {
	if c.ID&efaIDRecv != 0 {
		return r.received(c, out)
	}
	p := r.peers[c.ID>>efaIDPeer&efaPeerMask]
	r.room++
	p.flight--
	if c.Status == efa.StatusOK {
		*out = Completion{Kind: Done, Peer: p.id, ID: c.ID & maxID}
		return true
	}
	cause := *c
	cause.ID &= maxID
	err := &LostError{Device: r.info.Device, Request: wrongEFARequest(c.Status), Err: cause.Err()}
	r.lose(p, err)
	*out = r.failed(p, c.ID&maxID)
	if ours(c.Status) {
		r.loseAll(err.Err)
	}
	return true
}

// wrongEFARequest tells whether a status blames the request, and not the way.
func wrongEFARequest(s efa.Status) bool {
	switch s {
	case efa.StatusInvalidLKey, efa.StatusBadLength, efa.StatusRemoteAddress, efa.StatusRemoteBadLength:
		return true
	}
	return false
}

// ours tells whether a status is the end of the queue pair, and not of one peer.
func ours(s efa.Status) bool { return s == efa.StatusFlushed || s == efa.StatusQPInternal }

// received turns the completion of a receive into a message or a notice.
func (r *EFA) received(c *efa.Completion, out *Completion) bool {
	if c.Status != efa.StatusOK {
		if ours(c.Status) {
			r.loseAll(c.Err())
		} else {
			r.receive(c.ID &^ efaIDRecv)
		}
		return false
	}
	p := r.byName[efaName(c.AH, c.SrcQPN)]
	if p == nil {
		r.receive(c.ID &^ efaIDRecv)
		return false // from a stranger who guessed the Q_Key
	}
	r.delivered(p, c, out)
	return true
}

// delivered is what a peer sent. The next repost gives its buffer back.
func (r *EFA) delivered(p *efaPeer, c *efa.Completion, out *Completion) {
	buffer := c.ID &^ efaIDRecv
	r.receive(buffer)
	if c.Flags&efa.WithImm != 0 {
		*out = Completion{Kind: Notice, Peer: p.id, Imm: c.Imm}
		return
	}
	*out = Completion{Kind: Message, Peer: p.id, Data: r.inbox.buf.Bytes()[buffer*MessageSize:][:c.Bytes]}
}

// failed is the completion of an operation that was not carried out.
func (r *EFA) failed(p *efaPeer, id uint64) Completion {
	err := ErrFlushed
	if !p.told {
		p.told = true
		r.lost--
		err = p.err
	}
	return Completion{Kind: Failed, Peer: p.id, ID: id, Err: err}
}

// untold finds a lost peer that nothing in flight will tell of.
func (r *EFA) untold() *efaPeer {
	if r.lost == 0 {
		return nil
	}
	for _, p := range r.peers {
		if p.err != nil && !p.told && p.flight == 0 {
			return p
		}
	}
	return nil
}

// Wait returns when Poll has something to give, or the context ends.
func (r *EFA) Wait(ctx context.Context) error {
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
		if err := r.ep.Wait(ctx); err != nil {
			return err
		}
		if ready, err := r.ready(); ready || err != nil {
			return err
		}
	}
}

func (r *EFA) ready() (bool, error) {
	if r.head == r.tail {
		if err := r.poll(); err != nil {
			return false, err
		}
	}
	return r.head < r.tail || len(r.refused) > 0 || len(r.late) > 0 || r.untold() != nil, nil
}
