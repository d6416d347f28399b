package engine

import "fmt"

// railUp counts a rail that is connected.
func (p *Peer) railUp(l *link) {
	a := l.at
	p.upRails.add(l.r.index)
	if l.suspect = a.suspect.has(l.r.index); !l.suspect {
		p.goodRails.add(l.r.index)
	}
	p.unpark()
	p.mu.Lock()
	p.ups++
	p.mu.Unlock()
	p.upOnce.Do(func() { close(p.up) })
	if a.ups.Add(1) > 1 {
		return
	}
	for _, other := range p.at {
		if other.ups.Load() == 0 {
			other.w.do(func() {}) // it may have something to hand over
		}
	}
}

// railDown counts a rail that no longer is. A peer that has none for too long is
// lost: what waits for it would wait for ever.
func (p *Peer) railDown(l *link) {
	p.upRails.drop(l.r.index)
	p.goodRails.drop(l.r.index)
	l.at.ups.Add(-1)
	p.mu.Lock()
	p.ups--
	p.downs++
	dark, downs := p.ups == 0, p.downs
	p.mu.Unlock()
	if !dark {
		return
	}
	p.after(p.e.o.RailTime, func() {
		p.mu.Lock()
		dark := p.ups == 0 && p.downs == downs
		p.mu.Unlock()
		if dark {
			p.end(fmt.Errorf("%w: no rail to %s came again in %v", ErrLost, p.name, p.e.o.RailTime))
		}
	})
}
