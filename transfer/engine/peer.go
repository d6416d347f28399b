package engine

import (
	"context"
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
	// Close ends the connection; Receive then fails.
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
	all         railSet
	upRails     sharedSet // those that are connected now
	goodRails   sharedSet // and have not failed since they last carried something
	workersUp   int       // that have any of these: the first ones

	at       []*peerAt // by worker
	counters counters
	warmups  Counter // of warmNumber
	own      Target  // of what names no region of the peer's
	in       inbox
	out      outbox
	meetings map[string]*meeting // barriers, by name; under the engine's lock of them
	workers  atomic.Int32        // that still have something of the peer
	idle     chan struct{}       // none has
	ended    chan struct{}       // the peer is gone
	fenced   chan struct{}       // nothing of the peer lands any more
	up       chan struct{}       // one rail is connected
	upOnce   sync.Once
	endOnce  sync.Once
	fails    atomic.Uint64 // how often a rail failed
	watched  atomic.Bool   // whether they carry anything is being looked at

	next atomic.Uint32 // whose turn it is among the workers
	gate sync.RWMutex  // jobs are queued under it, so that none comes after the end
	gone bool

	mu      sync.Mutex
	err     error
	notices map[Number]*outgoing
	targets map[string]*Target // what the peer granted, by name
	grants  map[string]*grant  // what it was granted
	changed chan struct{}      // closed at each change of what is above
	timers  map[*timer]struct{}
	last    error // the last trouble of a rail
	ups     int   // rails that are connected
	downs   int   // how often one was lost

	warming sync.Mutex    // one Warm at a time
	warmed  chan struct{} // what it waits for
	asked   atomic.Bool   // the peer's is under way
}

// Name is what the peer calls itself: its Options.Name.
func (p *Peer) Name() string { return p.name }

// Identity is who the peer has proved to be, as control.Conn.Peer gives it.
func (p *Peer) Identity() string { return p.identity }

// Incarnation tells this run of the peer's engine from all others.
func (p *Peer) Incarnation() uint64 { return p.incarnation }

// Err is why the peer is gone; nil while it is not.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Gone is closed when the peer is gone, and Err tells why: transfers to it fail.
// Some of what it wrote may land still, until Fenced.
func (p *Peer) Gone() <-chan struct{} { return p.ended }

// Fenced is closed when the peer is gone and no NIC of this side takes anything
// of it any more: what it could write is free.
func (p *Peer) Fenced() <-chan struct{} { return p.fenced }

// Counter gives the counter of a number, nil if there are as many as Options
// allow, or the number is above MaxNumber.
func (p *Peer) Counter(n Number) *Counter {
	if n > MaxNumber {
		return nil
	}
	c := p.counter(n)
	if err := p.Err(); err != nil && c != nil {
		c.end(err) // it may be younger than the end
	}
	return c
}

func (p *Peer) counter(n Number) *Counter {
	if n == warmNumber {
		return &p.warmups
	}
	return p.counters.find(n, p.e.o.Counters)
}

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
		p.mu.Lock()
		if p.last != nil {
			err = fmt.Errorf("%w (before that: %w)", err, p.last)
		}
		p.err = err
		timers := p.timers
		p.timers = nil
		p.change()
		p.mu.Unlock()
		p.gate.Lock()
		p.gone = true // whoever sees it finds the error
		p.gate.Unlock()
		close(p.ended)
		for t := range timers {
			t.stop()
		}
		p.e.forget(p)
		for _, a := range p.at {
			a.w.do(func() { a.lose(err) })
		}
		p.upOnce.Do(func() { close(p.up) })
		p.counters.each(func(c *Counter) { c.end(err) })
		p.in.end(err)
		p.out.end(err)
		p.e.barriers.change()
		if p.e.o.Manual != nil {
			p.control.Close()
			return // the last worker does the rest
		}
		go func() {
			p.control.Close()
			<-p.idle
			p.out.close()
			close(p.fenced)
			p.e.ending.Done()
		}()
	})
}

// workerDone notes that one worker more has nothing of the peer.
func (p *Peer) workerDone() {
	if p.workers.Add(-1) > 0 {
		return
	}
	close(p.idle)
	if p.e.o.Manual != nil {
		p.out.close()
		close(p.fenced)
		p.e.ending.Done()
	}
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
	t := new(timer)
	t.stop = p.e.later(d, func() {
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

// timer is something that is to be done later.
type timer struct{ stop func() }

// later has f called after a time.
func (e *Engine) later(d time.Duration, f func()) (stop func()) {
	if m := e.o.Manual; m != nil {
		return m.After(d, f)
	}
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
