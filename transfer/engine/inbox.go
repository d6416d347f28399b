package engine

import (
	"context"
	"fmt"
	"sync"
)

// inbox has the peer's letters in order, until Receive takes them. The peer sends
// none that has no place here, so it waits for those who receive, and memory is
// bounded.
type inbox struct {
	mu    sync.Mutex
	wake  chan struct{} // closed when the next one came; nil while nobody waits
	err   error         // no more come
	slots [letterWindow]received
	taken uint32 // letters that Receive has given
	told  uint32 // as the peer knows
}

type received struct {
	full bool
	data []byte // its memory is used again
}

// take keeps a letter, unless it came before. How long ago does not matter: one that
// was sent again may wait on a rail whose worker has not looked, while others'
// letters come and go.
func (b *inbox) take(number uint32, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	ahead := int32(number - b.taken)
	if room := int32(letterWindow - (b.taken - b.told)); ahead >= room {
		return fmt.Errorf("%w: it sent letter %d, where those before %d may come", errProtocol, number, b.told+letterWindow)
	}
	s := &b.slots[number%letterWindow]
	if ahead < 0 || s.full {
		return nil // again
	}
	s.full, s.data = true, append(s.data[:0], data...)
	if ahead == 0 {
		b.change()
	}
	return nil
}

// change wakes who waits. The lock is held.
func (b *inbox) change() {
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// next gives the next letter, or what to wait for. Once tell is true, the peer is
// to learn how many were taken.
func (b *inbox) next() (data []byte, wake <-chan struct{}, taken uint32, tell bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.slots[b.taken%letterWindow]
	switch {
	case s.full:
		data = append([]byte{}, s.data...)
		s.full = false
		b.taken++
		if tell = b.taken-b.told >= letterWindow/2; tell {
			b.told = b.taken
		}
		return data, nil, b.taken, tell, nil
	case b.err != nil:
		return nil, nil, 0, false, b.err
	}
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return nil, b.wake, 0, false, nil
}

// end tells those who wait that no more will come.
func (b *inbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.change()
}

// Receive gives the peer's next message: each once, in the order in which the peer
// sent them. Those that came before the peer was gone are given first. As long as
// nobody receives, the peer can send 32 of them and then waits.
func (p *Peer) Receive(ctx context.Context) ([]byte, error) {
	for {
		data, wake, taken, tell, err := p.in.next()
		switch {
		case err != nil:
			return nil, err
		case data != nil:
			if tell {
				p.tell(message{kind: msgTaken, count: taken})
			}
			return data, nil
		}
		if p.e.o.Manual != nil {
			return nil, fmt.Errorf("%s has sent no message that was not received: %w", p.name, ErrWaits)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s sent no message: %w", p.name, context.Cause(ctx))
		}
	}
}
