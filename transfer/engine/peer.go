package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Control is a control connection: authenticated and encrypted where it leaves
// the machine (package control).
type Control interface {
	// Send queues a message; it never waits for the peer.
	Send(kind uint16, payload []byte) error
	// Receive gives the next message, valid until the next call. It fails once
	// the peer left or is gone.
	Receive(ctx context.Context) (kind uint16, payload []byte, err error)
	// Identity is who the peer has proved to be.
	Identity() string
	// Left tells whether the connection ended because the peer said that it
	// leaves.
	Left() bool
	Close() error
}

// Peer is another engine that this one has joined, for one incarnation of it:
// when it comes again it is another Peer.
type Peer struct {
	e           *Engine
	control     Control
	dialled     bool // this side did
	name        string
	identity    string
	incarnation uint64
	rails       int // that are connected with the peer's: the first ones, one by one
	workersUp   int // that have any of these: the first ones

	at       []*peerAt // by worker
	counters counters
	workers  sync.WaitGroup // that still have something of the peer
	fenced   chan struct{}  // nothing of the peer lands any more
	up       chan struct{}  // one rail is connected
	upOnce   sync.Once
	endOnce  sync.Once

	next atomic.Uint32 // whose turn it is among the workers
	gate sync.RWMutex  // jobs are queued under it, so that none comes after the end
	gone bool

	mu      sync.Mutex
	err     error
	notices map[Number]*outgoing
	targets map[string]*Target // what the peer granted, by name
	grants  map[string]*grant  // what it was granted
	changed chan struct{}      // closed at each change of what is above
	timers  map[*time.Timer]struct{}
	last    error // the last trouble of a rail
}

// Name is what the peer calls itself; Identity what it has proved to be.
func (p *Peer) Name() string     { return p.name }
func (p *Peer) Identity() string { return p.identity }

// Incarnation tells this run of the peer's engine from all others.
func (p *Peer) Incarnation() uint64 { return p.incarnation }

// Err is why the peer is gone; nil while it is not.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Fenced is closed when the peer is gone and no NIC of this side takes anything
// of it any more: what it could write is free.
func (p *Peer) Fenced() <-chan struct{} { return p.fenced }

// Counter gives the counter of a number, nil if there are as many as Options
// allow.
func (p *Peer) Counter(n Number) *Counter {
	c := p.counter(n)
	if err := p.Err(); err != nil && c != nil {
		c.end(err) // it may be younger than the end
	}
	return c
}

func (p *Peer) counter(n Number) *Counter { return p.counters.find(n, p.e.o.Counters) }

// outgoing gives a number's sequences.
func (p *Peer) outgoing(n Number) *outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.notices[n]
	if o == nil {
		o = new(outgoing)
		p.notices[n] = o
	}
	return o
}

// tell sends a message; a connection that takes none has ended, which its
// reader finds.
func (p *Peer) tell(m message) {
	if err := p.control.Send(uint16(m.kind), m.append(nil)); err != nil {
		p.end(fmt.Errorf("%w: tell %s: %w", ErrLost, p.name, err))
	}
}

// trouble notes what went wrong with a rail, for the error of a peer that is lost
// later.
func (p *Peer) trouble(err error) {
	p.mu.Lock()
	p.last = err
	p.mu.Unlock()
}

// end ends the peer for this side, once: transfers fail, rails are disconnected,
// and what follows from it is told to whoever waits.
func (p *Peer) end(err error) {
	p.endOnce.Do(func() {
		p.gate.Lock()
		p.gone = true
		p.gate.Unlock()
		p.mu.Lock()
		if p.last != nil {
			err = fmt.Errorf("%w (before that: %w)", err, p.last)
		}
		p.err = err
		timers := p.timers
		p.timers = nil
		p.change()
		p.mu.Unlock()
		for t := range timers {
			t.Stop()
		}
		p.e.forget(p)
		for _, a := range p.at {
			a.w.do(func() { a.lose(err) })
		}
		p.upOnce.Do(func() { close(p.up) })
		p.counters.each(func(c *Counter) { c.end(err) })
		go func() {
			p.control.Close()
			p.workers.Wait()
			close(p.fenced)
			p.e.ending.Done()
		}()
	})
}

// Close leaves the peer and returns when nothing of it lands any more. Transfers
// that have not ended fail. It may be called again.
func (p *Peer) Close() error {
	p.end(fmt.Errorf("%w: this side has left %s", ErrClosed, p.name))
	<-p.fenced
	return nil
}

// change wakes who waits for grants. The lock is held.
func (p *Peer) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// after has f called later, unless the peer ends before.
func (p *Peer) after(d time.Duration, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timers == nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		p.mu.Lock()
		_, ok := p.timers[t]
		delete(p.timers, t)
		p.mu.Unlock()
		if ok {
			f()
		}
	})
	p.timers[t] = struct{}{}
}

