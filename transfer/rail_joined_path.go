package transfer

import (
	"errors"
	"fmt"
	"math"

	"github.com/peerdirect/peerdirect/verbs"
)

// Post takes operations, as many as there is room for.
func (j *Joined) Post(ops []Op) (n int, err error) {
	if j.closed {
		return 0, verbs.ErrClosed
	}
	for ; n < len(ops); n++ {
		op := &ops[n]
		if err = op.check(); err != nil {
			break
		}
		if int(op.Peer) >= len(j.peers) || j.peers[op.Peer].stage != peerOpen {
			err = noPeer(op.Peer)
			break
		}
		if op.Kind == OpRead && !j.reads {
			err = errNoReads
			break
		}
		p := j.peers[op.Peer]
		if p.err != nil {
			j.refuse(p, op.ID)
			continue
		}
		at := 0
		if op.Kind == OpWrite || op.Kind == OpRead {
			at = j.idlest(p)
		}
		m := j.members[at]
		if p.flight[at] >= m.depth {
			break
		}
		to := &m.queue[m.last%len(m.queue)]
		*to = *op
		if err = to.address(at, len(j.members)); err != nil {
			break
		}
		to.Peer = p.of[at]
		p.flight[at]++
		m.last++
	}
	j.flush()
	return n, err
}

// idlest is the member that has the fewest operations to a peer in flight, of
// those that have room; of several the next in turn, so that a batch is spread.
func (j *Joined) idlest(p *joinedPeer) int {
	n := len(j.members)
	best, least := 0, math.MaxInt
	for i := range n {
		at := p.turn + i
		if at >= n {
			at -= n
		}
		if f := p.flight[at]; f < least && f < j.members[at].depth {
			best, least = at, f
		}
	}
	if p.turn = best + 1; p.turn == n {
		p.turn = 0
	}
	return best
}

// address gives an operation the keys of one of so many NICs.
func (op *Op) address(at, nics int) error {
	if op.Local.Length > 0 || op.Kind == OpSend {
		if len(op.Local.keys) != nics {
			return errors.New("the operation's memory is not a region of this rail")
		}
		op.Local.Key = op.Local.keys[at]
	}
	if op.Kind != OpSend && len(op.Remote.keys) > 0 {
		if len(op.Remote.keys) != nics {
			return fmt.Errorf("the peer's region has keys of %d NICs, the rail has %d", len(op.Remote.keys), nics)
		}
		op.Remote.Key = op.Remote.keys[at]
	}
	return nil
}

// flush gives what stands in the queues to the rails, one Post for each that
// has something.
func (j *Joined) flush() {
	for _, m := range j.members {
		for m.first != m.last {
			start := m.first % len(m.queue)
			run := m.queue[start:min(start+m.last-m.first, len(m.queue))]
			if p := m.peers[run[0].Peer]; p.err != nil {
				j.giveBack(m, p, run[0].ID)
				continue
			}
			n, err := m.rail.Post(run)
			m.first += n
			if err != nil {
				// What the rail refuses passed every check of this one: it is
				// the rail that has failed.
				p := m.peers[run[n].Peer]
				p.lose(&LostError{Device: m.rail.Info().Device, Err: err})
				j.giveBack(m, p, run[n].ID)
				continue
			}
			if n < len(run) {
				break
			}
		}
	}
}

// giveBack takes the first operation out of a member's queue, as failed.
func (j *Joined) giveBack(m *member, p *joinedPeer, id uint64) {
	for i, other := range j.members {
		if other == m {
			p.flight[i]--
		}
	}
	m.first++
	j.refuse(p, id)
}

func (j *Joined) refuse(p *joinedPeer, id uint64) {
	p.back++
	j.back = append(j.back, joinedBack{p, id})
}

func (p *joinedPeer) lose(err error) {
	if p.err == nil {
		p.err = err
	}
}

// failure is the error of a failed operation: the cause once.
func (p *joinedPeer) failure() error {
	if p.told {
		return ErrFlushed
	}
	p.told = true
	return p.err
}

// Poll gives completions without waiting.
func (j *Joined) Poll(out []Completion) (int, error) {
	if j.closed {
		return 0, verbs.ErrClosed
	}
	if j.head == j.tail {
		if err := j.gather(); err != nil {
			return 0, err
		}
	}
	n := copy(out, j.got[j.head:j.tail])
	j.head += n
	for n < len(out) && len(j.back) > 0 {
		last := len(j.back) - 1
		b := j.back[last]
		j.back = j.back[:last]
		b.peer.back--
		out[n] = Completion{Kind: Failed, Peer: b.peer.id, ID: b.id, Err: b.peer.failure()}
		n++
	}
	return n, nil
}

// gather polls every member once. Nothing that was gathered before may be left:
// the data of messages is valid until the next poll.
func (j *Joined) gather() error {
	j.head, j.tail = 0, 0
	for i := range j.members {
		at := (j.from + i) % len(j.members)
		room := j.got[j.tail:]
		if len(room) == 0 {
			j.from = at // its turn is next
			break
		}
		n, err := j.members[at].rail.Poll(room)
		for k := range room[:n] {
			if j.translate(at, &room[k]) {
				j.got[j.tail] = room[k]
				j.tail++
			}
		}
		if err != nil {
			return err
		}
	}
	j.flush()
	return nil
}

// translate makes a completion of a member one of the whole; false if there is
// nothing in it for the caller.
func (j *Joined) translate(at int, c *Completion) bool {
	p := j.members[at].peers[c.Peer]
	c.Peer = p.id
	switch c.Kind {
	case Done:
		p.flight[at]--
	case Failed:
		p.flight[at]--
		if !errors.Is(c.Err, ErrFlushed) {
			p.lose(c.Err)
			c.Err = p.failure()
		}
	case Lost:
		p.lose(c.Err)
		if c.Err = p.failure(); errors.Is(c.Err, ErrFlushed) {
			return false
		}
	}
	return true
}
