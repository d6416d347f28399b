package engine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/transfer"
)

// newer tells whether generation a came after b. They are counted around.
func newer(a, b uint32) bool { return int32(a-b) > 0 }

// heard acts on a message about a rail, as its worker.
func (a *peerAt) heard(r *rail, m *message) {
	if a.err != nil {
		return
	}
	l := a.links[r.local]
	switch m.kind {
	case msgOffer:
		a.offered(r, l, m)
	case msgFenced:
		a.fenced(r, l, m.generation)
	case msgAsk:
		a.answer(r, m)
	case msgCounted, msgUncounted:
		a.answered(m.count, m.kind == msgCounted)
	default:
		if l == nil || m.generation != l.generation || l.state == linkDown {
			return // of a generation that is over
		}
		if m.kind == msgReady {
			l.credits = 0
		}
		if l.credits += int(m.count); l.credits > maxCredits {
			a.p.end(fmt.Errorf("%w: %w: %s has %d receives on rail %d", ErrLost, errProtocol, a.p.name, l.credits, r.index))
			return
		}
		if m.kind == msgReady {
			l.readied = true
			l.connected()
		} else if len(a.notices) > 0 {
			a.turn()
		}
	}
}

// maxCredits is more receives than any rail has.
const maxCredits = 1 << 20

// offered accepts what the peer offers: a new generation, if the peer dialled, or
// its part of the one that this side began.
func (a *peerAt) offered(r *rail, l *link, m *message) {
	fresh := l == nil || newer(m.generation, l.generation)
	switch {
	case fresh && a.p.dialled:
		a.p.end(fmt.Errorf("%w: %w: %s began generation %d of rail %d, which is for this side to do", ErrLost, errProtocol, a.p.name, m.generation, r.index))
		return
	case !fresh && (m.generation != l.generation || l.state != linkOffered):
		return // of a generation that is over, or twice
	}
	if fresh {
		if l != nil {
			l.close()
			l.fence() // who offers has disconnected all that was before
			if l.busy() {
				a.offers[r.local] = m
				return
			}
		}
		if l = a.offer(r, m.generation); l == nil {
			a.p.tell(message{kind: msgFenced, rail: r.index, generation: m.generation})
			return
		}
	}
	l.before.fence()
	l.before = nil
	if err := r.rail.Accept(l.id, m.bytes); err != nil {
		l.fail(fmt.Errorf("connect to %s on rail %d, %s: %w", a.p.name, r.index, r.info.Device, err))
		return
	}
	l.state = linkWaiting
	a.p.tell(message{kind: msgReady, rail: l.theirs, generation: l.generation, count: uint32(r.rail.Receives())})
	l.connected()
}

// fenced notes that the peer takes nothing more of a generation and those before.
func (a *peerAt) fenced(r *rail, l *link, generation uint32) {
	if m := a.offers[r.local]; m != nil && m.generation == generation {
		// The peer gave up what this side has not begun.
		a.offers[r.local] = nil
		a.p.tell(message{kind: msgFenced, rail: r.index, generation: generation})
		return
	}
	for b := l; b != nil; b = b.before {
		if newer(b.generation, generation) {
			continue
		}
		b.fence()
		if b == l && b.generation == generation {
			b.fail(errors.New("the peer gave the rail up"))
		}
		return
	}
}

// fence notes that the peer takes nothing more of this generation, nor of those
// before.
func (l *link) fence() {
	for ; l != nil; l = l.before {
		l.fenced = true
		l.settle()
	}
}

// offer begins a generation on a rail.
func (a *peerAt) offer(r *rail, generation uint32) *link {
	id, offer, err := r.rail.Offer()
	if err != nil {
		a.p.trouble(fmt.Errorf("offer rail %d, %s, to %s: %w", r.index, r.info.Device, a.p.name, err))
		a.p.again(r, generation)
		return nil
	}
	l := &link{at: a, r: r, id: id, theirs: r.index, state: linkOffered, generation: generation, before: a.links[r.local].unfenced()}
	a.links[r.local] = l
	for len(r.links) <= int(id) {
		r.links = append(r.links, nil)
	}
	r.links[id] = l
	a.p.tell(message{kind: msgOffer, rail: l.theirs, generation: generation, bytes: offer})
	return l
}

// connected lets requests onto the rail once both sides have accepted.
func (l *link) connected() {
	if l.state != linkWaiting || !l.readied {
		return
	}
	l.state = linkUp
	l.r.count.up.Add(1)
	l.at.p.railUp(l)
	if !l.at.idle() {
		l.at.turn()
	}
}

// railFailed tells the peer that this side takes nothing more of it on a rail,
// and has the rail come again later. The side that dialled begins.
func (p *Peer) railFailed(l *link, err error) {
	if l.r.info.Transport == transfer.IWARP {
		// What was Done may not have come, and nobody knows what: nothing can be
		// done again.
		p.end(fmt.Errorf("%w: rail %d, %s, has failed, and iWARP does not tell what had come to %s: %w", ErrLost, l.r.index, l.r.info.Device, p.name, err))
		return
	}
	p.trouble(err)
	p.tell(message{kind: msgFenced, rail: l.theirs, generation: l.generation})
	p.watch()
	p.again(l.r, l.generation)
	if l.fenced {
		return
	}
	p.after(p.e.o.FenceTime, func() {
		l.r.w.do(func() {
			if !l.fenced {
				p.end(fmt.Errorf("%w: %s did not confirm in %v that it fenced rail %d, %s", ErrLost, p.name, p.e.o.FenceTime, l.r.index, l.r.info.Device))
			}
		})
	})
}

// watch begins to look, after a rail has failed, whether any carries something: EFA's
// come up without the wire's doing anything for it.
func (p *Peer) watch() {
	p.fails.Add(1)
	if p.watched.Swap(true) {
		return
	}
	p.sum(func(done uint64, _ int) {
		fails := p.fails.Load()
		p.after(p.e.o.RailTime, func() {
			p.sum(func(now uint64, waiting int) {
				p.watched.Store(false)
				if now == done && waiting > 0 && p.fails.Load() > fails {
					p.end(fmt.Errorf("%w: rails to %s came up and failed for %v, and carried nothing of what waits", ErrLost, p.name, p.e.o.RailTime))
				}
			})
		})
	})
}

// sum has f called, by a worker, with the requests that were carried out and the
// jobs that have not ended, of all workers.
func (p *Peer) sum(f func(done uint64, waiting int)) {
	var done atomic.Uint64
	var waiting, left atomic.Int32
	left.Store(int32(len(p.at)))
	for _, a := range p.at {
		a.w.do(func() {
			done.Add(a.done)
			waiting.Add(int32(a.active))
			if left.Add(-1) == 0 {
				f(done.Load(), int(waiting.Load()))
			}
		})
	}
}

func (p *Peer) again(r *rail, generation uint32) {
	if !p.dialled {
		return
	}
	a := p.at[r.w.index]
	p.after(p.e.o.CoolDown, func() {
		r.w.do(func() {
			l := a.links[r.local]
			switch {
			case a.err != nil || l != nil && l.state != linkDown:
				return
			case l.busy():
				p.again(r, generation)
				return
			case l != nil && newer(l.generation, generation):
				generation = l.generation
			}
			a.offer(r, generation+1)
		})
	})
}
