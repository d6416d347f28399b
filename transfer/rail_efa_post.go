package transfer

import (
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/verbs"
)

// Post takes operations, as many as there is room for.
func (r *EFA) Post(ops []Op) (int, error) {
	if r.closed {
		return 0, verbs.ErrClosed
	}
	var (
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
		if int(op.Peer) >= len(r.peers) || r.peers[op.Peer].stage != peerOpen {
			err = noPeer(op.Peer)
			break
		}
		if op.Kind == OpRead && !r.info.Reads {
			err = errNoReads
			break
		}
		p := r.peers[op.Peer]
		if p.err != nil {
			r.refuse(p, op.ID)
			continue
		}
		if r.room == 0 {
			break
		}
		var mark uint64
		if n == due {
			mark = efaIDMarked
		}
		r.add(p, op, mark)
	}
	r.flush()
	if marking {
		r.marks.Passed(n)
	}
	return n, err
}

// add puts an operation into the batch. mark is efaIDMarked, or 0.
func (r *EFA) add(p *efaPeer, op *Op, mark uint64) {
	id := uint64(p.id)<<efaIDPeer | op.ID | mark
	local := efa.Slice{Addr: op.Local.Addr, Length: op.Local.Length, LKey: op.Local.Key}
	remote := efa.RemoteSlice{Addr: op.Remote.Addr, RKey: op.Remote.Key, Left: op.Remote.left}
	switch {
	case op.Kind == OpWrite:
		r.batch.Write(p.to, local, remote, id)
	case op.Kind == OpSend:
		r.batch.Send(p.to, local, id)
	case op.Kind == OpRead:
		r.batch.Read(p.to, local, remote, id)
	case op.Local.Length == 0:
		r.batch.WriteImm(p.to, r.notice.mr.At(0, 0), p.notice, op.Imm, id)
	default:
		r.batch.WriteImm(p.to, local, remote, op.Imm, id)
	}
	r.posted = append(r.posted, id)
	r.room--
	p.flight++
	if mark != 0 {
		r.marks.Choose(opcodeOf(op), op.ID, uint64(op.Local.Length), uint32(r.ep.QPN()))
	}
}

// flush posts the batch, and makes failed completions of what the device
// refused.
func (r *EFA) flush() {
	if len(r.posted) == 0 {
		return
	}
	if r.marks.Chosen() {
		r.marks.Post()
	}
	if err := r.batch.Post(); err != nil { // then it took none
		for _, id := range r.posted {
			if id&efaIDMarked != 0 {
				r.marks.Complete(marker.NotTaken)
			}
			p := r.peers[id>>efaIDPeer&efaPeerMask]
			r.room++
			p.flight--
			r.lose(p, &LostError{Device: r.info.Device, Err: err})
			r.refuse(p, id&maxID)
		}
	}
	r.posted = r.posted[:0]
}

// lose notes why a peer is gone. What is in flight to it comes back by itself.
func (r *EFA) lose(p *efaPeer, err error) {
	if p.err == nil {
		p.err = err
		r.lost++
	}
}

func (r *EFA) loseAll(err error) {
	for _, p := range r.peers {
		r.lose(p, &LostError{Device: r.info.Device, Err: err})
	}
}
