package transfer

import (
	"encoding/binary"
	"errors"

	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/verbs"
)

// Post takes operations, as many as there is room for.
func (r *RC) Post(ops []Op) (int, error) {
	if r.closed {
		return 0, verbs.ErrClosed
	}
	var (
		p   *rcPeer
		n   int
		err error
	)
	due, marking := -1, marker.On()
	if marking {
		due = r.marks.Due(len(ops))
	}
	for ; n < len(ops); n++ {
		op := &ops[n]
		if err = op.check(); err != nil {
			break
		}
		if p == nil || p.id != op.Peer {
			if p != nil {
				r.flush(p)
			}
			if int(op.Peer) >= len(r.peers) || r.peers[op.Peer].stage != peerOpen {
				p, err = nil, noPeer(op.Peer)
				break
			}
			p = r.peers[op.Peer]
		}
		if op.Kind == OpRead && !r.info.Reads {
			err = errNoReads
			break
		}
		if p.err != nil {
			r.refuse(p, op.ID, false)
			continue
		}
		var mark uint64
		if n == due {
			mark = idMarked
		}
		if !r.add(p, op, mark) {
			break
		}
	}
	if p != nil {
		r.flush(p)
	}
	if marking {
		r.marks.Passed(n)
	}
	return n, err
}

// add puts an operation into the batch of a queue pair, false if none has room. mark is
// idMarked, or 0.
func (r *RC) add(p *rcPeer, op *Op, mark uint64) bool {
	q := p.queues[0]
	if op.Kind == OpWrite || op.Kind == OpRead {
		if q = p.queues[p.turn]; q.room == 0 {
			for _, other := range p.queues {
				if other.room > 0 {
					q = other
					break
				}
			}
		}
	}
	if q.room == 0 {
		return false
	}
	id := q.index | op.ID
	local := verbs.Slice{Addr: op.Local.Addr, Length: op.Local.Length, LKey: op.Local.Key}
	remote := verbs.RemoteSlice{Addr: op.Remote.Addr, RKey: op.Remote.Key, Left: op.Remote.left}
	switch {
	case op.Kind == OpWrite:
		q.batch.Write(local, remote, id|mark)
	case op.Kind == OpSend:
		q.batch.Send(local, id|mark)
	case op.Kind == OpRead:
		q.batch.Read(local, remote, id|mark)
	case !r.iwarp:
		q.batch.WriteImm(local, remote, op.Imm, id|mark)
	default:
		if local.Length > 0 {
			if q.room < 2 {
				return false
			}
			q.take(idHalf | id)
			q.batch.Write(local, remote, idHalf|id).Unsignaled()
			id |= idDouble
		}
		q.batch.Send(r.noticeMessage(p, op.Imm), id|mark)
	}
	q.take(id | mark)
	if mark != 0 {
		r.marks.Choose(opcodeOf(op), op.ID, uint64(op.Local.Length), q.qp.QPN())
		r.marking = q
	}
	return true
}

func (q *rcQueue) take(id uint64) {
	q.room--
	q.ring[q.last%len(q.ring)] = id
	q.last++
}

// noticeMessage writes a notice into the next slot of the outbox. There are as
// many slots as the queue pair has places, which complete in order, so the slot
// is free.
func (r *RC) noticeMessage(p *rcPeer, imm uint32) verbs.Slice {
	at := (int(p.id)*r.options.SendDepth + p.notice) * noticeBytes
	p.notice = (p.notice + 1) % r.options.SendDepth
	putNotice(r.outbox.buf.Bytes()[at:], imm)
	return r.outbox.mr.At(uint64(at), noticeBytes)
}

// flush posts the batches of a peer, one crossing for each that is not empty.
func (r *RC) flush(p *rcPeer) {
	for _, q := range p.queues {
		if q.posted == q.last {
			continue
		}
		if q == r.marking {
			r.marking = nil
			r.marks.Post()
		}
		if err := q.batch.Post(); err != nil {
			r.notTaken(q, err)
		}
		q.posted = q.last
	}
	if p.turn++; p.turn == len(p.queues) {
		p.turn = 0
	}
}

// notTaken makes failed completions of what a queue pair's device refused.
func (r *RC) notTaken(q *rcQueue, err error) {
	taken := q.posted
	var post *verbs.PostError
	if errors.As(err, &post) {
		taken += post.Posted
	}
	r.giveBack(q, taken, marker.NotTaken)
	r.lose(q.peer, &LostError{Device: r.info.Device, Err: err})
}

// giveBack makes failed completions of a queue pair's requests from the running
// count on; tracers are told the status.
func (r *RC) giveBack(q *rcQueue, from int, status uint32) {
	for i := from; i < q.last; i++ {
		q.room++
		id := q.ring[i%len(q.ring)]
		if id&idHalf == 0 {
			r.refuse(q.peer, id, false)
		}
		if id&idMarked != 0 {
			r.marks.Complete(status)
		}
	}
	q.last = from
}

// lose notes why a peer is gone and stops its queue pairs: everything posted
// comes back flushed.
func (r *RC) lose(p *rcPeer, err error) {
	if p.err != nil {
		return
	}
	p.err = err
	for _, q := range p.queues {
		q.qp.Fail() // where the transport has done so already it may fail
	}
}

func putNotice(b []byte, imm uint32) {
	binary.BigEndian.PutUint32(b, noticeMark)
	binary.BigEndian.PutUint32(b[4:], imm)
}
