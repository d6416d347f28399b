package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/transfer"
)

// worker drives some of the rails. Everything below it belongs to its goroutine,
// and none of it is another's: jobs come by a queue, commands by a list.
//
// It is a machine of steps: loop takes them on a thread, and a simulator could.
type worker struct {
	e     *Engine
	index int
	rails []*rail
	spec  WorkerSpec

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

// rail is a NIC's queues, and what is on its way there.
type rail struct {
	w     *worker
	index int // among the engine's
	local int // among the worker's
	rail  Rail
	info  transfer.Info
	depth int

	slots []slot
	free  []uint32
	ops   []transfer.Op // staged: the next doorbell's
	got   []transfer.Completion
	links []*link // by the rail's number of the peer

	count railCount
}

// slot is one work request on its way.
type slot struct {
	link   *link
	job    *job
	piece  Segment
	kind   transfer.OpKind
	imm    uint32
	tries  uint8
	marked bool // imm is set, and stays whatever rail it goes by
}

// sequence gives a notice its immediate, false if none is to be had now.
func (s *slot) sequence() bool {
	if !s.marked {
		n, ok := s.job.out.take()
		if !ok {
			return false
		}
		s.imm, s.marked = immediate(s.job.number, n), true
	}
	return true
}

func (w *worker) add(r Rail, index int) {
	one := &rail{w: w, index: index, local: len(w.rails), rail: r, info: r.Info(), depth: r.Depth()}
	if most := w.e.o.Depth; most > 0 {
		one.depth = min(one.depth, most)
	}
	one.slots = make([]slot, 0, one.depth+w.e.o.Batch)
	one.ops = make([]transfer.Op, 0, w.e.o.Batch)
	one.got = make([]transfer.Completion, 64)
	w.rails = append(w.rails, one)
}

// take gives a slot. There are as many as were ever needed at once.
func (r *rail) take() uint32 {
	if n := len(r.free); n > 0 {
		s := r.free[n-1]
		r.free = r.free[:n-1]
		return s
	}
	r.slots = append(r.slots, slot{})
	return uint32(len(r.slots) - 1)
}

// give takes a slot back. What it points to is forgotten when it is used again.
func (r *rail) give(s uint32) {
	of := &r.slots[s]
	of.imm, of.tries, of.marked = 0, 0, false
	r.free = append(r.free, s)
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
		if r.poll() {
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
// Who got something and has more comes after those that got nothing.
func (w *worker) stage() (busy bool) {
	for again := true; again; {
		turns, served := w.turns, w.served[:0]
		w.turns, w.spare = w.spare[:0], turns
		for _, p := range turns {
			took := p.stage(w.e.o.Batch)
			busy = busy || took > 0
			switch {
			case p.idle():
				p.inTurn = false
			case took > 0:
				served = append(served, p)
			default:
				w.turns = append(w.turns, p)
			}
		}
		w.turns = append(w.turns, served...)
		w.served, again = served, len(served) > 0
	}
	return busy
}

// ring posts what is staged; what does not fit stays staged.
func (r *rail) ring() bool {
	if len(r.ops) == 0 {
		return false
	}
	n, err := r.rail.Post(r.ops)
	if err != nil && n < len(r.ops) {
		// It is the operation's fault: another rail would refuse it too.
		r.refused(uint32(r.ops[n].ID), err)
		n++
	}
	r.count.posted.Add(uint64(n))
	left := copy(r.ops, r.ops[n:])
	r.ops = r.ops[:left]
	return n > 0
}

// poll takes what has completed.
func (r *rail) poll() bool {
	n, err := r.rail.Poll(r.got)
	for i := range r.got[:n] {
		r.completed(&r.got[i])
	}
	if n > 0 {
		r.count.show()
	}
	if err != nil {
		for _, l := range r.links {
			if l != nil {
				l.fail(fmt.Errorf("rail %d, %s: %w", r.index, r.info.Device, err))
			}
		}
	}
	return n > 0
}

func (r *rail) completed(c *transfer.Completion) {
	switch c.Kind {
	case transfer.Done:
		s := &r.slots[c.ID]
		j, l, length, imm, notice := s.job, s.link, s.piece.Length, s.imm, s.marked
		r.give(uint32(c.ID))
		l.flight--
		j.flight--
		j.placed(length)
		r.count.done++
		r.count.bytes += length
		if notice {
			_, sequence := splitImmediate(imm)
			j.out.arrived(sequence)
		}
		if j.flight == 0 {
			j.settle()
		}
		if l.state == linkDown {
			l.settle()
		}
	case transfer.Failed:
		r.failed(uint32(c.ID), c.Err)
	case transfer.Lost:
		if l := r.link(c.Peer); l != nil {
			l.fail(c.Err)
		}
	case transfer.Notice:
		if l := r.link(c.Peer); l != nil {
			l.notice(c.Imm)
		}
	case transfer.Message:
		// Nothing is sent as a message yet: a receive was used, no more.
		if l := r.link(c.Peer); l != nil {
			l.used()
		}
	}
}

func (r *rail) link(p transfer.Peer) *link {
	if int(p) < len(r.links) {
		return r.links[p]
	}
	return nil
}

// refused ends a request that no rail would take.
func (r *rail) refused(id uint32, err error) {
	s := r.slots[id]
	r.give(id)
	s.link.flight--
	s.job.flight--
	s.job.fail(err)
	s.job.settle()
	s.link.settle()
}

// failed takes a request back that was not carried out, or not known to be.
func (r *rail) failed(id uint32, err error) {
	s := r.slots[id]
	r.give(id)
	r.count.failed.Add(1)
	s.link.flight--
	s.job.flight--
	s.job.held++
	s.tries++
	if s.job.once || !errors.Is(err, transfer.ErrFlushed) && (faultOfRequest(err) || s.tries >= maxTries) {
		s.job.fail(err)
	}
	s.link.stranded = append(s.link.stranded, s)
	s.link.fail(err)
	s.link.settle()
}

// maxTries is how many rails may fail under one request before it is held to be
// the cause.
const maxTries = 4

// failQueued fails what came too late to be begun.
func (w *worker) failQueued() {
	for range len(w.queue) {
		j := <-w.queue
		j.at.active++
		j.fail(ErrClosed)
		j.settle()
	}
}

// loop takes steps until the worker is stopped. It ends with every rail closed.
func (w *worker) loop(opened chan<- error) {
	if len(w.spec.CPUs) > 0 {
		runtime.LockOSThread() // and never unlocked: the thread ends with it
		if err := bind(w.spec.CPUs); err != nil {
			opened <- fmt.Errorf("bind worker %d to CPUs %v: %w", w.index, w.spec.CPUs, err)
			close(w.ended)
			return
		}
	}
	opened <- w.open()
	w.run()
}

func (w *worker) run() {
	defer close(w.ended)
	idle := time.Time{}
	for !w.stop.Load() {
		if w.turn() {
			idle = time.Time{}
			continue
		}
		switch now := time.Now(); {
		case idle.IsZero():
			idle = now
		case now.Sub(idle) >= w.e.o.Spin:
			w.sleep()
			idle = time.Time{}
		default:
			runtime.Gosched()
		}
	}
}

// turn is a step, of one worker at a time where they are to share a lock.
func (w *worker) turn() bool {
	if w.e.o.OneLock {
		w.e.lock.Lock()
		defer w.e.lock.Unlock()
	}
	return w.step()
}

func bind(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(0, &set)
}

// starvedTime is how long a worker sleeps at most whose notice waits for another's.
const starvedTime = 200 * time.Microsecond

// sleep waits until a rail has something, or there is a job, a command or an end.
func (w *worker) sleep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.starved {
		time.AfterFunc(starvedTime, cancel)
	}
	w.mu.Lock()
	w.wake = cancel
	w.mu.Unlock()
	w.asleep.Store(true)
	defer func() {
		w.asleep.Store(false)
		w.mu.Lock()
		w.wake = nil
		w.mu.Unlock()
	}()
	// Whoever came before asleep was set has not poked.
	if len(w.queue) > 0 || w.pending.Load() != 0 || w.cancels.Load() || w.stop.Load() {
		return
	}
	if len(w.rails) == 1 {
		w.rails[0].wait(ctx)
		return
	}
	// Each rail in a goroutine that has it to itself meanwhile; the first to
	// have something ends the others' wait.
	var waiting sync.WaitGroup
	for _, r := range w.rails {
		waiting.Go(func() {
			r.wait(ctx)
			cancel()
		})
	}
	waiting.Wait()
}

// wait waits for the rail. One that cannot wait is polled now and then.
func (r *rail) wait(ctx context.Context) {
	if err := r.rail.Wait(ctx); err != nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}