// read acts on what the peer says until it is gone.
func (p *Peer) read() {
	defer p.e.ending.Done()
	for {
		kind, payload, err := p.control.Receive(p.e.ctx)
		if err == nil {
			var m message
			if err = m.parse(kind, payload); err == nil {
				err = p.heard(&m)
			}
		}
		switch {
		case err == nil:
			continue
		case p.e.ctx.Err() != nil:
			err = fmt.Errorf("%w: the engine was closed", ErrClosed)
		case p.control.Left():
			err = fmt.Errorf("%w: %s has left", ErrLost, p.name)
		default:
			err = fmt.Errorf("%w: %s: %w", ErrLost, p.name, err)
		}
		p.end(err)
		return
	}
}

// heard acts on a message.
func (p *Peer) heard(m *message) error {
	switch m.kind {
	case msgOffer, msgReady, msgFenced, msgCredit:
		if m.rail >= p.rails {
			return fmt.Errorf("%w: it speaks of rail %d; %d are connected", errProtocol, m.rail, p.rails)
		}
		r := p.e.rails[m.rail]
		a := p.at[r.w.index]
		what := *m
		what.bytes = append([]byte(nil), m.bytes...)
		r.w.do(func() { a.heard(r, &what) })
		return nil
	case msgGrant:
		return p.granted(m)
	case msgWithdraw:
		p.withdrawn(m.name)
		return nil
	case msgWithdrawn:
		p.confirmed(m.name)
		return nil
	}
	return fmt.Errorf("%w: a message of type %d now", errProtocol, m.kind)
}

// heard acts on a message about a rail, as its worker.
func (a *peerAt) heard(r *rail, m *message) {
	if a.err != nil {
		return
	}
	l := a.links[r.local]
	switch m.kind {
	case msgOffer:
		if l != nil && m.generation <= l.generation && (l.state != linkOffered || m.generation < l.generation) {
			return // of a generation that is over, or twice
		}
		if l == nil || m.generation > l.generation {
			if l != nil {
				if l.close(); l.busy() {
					a.offers[r.local] = m
					return
				}
			}
			if l = a.offer(r, m.generation); l == nil {
				a.p.tell(message{kind: msgFenced, rail: r.index, generation: m.generation})
				return
			}
		}
		// Who offers has disconnected all that was before.
		for b := l.before; b != nil; b = b.before {
			b.fenced = true
			b.settle()
		}
		l.before = nil
		if err := r.rail.Accept(l.id, m.bytes); err != nil {
			l.fail(fmt.Errorf("connect to %s on rail %d, %s: %w", a.p.name, r.index, r.info.Device, err))
			return
		}
		l.state = linkWaiting
		a.p.tell(message{kind: msgReady, rail: l.theirs, generation: l.generation, count: uint32(r.rail.Receives())})
		l.connected()
	case msgReady:
		if l == nil || m.generation != l.generation || l.state == linkDown {
			return
		}
		l.readied, l.credits = true, int(m.count)
		l.connected()
	case msgCredit:
		if l == nil || m.generation != l.generation || l.state == linkDown {
			return
		}
		l.credits += int(m.count)
		if l.credits > maxCredits {
			a.p.end(fmt.Errorf("%w: %w: %s has %d receives on one rail", ErrLost, errProtocol, a.p.name, l.credits))
			return
		}
		if len(a.notices) > 0 {
			a.turn()
		}
	case msgFenced:
		if l == nil || m.generation != l.generation {
			return
		}
		l.fenced = true
		if l.state != linkDown {
			l.fail(errors.New("the peer gave the rail up"))
		}
		l.settle()
	}
}

// maxCredits is more receives than any rail has.
const maxCredits = 1 << 20

// offer begins a generation on a rail.
func (a *peerAt) offer(r *rail, generation uint32) *link {
	id, offer, err := r.rail.Offer()
	if err != nil {
		a.p.trouble(fmt.Errorf("offer rail %d, %s, to %s: %w", r.index, r.info.Device, a.p.name, err))
		a.p.again(r, generation)
		return nil
	}
	l := &link{at: a, r: r, id: id, theirs: r.index, state: linkOffered, generation: generation, before: a.links[r.local]}
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
	l.at.p.upOnce.Do(func() { close(l.at.p.up) })
	if !l.at.idle() {
		l.at.turn()
	}
}

// railFailed tells the peer that this side takes nothing more of it on a rail,
// and has the rail come again later. The side that dialled begins.
func (p *Peer) railFailed(l *link, err error) {
	p.trouble(err)
	p.tell(message{kind: msgFenced, rail: l.theirs, generation: l.generation})
	p.again(l.r, l.generation)
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
			case l != nil:
				generation = max(generation, l.generation)
			}
			a.offer(r, generation+1)
		})
	})
}
