package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// A notice is an immediate: the number that it counts for, and below that a
// sequence, by which the peer can tell whether it counted one whose rail failed
// before it completed. From the oldest that has not completed to the newest are
// never more than noticeWindow of a number; but one that has completed may wait at
// the peer to be counted while thousands pass by other rails.
const (
	numberBits   = 16
	sequenceBits = 16
	noticeWindow = 1024
)

// Number names a counter of notices, one for each pair of a peer and a number. They
// go from 0 to MaxNumber; the one above is the engine's own.
type Number uint16

// MaxNumber is the highest number that transfers may notify.
const MaxNumber = warmNumber - 1

// warmNumber counts the notices by which peers warm up.
const warmNumber Number = 1<<numberBits - 1

func immediate(n Number, sequence uint16) uint32 {
	return uint32(n)<<sequenceBits | uint32(sequence)
}

func splitImmediate(imm uint32) (Number, uint16) {
	return Number(imm >> sequenceBits), uint16(imm)
}

// Counter counts the notices that a peer gave for one number, from its join on,
// however early they came: a counter is never set back. It may be read by any
// goroutine.
type Counter struct {
	count atomic.Uint64

	// What was counted, by sequence, for those who ask: a ring of four windows.
	// Where the notices are (head) and the window before it is in use; entering
	// a window clears the next.
	seen    [4 * noticeWindow / 64]atomic.Uint64
	head    atomic.Uint32 // the newest window entered, of the 64 that sequences have
	enter   sync.Mutex
	waiters atomic.Int32

	mu    sync.Mutex
	gone  error
	wake  chan struct{} // closed at each change while somebody waits
	calls []counterCall
}

type counterCall struct {
	at   uint64
	call func()
}

const windows = 1 << sequenceBits / noticeWindow

// take counts a notice. Each is given once: one that failed with its rail is sent
// again only where it was not counted (see ask).
func (c *Counter) take(sequence uint16) {
	switch ahead := c.ahead(sequence); {
	case ahead > 0:
		c.move(uint32(sequence) / noticeWindow)
		fallthrough
	case ahead >= -1:
		word, bit := c.at(sequence)
		word.Or(bit)
	}
	// Nobody asks about one of longer ago: it has completed.
	c.count.Add(1)
	if c.waiters.Load() != 0 {
		c.tell()
	}
}

// has tells whether a notice was counted that has not completed.
func (c *Counter) has(sequence uint16) bool {
	word, bit := c.at(sequence)
	return c.ahead(sequence) <= 0 && word.Load()&bit != 0
}

// ahead is how many windows a sequence's is ahead of the head.
func (c *Counter) ahead(sequence uint16) int {
	ahead := (uint32(sequence)/noticeWindow - c.head.Load()) % windows
	return int(ahead+windows/2)%windows - windows/2
}

func (c *Counter) at(sequence uint16) (*atomic.Uint64, uint64) {
	return &c.seen[uint32(sequence)%(4*noticeWindow)/64], 1 << (sequence % 64)
}

// move enters a window. Whoever comes to it meanwhile waits until what it will
// need has been cleared.
func (c *Counter) move(window uint32) {
	c.enter.Lock()
	defer c.enter.Unlock()
	for {
		head := c.head.Load()
		if ahead := (window - head) % windows; ahead == 0 || ahead >= windows/2 {
			return
		}
		next := (head + 1) % windows
		first := (next + 1) % 4 * (noticeWindow / 64)
		for i := range noticeWindow / 64 {
			c.seen[first+uint32(i)].Store(0)
		}
		c.head.Store(next)
	}
}

// Count is how many notices came.
func (c *Counter) Count() uint64 { return c.count.Load() }

// Word is the count itself, for those who poll it. It must not be written.
func (c *Counter) Word() *atomic.Uint64 { return &c.count }

// Wait returns when n notices have come since the peer joined, or the context
// ends, or the peer is gone.
func (c *Counter) Wait(ctx context.Context, n uint64) error {
	for {
		if c.Count() >= n {
			return nil
		}
		c.mu.Lock()
		if c.wake == nil {
			c.wake = make(chan struct{})
			c.waiters.Add(1)
		}
		wake, gone := c.wake, c.gone
		c.mu.Unlock()
		switch {
		case c.Count() >= n:
			return nil
		case gone != nil:
			return fmt.Errorf("%d of %d notices came: %w", c.Count(), n, gone)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d notices came: %w", c.Count(), n, context.Cause(ctx))
		}
	}
}

// Call has f called once n notices have come, by a worker, whose transfers wait
// meanwhile: it must not block. It is called at once if they have, and never if
// the peer goes before.
func (c *Counter) Call(n uint64, f func()) {
	c.mu.Lock()
	c.calls = append(c.calls, counterCall{n, f})
	c.waiters.Add(1)
	c.mu.Unlock()
	c.tell()
}

// tell wakes those for whom something may have changed.
func (c *Counter) tell() {
	c.mu.Lock()
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
		c.waiters.Add(-1)
	}
	var due []func()
	left := c.calls[:0]
	for _, call := range c.calls {
		if c.Count() >= call.at {
			due = append(due, call.call)
			c.waiters.Add(-1)
		} else {
			left = append(left, call)
		}
	}
	c.calls = left
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// end tells those who wait that no more will come.
func (c *Counter) end(err error) {
	c.mu.Lock()
	c.gone = err
	c.mu.Unlock()
	c.tell()
}
