package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// outbox is the memory from which letters go to a peer, registered with every
// rail: one whose rail fails goes by another. It is made when the first is sent and
// goes with the peer.
//
// A message's place is used again once it has completed and was received, so it can
// be sent again until then, and those on their way are within a window, which the
// other side relies on to know repeats. Behind their places are a few for barriers.
type outbox struct {
	mu     sync.Mutex
	wake   chan struct{} // closed when there may be room; nil while nobody waits
	err    error         // nothing more is sent
	buf    *verbs.Buffer
	region *Region
	slots  [letterPlaces]letter
	next   uint32 // the next one's number
	taken  uint32 // those before, somebody at the peer has received
}

// letter is a place of an outbox.
type letter struct {
	p     *Peer
	t     Transfer
	piece Segment
	busy  bool
	post  func() // by the worker
}

// Send sends a message of MaxSend bytes at most, which the peer's Receive gives
// once and in order, though a rail fails meanwhile. It returns when the bytes are
// copied and under way; it waits while the peer's side holds 32 that nobody
// received. A message that cannot be carried at all ends the peer, for those behind
// it make no sense without it.
func (p *Peer) Send(ctx context.Context, data []byte) error {
	if len(data) > MaxSend {
		return fmt.Errorf("a message of %d bytes to %s: %d at most: move more by a write", len(data), p.name, MaxSend)
	}
	for {
		l, wake, err := p.out.write(p, data)
		switch {
		case err != nil:
			return err
		case l != nil:
			return l.queue()
		case p.e.o.Manual != nil:
			return fmt.Errorf("%s holds %d messages that nobody received, or that are on their way: %w", p.name, letterWindow, ErrWaits)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("%s holds %d messages that nobody received, or that are on their way: %w", p.name, letterWindow, context.Cause(ctx))
		}
	}
}

// write puts a message's letter into its place, or gives what to wait for.
func (b *outbox) write(p *Peer, data []byte) (*letter, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(p); err != nil {
		return nil, nil, err
	}
	place := b.next % letterWindow
	if b.slots[place].busy || b.next-b.taken >= letterWindow {
		return nil, b.waiting(), nil
	}
	b.next++
	return b.fill(place, letterData, b.next-1, data), nil, nil
}

// writeCame does it for a barrier's letter, in any of those places.
func (b *outbox) writeCame(p *Peer, round uint32, name string) (*letter, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(p); err != nil {
		return nil, nil, err
	}
	for place := uint32(letterWindow); place < letterPlaces; place++ {
		if !b.slots[place].busy {
			return b.fill(place, letterCame, round, []byte(name)), nil, nil
		}
	}
	return nil, b.waiting(), nil
}

// ready makes the memory if need be. The lock is held, as in what follows.
func (b *outbox) ready(p *Peer) error {
	if b.err == nil && b.region == nil {
		return b.open(p)
	}
	return b.err
}

func (b *outbox) waiting() <-chan struct{} {
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return b.wake
}

func (b *outbox) fill(place uint32, kind letterKind, number uint32, data []byte) *letter {
	l, at := &b.slots[place], uint64(place)*transfer.MessageSize
	mem := b.buf.Bytes()[at : at+transfer.MessageSize]
	putLetter(mem, kind, number, len(data))
	copy(mem[letterHeader:], data)
	l.busy, l.piece = true, Segment{Local: at, Length: uint64(letterHeader + len(data))}
	return l
}

func (b *outbox) open(p *Peer) error {
	buf, err := verbs.NewBuffer(letterPlaces*transfer.MessageSize, verbs.BufferOptions{})
	if err != nil {
		return err
	}
	region, err := p.e.registerOwn(buf.Bytes())
	if err != nil {
		return errors.Join(fmt.Errorf("memory for messages to %s: %w", p.name, err), buf.Close())
	}
	b.buf, b.region = buf, region
	for i := range b.slots {
		l := &b.slots[i]
		l.p = p
		l.post = func() {
			j := &l.t.own[0]
			j.at.send(j, l.piece)
		}
	}
	return nil
}

// queue hands a letter to the next worker.
func (l *letter) queue() error {
	p, t := l.p, &l.t
	p.out.mu.Lock()
	region := p.out.region // nil once the peer is gone, which the gate tells
	p.out.mu.Unlock()
	a := p.at[int(p.next.Add(1))%p.workersUp]
	t.err, t.target, t.owner = nil, &p.own, l
	t.ended.Store(false)
	t.left.Store(1)
	t.own[0] = job{t: t, w: a.w, at: a, kind: transfer.OpSend, region: region, target: t.target, dry: true}
	t.target.users.Add(1)
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.gone {
		t.target.leave()
		return p.Err()
	}
	a.w.do(l.post)
	return nil
}

// send has a letter posted as soon as the peer has a receive for it.
func (a *peerAt) send(j *job, piece Segment) {
	a.active++
	if a.err != nil {
		j.fail(a.err)
		j.settle()
		return
	}
	j.held++ // until it is staged
	a.notices = append(a.notices, slot{job: j, kind: transfer.OpSend, piece: piece})
	a.turn()
}

// partEnded frees a letter's place. The transfer is not touched any more.
func (l *letter) partEnded() {
	if err := l.t.Err(); err != nil {
		l.p.end(fmt.Errorf("%w: a message to %s was not carried: %w", ErrLost, l.p.name, err))
	}
	b := &l.p.out
	b.mu.Lock()
	defer b.mu.Unlock()
	l.busy = false
	b.change()
}

// again gives the messages that are not on their way, and may not have come.
func (b *outbox) again() (lost []*letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := b.taken; n != b.next; n++ {
		if l := &b.slots[n%letterWindow]; !l.busy {
			l.busy = true
			lost = append(lost, l)
		}
	}
	return lost
}

// took notes how many letters were received at the peer.
func (b *outbox) took(taken uint32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch more := taken - b.taken; {
	case int32(more) < 0:
		return nil // said earlier, and come later
	case more > b.next-b.taken:
		return fmt.Errorf("%w: it has received %d messages; %d were sent", errProtocol, taken, b.next)
	}
	b.taken = taken
	b.change()
	return nil
}

// change wakes who waits. The lock is held.
func (b *outbox) change() {
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// end tells those who wait that nothing more is sent.
func (b *outbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.change()
}

// close frees the memory, once nothing is on its way. What cannot be deregistered
// stays for the engine's Close.
func (b *outbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.region == nil || b.region.Close() != nil {
		return
	}
	b.buf.Close()
	b.region, b.buf = nil, nil
}
