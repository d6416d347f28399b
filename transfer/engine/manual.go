package engine

import (
	"errors"
	"fmt"
	"time"
)

// Manual has an engine driven by its caller, who is one goroutine: nothing
// happens but what the caller asks for, at times that are the caller's. It is how
// the engine runs on a simulator's clock (package sim).
//
// The caller takes the workers' steps (Step), delivers the peers' messages
// (Begin, Meet, Peer.Deliver) and keeps the time (After). The engine starts no
// goroutine and asks no clock. What would wait for others to act is ErrWaits: Connect,
// Barrier, Warm; Receive, Send and Target where they do not find at once what they
// are for; an operation that finds no room in a worker's queue. Counter.Wait,
// Transfer.Wait, Withdraw and Peer.Close would wait for ever: look, or be called.
// What peers ask for, but not to warm up, which is no more than a help, is done.
type Manual struct {
	// Wake tells that a worker has been given something to do: an operation, a
	// command, a cancellation. It may be called from within a step and must not
	// take one.
	Wake func(worker int)
	// After calls f later, unless stop is called before.
	After func(d time.Duration, f func()) (stop func())
}

// ErrWaits: the caller drives the engine (Options.Manual), and it would wait for
// what the caller is to do. Take steps, and try again.
var ErrWaits = errors.New("an engine that its caller drives does not wait")

// Step has a worker do what there is to do, once; false if there was nothing.
// Until Wake is called for it, or one of its rails has a completion, there will be
// nothing again.
func (e *Engine) Step(worker int) bool { return e.workers[worker].step() }

// Begin sends the engine's first message on a control connection. Both sides call
// it, and then Meet with what the other has sent.
func (e *Engine) Begin(c Control) error { return e.hello(c) }

// Meet joins the peer that sent the first message on a control connection, and
// takes the connection over. What comes from then on goes to the peer's Deliver.
// The first rail is connected when Up tells so.
func (e *Engine) Meet(c Control, dialled bool, kind uint16, payload []byte) (*Peer, error) {
	return e.admit(c, dialled, kind, payload)
}

// Up is how many rails are connected to the peer. It belongs to the goroutine that
// drives the engine.
func (p *Peer) Up() (n int) {
	for _, a := range p.at {
		for _, l := range a.links {
			if l != nil && l.state == linkUp {
				n++
			}
		}
	}
	return n
}

// Deliver acts on a message of the peer's.
func (p *Peer) Deliver(kind uint16, payload []byte) {
	if err := p.take(kind, payload); err != nil {
		p.end(fmt.Errorf("%w: %s: %w", ErrLost, p.name, err))
	}
}

// Hangup tells that the control connection has ended.
func (p *Peer) Hangup() { p.end(fmt.Errorf("%w: %s has left", ErrLost, p.name)) }

// openManual opens the workers' rails where no goroutine does.
func (e *Engine) openManual() error {
	var errs []error
	for _, w := range e.workers {
		errs = append(errs, w.open())
		close(w.ended) // nobody runs it
	}
	return errors.Join(errs...)
}

// drain takes steps until nothing is left to do.
func (e *Engine) drain() {
	for busy := true; busy; {
		busy = false
		for _, w := range e.workers {
			for w.step() {
				busy = true
			}
		}
	}
}
