package engine

import "fmt"

// tell sends a message; a connection that takes none has ended, which its
// reader finds.
func (p *Peer) tell(m message) {
	if err := p.control.Send(uint16(m.kind), m.append(nil)); err != nil {
		p.end(fmt.Errorf("%w: tell %s: %w", ErrLost, p.name, err))
	}
}

// read acts on what the peer says until it is gone.
func (p *Peer) read() {
	defer p.e.ending.Done()
	for {
		kind, payload, err := p.control.Receive(p.e.ctx)
		over := err != nil
		if !over {
			err = p.take(kind, payload)
		}
		switch {
		case err == nil:
			continue
		case p.e.ctx.Err() != nil:
			err = fmt.Errorf("%w: the engine was closed", ErrClosed)
		case over && p.control.Left():
			err = fmt.Errorf("%w: %s has left", ErrLost, p.name)
		default:
			err = fmt.Errorf("%w: %s: %w", ErrLost, p.name, err)
		}
		p.end(err)
		return
	}
}

// take acts on a message as it came.
func (p *Peer) take(kind uint16, payload []byte) error {
	var m message
	if err := m.parse(kind, payload); err != nil {
		return err
	}
	return p.heard(&m)
}

// heard acts on a message.
func (p *Peer) heard(m *message) error {
	switch m.kind {
	case msgOffer, msgReady, msgFenced, msgCredit, msgAsk, msgCounted, msgUncounted:
		if m.rail >= p.rails {
			return fmt.Errorf("%w: it speaks of rail %d; %d are connected", errProtocol, m.rail, p.rails)
		}
		r := p.e.rails[m.rail]
		a := p.at[r.w.index]
		what := *m
		what.bytes = append([]byte(nil), m.bytes...)
		r.w.heed(func() { a.heard(r, &what) })
		return nil
	case msgGrant:
		return p.granted(m)
	case msgWithdraw:
		p.withdrawn(m.name)
		return nil
	case msgWithdrawn:
		p.confirmed(m.name)
		return nil
	case msgWiden:
		return p.asksForKeys(m.name, m.bytes)
	case msgKeys:
		return p.moreKeys(m)
	case msgTaken:
		return p.out.took(m.count)
	case msgBroke:
		return p.broke(m.name, m.count, string(m.bytes))
	case msgCame:
		return p.came(m.name, m.count)
	case msgWarm:
		return p.warmBack()
	case msgWarmed:
		return p.warmedBack()
	}
	return fmt.Errorf("%w: a message of type %d now", errProtocol, m.kind)
}
