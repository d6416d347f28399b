package mrcache

import (
	"sync"
	"sync/atomic"
	"time"
)

// rail is the cache of one NIC. Its lock is for misses and for what ends
// registrations; it is not held while the NIC registers or deregisters.
type rail struct {
	c         *Cache
	name      string
	registrar Registrar
	budget    Budget
	limits    Limits
	keeps     bool

	index index
	hits  atomic.Uint64 // those that entries do not count any more

	mu      sync.Mutex
	changed sync.Cond // a registration ended, or a flight
	hand    *entry    // the clock's; nil if nothing is kept
	kept    int
	dying   map[*entry]struct{} // dead, and still registered
	ending  int                 // of those, how many are being deregistered
	doomed  []*entry            // of those, what the next registration waits for
	flights []*flight
	bytes   uint64 // registered, or about to be
	count   int
	closed  bool
	stats   counts
}

func newRail(c *Cache, o Rail) *rail {
	r := &rail{
		c: c, name: o.Name, registrar: o.Registrar, budget: o.Budget, limits: o.Limits,
		keeps: o.Budget.Bytes > 0 && o.Budget.Count > 0, dying: make(map[*entry]struct{}),
	}
	r.changed.L = &r.mu
	r.index.init()
	return r
}

// all calls f with every entry that is kept. Under the lock.
func (r *rail) all(f func(*entry)) {
	e := r.hand
	for range r.kept {
		next := e.next // f may take it out
		f(e)
		e = next
	}
}

// keep puts an entry where lookups find it, and behind the clock's hand: it is
// the last that is looked at.
func (r *rail) keep(e *entry) {
	if r.hand == nil {
		e.prev, e.next, r.hand = e, e, e
	} else {
		e.prev, e.next = r.hand.prev, r.hand
		e.prev.next, e.next.prev = e, e
	}
	r.kept++
	r.index.add(e, r.all)
}

// retire takes an entry out, for a cause. If nobody refers to it, it is added to
// those that the caller must deregister after giving back the lock.
func (r *rail) retire(e *entry, cause Cause, idle []*entry) []*entry {
	mine := e.kill()
	r.unlist(e, cause)
	if mine {
		idle = append(idle, e)
	}
	return idle
}

func (r *rail) unlist(e *entry, cause Cause) {
	r.index.remove(e)
	if r.kept--; r.kept == 0 {
		r.hand = nil
	} else {
		e.prev.next, e.next.prev = e.next, e.prev
		if r.hand == e {
			r.hand = e.next
		}
	}
	e.prev, e.next = nil, nil
	e.cause = cause
	r.dying[e] = struct{}{}
	r.stats.ended[cause]++
}

// deregister ends a dead entry that nobody refers to. What the NIC refuses stays
// among the dying, and is tried again.
func (r *rail) deregister(e *entry) error {
	r.mu.Lock()
	if _, still := r.dying[e]; !still || e.closing {
		r.mu.Unlock()
		return nil
	}
	e.closing = true
	r.ending++
	r.mu.Unlock()
	start := time.Now()
	err := e.reg.Close()
	took := time.Since(start)
	r.mu.Lock()
	e.closing = false
	r.ending--
	if err == nil {
		delete(r.dying, e)
		r.bytes -= e.end - e.start
		r.count--
		r.hits.Add(e.hits())
	} else {
		e.stuck = true
		r.stats.stuck++
	}
	r.changed.Broadcast()
	r.mu.Unlock()
	r.trace(Event{Op: "deregister", Range: e.span(), Access: e.access, Took: took, Cause: e.cause, Err: err})
	return err
}
