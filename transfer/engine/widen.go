package engine

import (
	"errors"
	"fmt"
)

// Registering is dear, with far NICs above all, so memory is registered with its
// near rails, and with others only when none of the near ones is up for a peer: by
// this side for its own memory, by the peer, which is asked, for its.

// widenHere registers with more rails, with one of them at least. Whoever calls waits
// for it.
func (p *Peer) widenHere(r *Region, to railSet) error {
	p.e.life.RLock()
	defer p.e.life.RUnlock()
	before := r.have.load()
	if err := r.widen(to, false); err != nil {
		have := r.have.load()
		if have != before {
			p.trouble(err)
			return nil
		}
		return fmt.Errorf("none of the rails %v, with which the memory is registered, leads to the peer's, and registering with %v failed: %w", have, to, err)
	}
	return nil
}

// background has f called, not by a worker if there are others.
func (p *Peer) background(f func()) {
	if p.e.o.Manual != nil {
		f()
		return
	}
	p.e.ending.Add(1) // the peer is not fenced yet, so it is not 0
	go func() {
		defer p.e.ending.Done()
		f()
	}()
}

// widen finds a rail for two regions that have none in common which can be relied
// upon. It tells whether to wait for one, false if there is a rail to try meanwhile.
// It is called by a worker, which itself waits for nothing.
func (p *Peer) widen(r *Region, t *Target) bool {
	here, there := r.have.load(), t.have.load()
	up, to := p.upRails.load(), p.goodRails.load()
	both := here.and(there)
	try := both.meets(&up)
	if to.empty() && !try {
		to = up
	}
	switch {
	case to.empty():
	case !there.meets(&to):
		return p.askForKeys(t, here, to) || !try
	default:
		refused := r.refused.load()
		if mine := there.and(to).without(refused); !mine.empty() {
			p.register(r, p.best(r.near, mine))
			return true
		}
		// This side's NICs refuse all that the peer has keys of: it is asked for others.
		if others := to.without(there).without(refused); !others.empty() {
			return p.askForKeys(t, here, others) || !try
		}
	}
	return !try // one comes, or the peer is lost
}

// register registers a region with more rails, in the background.
func (p *Peer) register(r *Region, to railSet) {
	if !r.busy.CompareAndSwap(false, true) {
		return
	}
	p.background(func() {
		err := p.widenHere(r, to)
		r.busy.Store(false)
		if err != nil {
			p.trouble(err)
		}
		p.e.unpark() // other peers' may wait for the same
	})
}

// unpark has all peers look again for a way for what they put aside.
func (e *Engine) unpark() {
	for _, p := range e.Peers() {
		p.unpark()
	}
}

// askForKeys asks the peer to register its memory with some rails, those of them
// that this side's is registered with if there are any; false if it has refused all.
func (p *Peer) askForKeys(t *Target, here, to railSet) bool {
	if to = to.without(t.refused.load()); to.empty() {
		return false
	}
	if t.asking.CompareAndSwap(false, true) {
		if here.meets(&to) {
			to = to.and(here)
		} else {
			to = p.best(t.near, to)
		}
		t.asked.store(to)
		p.tell(message{kind: msgWiden, name: t.name, bytes: to.appendBits(nil, MaxRails)})
	}
	return true
}

// asksForKeys registers a region that was granted to the peer with the rails that
// it asks for, and answers with the keys that there are then.
func (p *Peer) asksForKeys(name string, b []byte) error {
	var wanted railSet
	if !wanted.parseBits(b, MaxRails) {
		return fmt.Errorf("%w: it asks for %q on rails by %d bytes", errProtocol, name, len(b))
	}
	p.mu.Lock()
	g := p.grants[name]
	if g == nil || p.err != nil {
		p.mu.Unlock()
		return nil // it was withdrawn meanwhile
	}
	busy := g.widening
	g.widening = true
	p.mu.Unlock()
	if busy {
		return fmt.Errorf("%w: it asks for %q on more rails, and has no answer yet", errProtocol, name)
	}
	p.background(func() {
		p.e.life.RLock()
		err := g.region.widen(wanted.and(firstRails(p.rails)), false)
		p.e.life.RUnlock()
		if err != nil {
			p.trouble(fmt.Errorf("%q on more rails, as %s asks: %w", name, p.name, err))
		}
		if err := p.tellKeys(name, g, errors.Is(err, ErrClosed)); err != nil {
			p.end(fmt.Errorf("%w: tell %s: %w", ErrLost, p.name, err))
		}
	})
	return nil
}

// tellKeys answers, unless nobody needs it any more: the region was closed, or the
// grant withdrawn. The name may be that of another one now, which must not be told
// between the look and the answer.
func (p *Peer) tellKeys(name string, g *grant, closed bool) error {
	keys, _ := g.region.remote(g.rights).MarshalBinary()
	m := message{kind: msgKeys, name: name, bytes: keys}
	p.mu.Lock()
	defer p.mu.Unlock()
	g.widening = false
	if closed || p.err != nil || p.grants[name] != g {
		return nil
	}
	return p.control.Send(uint16(m.kind), m.append(nil))
}

// moreKeys takes the peer's answer.
func (p *Peer) moreKeys(m *message) error {
	p.mu.Lock()
	t := p.targets[m.name]
	p.mu.Unlock()
	if t == nil {
		return nil // it was withdrawn meanwhile
	}
	var now Remote
	if err := now.UnmarshalBinary(m.bytes); err != nil {
		return err
	}
	switch {
	case !t.asking.Load():
		return fmt.Errorf("%w: it gave more keys of %q unasked", errProtocol, m.name)
	case now.Incarnation != t.Incarnation || now.d.Addr != t.d.Addr || now.d.Length != t.d.Length || len(now.d.Keys) != len(t.d.Keys):
		return fmt.Errorf("%w: it gave more keys of %q, which is another region now", errProtocol, m.name)
	}
	before := t.have.load()
	t.keep(&now)
	have := t.have.load()
	if have == before {
		p.trouble(fmt.Errorf("%s cannot register %q with other rails than %v", p.name, m.name, before))
	}
	if refused := t.asked.load().without(have); !refused.empty() {
		refused.each(func(i int) bool { t.refused.add(i); return true })
		p.after(p.e.o.CoolDown, func() {
			t.refused.store(railSet{})
			p.unpark()
		})
	}
	t.asking.Store(false)
	p.unpark()
	return nil
}

// noRail is why a job has found no way.
func (p *Peer) noRail(j *job) error {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	here, there, up := j.region.have.load(), j.target.have.load(), p.upRails.load()
	err := fmt.Errorf("%w: the local memory is registered with rails %v, %q of %s with %v; up are %v: bring one of these up that both have",
		ErrNoRail, here, j.target.name, p.name, there, up)
	if last != nil {
		err = fmt.Errorf("%w (before that: %w)", err, last)
	}
	return err
}

// ErrNoRail: no rail that is up reaches both memories, and registering them with
// others failed.
var ErrNoRail = errors.New("no rail between the two memories")
