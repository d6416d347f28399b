package mrcache

import "time"

// flight is a registration under way. Who wants a part of it waits for it.
type flight struct {
	plan
	waiters int
	alone   bool  // nobody tells when this memory goes: it is for who asked first
	stale   Cause // it was invalidated meanwhile
	done    chan struct{}
	e       *entry // with a reference for each waiter
	err     error
}

// most times that a request starts over because its memory was taken away while
// it was registered.
const mostTries = 16

// miss registers what no entry holds, or waits for somebody who does.
func (r *rail) miss(q request) (Ref, error) {
	if err := q.check(); err != nil {
		return Ref{}, &Error{Op: "register", Rail: r.name, Range: q.Range, Err: err}
	}
	for range mostTries {
		if q.Alloc.Space == Host && r.c.watch != nil {
			r.c.watch.settle()
		}
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return Ref{}, &Error{Op: "register", Rail: r.name, Range: q.Range, Err: ErrClosed}
		}
		if e := r.index.find(&q); e != nil {
			r.mu.Unlock()
			return Ref{e, q.Addr - e.start}, nil
		}
		f := r.joinable(&q)
		if f != nil {
			f.waiters++
			r.stats.joined++
			r.mu.Unlock()
			<-f.done
			if f.alone {
				continue
			}
		} else {
			f = &flight{plan: r.plan(&q), waiters: 1, done: make(chan struct{})}
			f.alone = !r.c.told(q.Alloc)
			r.flights = append(r.flights, f)
			r.stats.misses[f.reason]++
			r.fly(f) // gives the lock back
		}
		switch {
		case f.e != nil && q.inside(f.e.start, f.e.end):
			return Ref{f.e, q.Addr - f.e.start}, nil
		case f.e != nil: // less was registered than was planned
			ref := Ref{f.e, 0}
			ref.Release()
		case f.err != nil && f.own == q:
			return Ref{}, f.err
		}
	}
	return Ref{}, &Error{Op: "register", Rail: r.name, Range: q.Range, Err: ErrStale,
		Detail: "the range was taken away during each of several registrations; free and register it in one order"}
}

// joinable is a flight that will hold the request.
func (r *rail) joinable(q *request) *flight {
	for _, f := range r.flights {
		if f.Alloc == q.Alloc && f.stale == 0 && !f.alone && f.access.serves(q.access) && q.inside(f.Addr, f.End()) && f.waiters < refMask/2 {
			return f
		}
	}
	return nil
}

// fly carries a registration out. It is called with the lock, and gives it back.
func (r *rail) fly(f *flight) {
	err := r.reserve(f.Range)
	for err != nil && f.shrink() {
		err = r.reserve(f.Range)
	}
	if err == nil {
		r.mu.Unlock()
		var reg Registration
		var took time.Duration
		if reg, took, err = r.register(f); err == nil {
			r.land(f, reg, took)
			return
		}
		r.mu.Lock()
		r.bytes -= f.Length
		r.count--
		r.stats.failures++
		defer r.trace(f.event(took, err))
	}
	r.ended(f)
	if f.stale == 0 {
		f.err = err
	} // else who waits tries again
	r.mu.Unlock()
	close(f.done)
}

// register asks the NIC, and if it has no room, once more when what was idle is
// gone; then for no more than was asked for.
func (r *rail) register(f *flight) (reg Registration, took time.Duration, err error) {
	r.c.slots <- struct{}{}
	defer func() { <-r.c.slots }()
	if f.keep && r.c.mustWatch(f.Alloc) {
		if err := r.c.watch.add(f.Addr, f.End()); err != nil {
			r.mu.Lock()
			f.keep, f.reason, f.alone, f.unwatched = false, ReasonUnwatched, true, err
			r.mu.Unlock()
			r.trim(f)
		}
	}
	start := time.Now()
	for evicted := false; ; {
		reg, err = r.registrar.Register(f.Range, f.access)
		took = time.Since(start)
		switch {
		case err == nil:
			return reg, took, nil
		case exhausted(err) && !evicted:
			evicted = true
			f.freed = r.giveBack(f.Length)
		case exhausted(err) || tooLarge(err):
			if !r.trim(f) {
				return nil, took, r.explain(f, err)
			}
			evicted = false
		default:
			return nil, took, err
		}
	}
}

// trim goes back to what was asked for, if more was planned.
func (r *rail) trim(f *flight) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := f.Length
	if !f.shrink() {
		return false
	}
	r.bytes -= was - f.Length
	r.changed.Broadcast()
	return true
}

// land makes an entry of a registration, unless its memory went meanwhile.
func (r *rail) land(f *flight, reg Registration, took time.Duration) {
	e := &entry{
		start: f.Addr, end: f.End(), id: f.Alloc.ID, access: f.access, space: f.Alloc.Space, level: levelOf(f.Length),
		reg: reg, rail: r, base: f.Base, extent: f.Size,
	}
	var idle []*entry
	r.mu.Lock()
	r.stats.registered(took)
	r.ended(f)
	switch {
	case f.stale != 0 || r.closed:
		e.state.Store(deadBit)
		e.cause = f.stale
		r.dying[e] = struct{}{}
		idle = append(idle, e)
		if r.closed {
			f.err = &Error{Op: "register", Rail: r.name, Range: f.Range, Err: ErrClosed}
		}
	default:
		f.e = e
		s := uint64(f.waiters) * refOne
		if f.alone {
			s = refOne
		}
		if !f.keep {
			s |= deadBit
			e.cause = CauseUsed
			r.dying[e] = struct{}{}
		}
		e.state.Store(s)
		if f.keep {
			r.keep(e)
			for _, v := range f.victims {
				if !v.dead() {
					idle = r.retire(v, CauseMerged, idle)
				}
			}
		}
	}
	r.mu.Unlock()
	close(f.done)
	r.trace(f.event(took, nil))
	for _, e := range idle {
		r.deregister(e)
	}
}

// ended takes a flight off the list. Under the lock.
func (r *rail) ended(f *flight) {
	for i := range r.flights {
		if r.flights[i] == f {
			r.flights[i] = r.flights[len(r.flights)-1]
			r.flights = r.flights[:len(r.flights)-1]
			break
		}
	}
	r.changed.Broadcast()
}
