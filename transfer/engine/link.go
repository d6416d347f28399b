package engine

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
)

// linkState is what a link is at.
type linkState uint8

const (
	linkDown    linkState = iota // nothing is connected, and nothing lands
	linkOffered                  // this side has made its offer
	linkWaiting                  // and accepted the peer's, but the peer not ours yet
	linkUp
)

// link is a peer on one rail, from an offer to the end: a generation.
type link struct {
	at         *peerAt
	r          *rail
	id         transfer.Peer
	theirs     int // the peer's rail
	state      linkState
	generation uint32
	readied    bool // the peer has accepted this side's offer
	flight     int  // requests posted or staged that have not come back
	credits    int  // receives that the peer has for this side
	freed      int  // receives used that were not given back
	stranded   []slot
	fenced     bool  // the peer takes nothing of this generation any more
	letters    bool  // letters went by it
	suspect    bool  // the rail has failed before and has carried nothing since
	before     *link // the generation before, until the peer has fenced it
}

// room tells whether the next doorbell takes a request.
func (l *link) room() bool {
	return l.state == linkUp && l.flight < l.r.depth && len(l.r.ops) < cap(l.r.ops)
}

// stage puts a request among those of the rail's next doorbell, for which there
// must be room.
func (l *link) stage(s slot) {
	id := l.r.take()
	l.r.slots[id] = s
	l.staged(id)
}

// stagePiece is stage of a piece that has not been tried before.
func (l *link) stagePiece(j *job, piece *Segment) {
	id := l.r.take()
	s := &l.r.slots[id]
	s.job, s.kind, s.piece = j, j.kind, *piece
	l.staged(id)
}

func (l *link) staged(id uint32) {
	r := l.r
	s := &r.slots[id]
	j := s.job
	s.link = l
	l.flight++
	j.flight++
	j.waits = false
	n := len(r.ops)
	r.ops = r.ops[:n+1]
	op := &r.ops[n]
	op.Kind, op.Peer, op.Imm, op.ID = s.kind, l.id, s.imm, uint64(id)
	switch {
	case s.kind == transfer.OpSend:
		l.letters = true
		op.Local, op.Remote = j.region.on[r.index].Load().At(s.piece.Local, uint32(s.piece.Length)), transfer.Remote{}
		return
	case s.piece.Length == 0:
		op.Local, op.Remote = transfer.Local{}, transfer.Remote{}
		return
	}
	op.Aim(j.region.on[r.index].Load(), s.piece.Local, uint32(s.piece.Length), &j.target.Remote.d, s.piece.Remote, uint32(j.target.keys[l.theirs].Load()))
}

// notice counts a notice of the peer's.
func (l *link) notice(imm uint32) {
	number, sequence := splitImmediate(imm)
	c := l.at.p.counter(number)
	if c == nil {
		l.at.p.end(fmt.Errorf("%w: it notified more than %d numbers", errProtocol, l.at.w.e.o.Counters))
		return
	}
	c.take(sequence)
	l.used()
}

// used notes that the peer has used one of this side's receives, and gives them
// back by and by.
func (l *link) used() {
	if l.freed++; l.state != linkDown && l.freed*2 >= l.r.rail.Receives() {
		l.at.p.tell(message{kind: msgCredit, rail: l.theirs, generation: l.generation, count: uint32(l.freed)})
		l.freed = 0
	}
}

// fail ends the generation: this side takes nothing more of the peer on this
// rail, and tells it so.
func (l *link) fail(err error) {
	if l.state == linkDown {
		return
	}
	l.r.count.losses.Add(1)
	l.at.suspect.add(l.r.index)
	l.close()
	l.at.p.railFailed(l, err)
}

// close disconnects the link. What is on its way comes back as failed.
func (l *link) close() {
	if l.state == linkDown {
		return
	}
	if l.state == linkUp {
		l.r.count.up.Add(-1)
		l.at.p.railDown(l)
	}
	l.state = linkDown
	l.unstage()
	// The rail's number stays this link's until it offers it again: what had come
	// is still to be polled.
	err := l.r.rail.Disconnect(l.id)
	if err != nil {
		l.at.p.trouble(fmt.Errorf("disconnect %s on rail %d, %s: %w", l.at.p.Name(), l.r.index, l.r.info.Device, err))
	}
	if errors.Is(err, transfer.ErrNotFenced) {
		// The peer's device stays admitted for the sake of others on it, until
		// they have gone as well. They come again.
		for _, other := range l.r.sharing(err) {
			if other != nil && other != l {
				other.fail(err)
			}
		}
	}
	l.settle()
}

// sharing are the links to whom a device must stay admitted that another one's peer
// has: all, if the rail does not know.
func (r *rail) sharing(err error) []*link {
	known, ok := errors.AsType[*transfer.NotFencedError](err)
	if !ok {
		return r.links
	}
	links := make([]*link, len(known.Peers))
	for i, p := range known.Peers {
		links[i] = r.link(p)
	}
	return links
}

// busy tells whether anything of this generation, or of one before, is on its
// way: a rail may tell its own from that of the next by the device alone.
func (l *link) busy() bool {
	for ; l != nil; l = l.before {
		if l.flight > 0 {
			return true
		}
	}
	return false
}

// unfenced is the generation, with those before, if the peer may still take something
// of it. Nothing is on its way of any of them: what was fenced can be forgotten, else
// a rail that never comes up would have all its generations kept.
func (l *link) unfenced() *link {
	if l == nil || l.fenced {
		return nil
	}
	l.before = l.before.unfenced()
	return l
}

// unstage takes back what was staged and not posted.
func (l *link) unstage() {
	r := l.r
	left := r.ops[:0]
	for _, op := range r.ops {
		if s := r.slots[op.ID]; s.link == l {
			r.give(uint32(op.ID))
			l.flight--
			s.job.flight--
			s.job.held++
			l.stranded = append(l.stranded, s)
			if s.job.once {
				s.job.fail(transfer.ErrFlushed)
			}
			continue
		}
		left = append(left, op)
	}
	r.ops = left
}

// settle gives what failed on the link to others, once the peer has fenced it and
// nothing is on its way any more.
func (l *link) settle() {
	if l.state != linkDown || l.flight > 0 {
		return
	}
	if m := l.at.offers[l.r.local]; m != nil && !l.at.links[l.r.local].busy() {
		l.at.offers[l.r.local] = nil
		l.at.heard(l.r, m)
	}
	if !l.fenced && l.at.err == nil {
		return
	}
	if l.letters && l.at.err == nil {
		l.letters = false
		l.at.p.lettersAgain()
	}
	stranded := l.stranded
	l.stranded = nil
	for _, s := range stranded {
		j := s.job
		s.link = nil
		switch {
		case j.err != nil || l.at.err != nil:
			s.over()
			j.held--
			j.fail(l.at.err)
			j.settle()
		case s.kind == transfer.OpNotify:
			l.at.ask(l, s)
		case s.takesReceive():
			l.at.notices = append(l.at.notices, s) // it stays held
			l.at.turn()
			l.at.w.cancels.Store(true) // it may have been cancelled meanwhile
		default:
			j.held--
			j.stray = true
			j.again = append(j.again, s)
			l.at.push(j)
			l.at.w.cancels.Store(true) // it may have been cancelled meanwhile
		}
	}
	l.at.finished()
}
