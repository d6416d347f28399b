package device

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

const (
	// window is how many messages a device has active at once. The order of
	// delivery is drawn among them; more would only cost cache.
	window = 64
	// fetchTurn is how many entries of one send queue are fetched before the next
	// queue's turn.
	fetchTurn = 16
	// fetchTurns is how many such turns there are before delivering goes on.
	fetchTurns = 16
	// A turn at delivering ends after so many packets or bytes, for control
	// operations and unmapping wait for it.
	turnPackets = 128
	turnBytes   = 512 << 10
	// idleTurns is how often an idle worker looks again before it sleeps: some
	// microseconds, for waking a goroutine costs as much.
	idleTurns = 32
)

// worker is a device's goroutine and what only it touches, holding the device's lock
// shared; or a control operation, holding it alone.
type worker struct {
	d      *Device
	wakeC  chan struct{}
	parked atomic.Bool
	quit   chan struct{}
	ended  chan struct{}
	timer  *time.Timer

	// Queue pairs with entries to fetch, in the order of their turns.
	run     [maxQPs]*queuePair
	runHead int
	runLen  int

	flows   []*flow // with active messages
	byPeer  map[*Device]*flow
	byFar   map[*far]*flow
	mail    *linkSlot // answered, not yet taken back
	nobody  flow      // of addresses that no device has
	active  int
	heap    waiting
	free    *message
	rng     uint64
	fetched uint64
	// lineBusy: something has waited for this device's line ever since it was idle.
	lineBusy bool
	grh      [grhSize]byte
	mine     tally // since the last time it was added to the statistics
	theirs   tally // the same for the peer whose turn it is
	// Queue pairs to report as drained once the locks are released.
	drained []uint16
}

func (w *worker) start(d *Device) {
	w.d = d
	w.wakeC = make(chan struct{}, 1)
	w.quit = make(chan struct{})
	w.ended = make(chan struct{})
	w.byPeer, w.byFar = map[*Device]*flow{}, map[*far]*flow{}
	w.rng = mix(d.fabric.opts.Seed, d.id)
	w.timer = time.NewTimer(time.Hour)
	go w.loop()
}

// wake wakes the worker if it sleeps.
func (d *Device) wake() {
	if d.w.parked.Load() && d.w.parked.CompareAndSwap(true, false) {
		select {
		case d.w.wakeC <- struct{}{}:
		default:
		}
	}
}

func (w *worker) loop() {
	defer close(w.ended)
	defer w.timer.Stop()
	idle := 0
	for {
		f, worked := w.collect()
		if f != nil {
			w.turn(f)
		}
		if worked || f != nil {
			idle = 0
			continue
		}
		if idle++; idle < idleTurns {
			runtime.Gosched()
			continue
		}
		if !w.sleep() {
			return
		}
		idle = 0
	}
}

// rung reports whether a doorbell wants the worker.
func (w *worker) rung() bool {
	d := w.d
	for i := range d.rung {
		if d.rung[i].Load() != 0 {
			return true
		}
	}
	for i := range d.armedCQ {
		if d.armedCQ[i].Load() != 0 {
			return true
		}
	}
	for i := range d.armedEQ {
		if d.armedEQ[i].Load() != 0 {
			return true
		}
	}
	return d.mail.Load() != nil || w.mail != nil
}

// sleep waits for a doorbell or for what is due; false when the device closes.
func (w *worker) sleep() bool {
	w.parked.Store(true)
	if w.rung() {
		w.parked.Store(false)
		return true
	}
	w.d.mu.RLock()
	next := int64(-1)
	if len(w.heap) > 0 && !w.d.fatal {
		next = max(0, w.heap[0].due-since())
	}
	w.d.mu.RUnlock()
	var due <-chan time.Time
	if next >= 0 {
		w.timer.Reset(time.Duration(next))
		due = w.timer.C
	}
	select {
	case <-w.quit:
		return false
	case <-w.wakeC:
	case <-due:
	}
	w.parked.Store(false)
	return true
}

// collect serves the doorbells: it takes back messages that are due and fetches
// requests, as far as there is room for active ones, flushes queues in error, arms.
// It gives the flow whose turn is next, if any, and reports whether there was
// anything to do. Its work is bounded, whatever users ring meanwhile.
func (w *worker) collect() (*flow, bool) {
	d := w.d
	d.mu.RLock()
	if !d.fatal {
		w.retry()
	}
	worked := w.rung()
	if worked || w.runLen > 0 && w.active < window {
		d.opts.Memory.Lock()
		if worked {
			w.serve()
		}
		for turns := 0; turns < fetchTurns && !d.fatal && w.active < window && w.runLen > 0; turns++ {
			worked = true
			qp := w.run[w.runHead]
			w.run[w.runHead] = nil
			w.runHead = (w.runHead + 1) % maxQPs
			w.runLen--
			qp.queued = false
			w.fetch(qp)
		}
		w.mine.add(&d.stats)
		d.opts.Memory.Unlock()
	}
	var next *flow
	if n := len(w.flows); n > 0 && !d.fatal {
		next = w.flows[0]
		if n > 1 {
			next = w.flows[w.random()%uint64(n)]
		}
	}
	if next == nil && len(w.heap) == 0 && w.runLen == 0 {
		w.lineBusy = false
	}
	d.mu.RUnlock()
	d.raise()
	w.tellDrained()
	return next, worked
}

// retry makes messages active that are due, some at a time, so that neither they nor
// new requests wait for ever.
func (w *worker) retry() {
	if len(w.heap) == 0 || w.active >= window {
		return
	}
	now := since()
	for n := 0; n < window/2 && w.active < window && len(w.heap) > 0 && w.heap[0].due <= now; n++ {
		w.activate(w.heap.remove(0))
	}
}

// serve looks at what was rung.
func (w *worker) serve() {
	d := w.d
	if d.mail.Load() != nil || w.mail != nil {
		w.mailed()
	}
	for i := range d.armedCQ {
		for set := d.armedCQ[i].Swap(0); set != 0; set &= set - 1 {
			if cq := d.cqs[i*64+trailing(set)].Load(); cq != nil {
				cq.arm(d)
			}
		}
	}
	for i := range d.armedEQ {
		for set := d.armedEQ[i].Swap(0); set != 0; set &= set - 1 {
			if eq := d.eqs[i*64+trailing(set)].Load(); eq != nil {
				eq.arm(d)
			}
		}
	}
	for i := range d.rung {
		for set := d.rung[i].Swap(0); set != 0; set &= set - 1 {
			qp := d.qps[i*64+trailing(set)].Load()
			switch {
			case qp == nil:
			case qp.in(wire.QPStateError):
				d.flush(qp)
			default:
				w.enqueue(qp)
			}
		}
	}
}

// random is a xorshift generator.
func (w *worker) random() uint64 {
	w.rng ^= w.rng << 13
	w.rng ^= w.rng >> 7
	w.rng ^= w.rng << 17
	return w.rng
}
