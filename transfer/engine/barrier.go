package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// barriers is what all barriers of an engine share.
type barriers struct {
	mu   sync.Mutex
	wake chan struct{} // closed at each change; nil while nobody waits
}

// meeting is a barrier's name between this side and one peer. Each side counts how
// often it came, so a barrier may be repeated; what the peer says has no order, and
// the highest counts.
type meeting struct {
	own    uint32 // rounds that this side has come to
	theirs uint32 // and the peer
	broken bool
	round  uint32 // the last one that will not be complete, if broken
	reason string
	inside bool // this side waits in it
}

// maxMeetings is how many names a peer's barriers have.
const maxMeetings = 1024

func (b *barriers) change() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed()
}

// changed wakes who waits. The lock is held.
func (b *barriers) changed() {
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// meeting finds a name's, nil if there are too many. The lock is held.
func (p *Peer) meeting(name string) *meeting {
	m := p.meetings[name]
	if m == nil && len(p.meetings) < maxMeetings {
		m = new(meeting)
		p.meetings[name] = m
	}
	return m
}

// came notes that the peer has come to a round.
func (p *Peer) came(name string, round uint32) error {
	b := &p.e.barriers
	b.mu.Lock()
	defer b.mu.Unlock()
	m := p.meeting(name)
	if m == nil {
		return fmt.Errorf("%w: it names more than %d barriers", errProtocol, maxMeetings)
	}
	if newer(round, m.theirs) {
		m.theirs = round
		b.changed()
	}
	return nil
}

// meetingsAgain says by the control connection to which rounds this side has come.
func (p *Peer) meetingsAgain() (all []message) {
	b := &p.e.barriers
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, m := range p.meetings {
		if m.own != 0 {
			all = append(all, message{kind: msgCame, name: name, count: m.own})
		}
	}
	return all
}

// broke notes that a round will not be complete.
func (p *Peer) broke(name string, round uint32, reason string) error {
	b := &p.e.barriers
	b.mu.Lock()
	defer b.mu.Unlock()
	m := p.meeting(name)
	if m == nil {
		return fmt.Errorf("%w: it names more than %d barriers", errProtocol, maxMeetings)
	}
	if !m.broken || newer(round, m.round) {
		m.broken, m.round, m.reason = true, round, plain(reason)
		b.changed()
	}
	return nil
}

// ErrBroken: a barrier ended before all had come to it.
var ErrBroken = errors.New("the barrier is broken")

// Barrier returns when every peer of the group has called it with the same name,
// and this side in its group. It may be repeated with the same peers, and barriers
// of other names may be under way at once, of 1024 names for each peer at most.
//
// It fails, on all sides, if a member is lost or gives up, because its context
// ended or another member was lost to it: ErrBroken, with that member's name. The
// round counts as come to, so that all may try another.
func (e *Engine) Barrier(ctx context.Context, group []*Peer, name string) error {
	if e.o.Manual != nil && len(group) > 0 {
		return fmt.Errorf("barrier %q: %w", name, ErrWaits)
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("barrier: a name of %d bytes; it has 1 to %d", len(name), maxName)
	}
	meetings, err := e.enter(group, name)
	if err != nil {
		return fmt.Errorf("barrier %q: %w", name, err)
	}
	for i, p := range group {
		if err = p.sendCame(ctx, meetings[i].own, name); err != nil {
			err = fmt.Errorf("%w: %s: %w", ErrBroken, p.name, err)
			break
		}
	}
	if err == nil {
		err = e.waitAll(ctx, group, meetings)
	}
	e.barriers.mu.Lock()
	for _, m := range meetings {
		m.inside = false
	}
	e.barriers.mu.Unlock()
	if err == nil {
		return nil
	}
	reason := plain(err.Error())
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	for i, p := range group {
		if p.Err() == nil {
			p.tell(message{kind: msgBroke, count: meetings[i].own, name: name, bytes: []byte(reason)})
		}
	}
	return fmt.Errorf("barrier %q: %w", name, err)
}

// enter counts a round with each of a group.
func (e *Engine) enter(group []*Peer, name string) ([]*meeting, error) {
	e.barriers.mu.Lock()
	defer e.barriers.mu.Unlock()
	meetings := make([]*meeting, len(group))
	for i, p := range group {
		err := errors.New("the peer is another engine's")
		if p.e == e {
			meetings[i] = p.meeting(name)
			switch m := meetings[i]; {
			case m == nil:
				err = fmt.Errorf("%s has %d barriers of other names already", p.name, maxMeetings)
			case m.inside:
				err = fmt.Errorf("%s is in the group twice, or in one of that name that is under way", p.name)
			default:
				m.inside, err = true, nil
			}
		}
		if err != nil {
			for _, m := range meetings[:i] {
				m.inside = false
			}
			return nil, err
		}
	}
	for _, m := range meetings {
		m.own++
	}
	return meetings, nil
}

// sendCame tells a peer that this side has come.
func (p *Peer) sendCame(ctx context.Context, round uint32, name string) error {
	for {
		l, wake, err := p.out.writeCame(p, round, name)
		switch {
		case err != nil:
			return err
		case l != nil:
			return l.queue()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("there was no room to tell it: %w", context.Cause(ctx))
		}
	}
}

// waitAll waits until all have come, or the round is broken.
func (e *Engine) waitAll(ctx context.Context, group []*Peer, meetings []*meeting) error {
	b := &e.barriers
	for {
		b.mu.Lock()
		missing, err := 0, error(nil)
		first := ""
		for i, m := range meetings {
			p := group[i]
			switch {
			case !newer(m.own, m.theirs):
				if m.broken && m.round == m.own && err == nil {
					err = fmt.Errorf("%w: %s gave up: %s", ErrBroken, p.name, m.reason)
				}
				continue
			case m.broken && !newer(m.own, m.round):
				err = fmt.Errorf("%w: %s gave up: %s", ErrBroken, p.name, m.reason)
			default:
				if lost := p.Err(); lost != nil {
					err = fmt.Errorf("%w: %s: %w", ErrBroken, p.name, lost)
				}
			}
			if missing++; missing == 1 {
				first = p.name
			}
		}
		if missing == 0 {
			b.mu.Unlock()
			return nil
		}
		if err != nil {
			b.mu.Unlock()
			return err
		}
		if b.wake == nil {
			b.wake = make(chan struct{})
		}
		wake := b.wake
		b.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d have not come, %s first: %w", ErrBroken, missing, len(group), first, context.Cause(ctx))
		}
	}
}
