package engine

import (
	"context"
	"sync"
	"sync/atomic"
)

// worker drives some of the rails. Everything below it belongs to its goroutine,
// and none of it is another's: jobs come by a queue, commands by a list.
//
// It is a machine of steps: loop takes them on a thread, and a simulator could.
type worker struct {
	e      *Engine
	index  int
	rails  []*rail
	drives railSet // their numbers
	spec   WorkerSpec

	queue chan *job

	// peers that have something to post, in the order of their turns.
	turns         []*peerAt
	spare, served []*peerAt // room for the next list of them
	// starved tells that a notice waits for another worker's.
	starved bool
	// cancels tells that some transfer was cancelled, or a region withdrawn.
	cancels atomic.Bool

	mu       sync.Mutex
	commands []func()
	pending  atomic.Int32 // commands that wait
	asleep   atomic.Bool
	wake     context.CancelFunc
	stop     atomic.Bool
	ended    chan struct{}
}

// do has the worker call f between two steps. After the end it is not called.
func (w *worker) do(f func()) {
	w.mu.Lock()
	w.commands = append(w.commands, f)
	w.pending.Store(int32(len(w.commands)))
	w.mu.Unlock()
	w.poke()
}

// heed is do, for what a peer asks: one that asks faster than the worker answers
// waits for it.
func (w *worker) heed(f func()) {
	if w.e.o.Manual == nil && w.pending.Load() > maxPending {
		w.call(f)
		return
	}
	w.do(f)
}

// maxPending is how many commands of peers wait at most.
const maxPending = 4096

// call has the worker call f and waits until it has; false if the worker ended.
func (w *worker) call(f func()) bool {
	done := make(chan struct{})
	w.do(func() { f(); close(done) })
	select {
	case <-done:
		return true
	case <-w.ended:
		return false
	}
}

// poke wakes the worker if it sleeps.
func (w *worker) poke() {
	if m := w.e.o.Manual; m != nil {
		m.Wake(w.index)
		return
	}
	if !w.asleep.Load() {
		return
	}
	w.mu.Lock()
	if w.wake != nil {
		w.wake()
	}
	w.mu.Unlock()
}

// step does what there is to do, once; false if there was nothing.
func (w *worker) step() bool {
	w.starved = false
	busy := w.pending.Load() != 0
	if busy {
		w.mu.Lock()
		commands := w.commands
		w.commands = nil
		w.pending.Store(0)
		w.mu.Unlock()
		for _, f := range commands {
			f()
		}
	}
	for range len(w.queue) {
		j := <-w.queue
		busy = true
		j.at.enqueue(j)
	}
	if w.cancels.Swap(false) {
		busy = true
		for _, p := range w.turns {
			p.dropStopped()
		}
	}
	if w.e.o.Eager && w.post() {
		busy = true
	}
	for _, r := range w.rails {
		if r.poll() > 0 {
			busy = true
		}
	}
	if w.post() {
		busy = true
	}
	return busy
}

// post hands the rails what the peers have to post, as long as they take it.
func (w *worker) post() (busy bool) {
	for w.stage() {
		busy = true
		rang := false
		for _, r := range w.rails {
			if r.ring() {
				rang = true
			}
		}
		if !rang || len(w.turns) == 0 {
			return true
		}
	}
	for _, r := range w.rails { // what a rail did not take before
		if r.ring() {
			busy = true
		}
	}
	return busy
}

// stage fills the rails' doorbells with what the peers have to post, peer by peer.
// Who got something and has more comes after those that got nothing, and those that
// were not asked because no doorbell had room any more.
func (w *worker) stage() (busy bool) {
	for again := true; again; {
		turns, served := w.turns, w.served[:0]
		w.turns, w.spare = w.spare[:0], turns
		full := false
		for i, p := range turns {
			took := p.stage(w.e.o.Batch)
			busy = busy || took > 0
			switch {
			case p.idle():
				p.inTurn = false
			case took > 0:
				served = append(served, p)
			default:
				w.turns = append(w.turns, p)
				full = w.full()
			}
			if full {
				w.turns = append(w.turns, turns[i+1:]...)
				break
			}
		}
		w.turns = append(w.turns, served...)
		w.served, again = served, len(served) > 0 && !full
	}
	return busy
}

// full tells whether no rail's next doorbell takes anything more.
func (w *worker) full() bool {
	for _, r := range w.rails {
		if len(r.ops) < cap(r.ops) {
			return false
		}
	}
	return true
}

// failQueued fails what came too late to be begun.
func (w *worker) failQueued() {
	for range len(w.queue) {
		j := <-w.queue
		j.at.active++
		j.fail(ErrClosed)
		j.settle()
	}
}
