package mrcache

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Invalidate takes everything out that overlaps the range, on all rails: call it
// before memory is freed, or is mapped anew. A number of 0 means any allocation
// at these addresses; no length, the whole of the allocation of that number. No
// later request hits what was there. It returns when the NICs have no
// registration of it any more, or when ctx ends: then the error says who still
// refers to it, and what they release is deregistered.
func (c *Cache) Invalidate(ctx context.Context, r Range) error {
	if r.Alloc.Space == 0 || r.Alloc.Space >= spaces || r.Length == 0 && r.Alloc.ID == 0 || r.End() < r.Addr {
		return &Error{Op: "invalidate", Range: r, Err: ErrInvalid, Detail: "it takes a range of addresses, or the number of an allocation"}
	}
	errs := []error{deregisterAll(c.take(r, CauseInvalidated))}
	for _, rl := range c.rails {
		errs = append(errs, rl.drain(ctx, "invalidate", r))
	}
	return errors.Join(errs...)
}

// covers tells that an invalidation of r concerns bytes of an allocation.
func (r *Range) covers(a Allocation, start, end uint64) bool {
	switch {
	case a.Space != r.Alloc.Space, a.ID != r.Alloc.ID && (r.Alloc.ID != 0 || !a.Space.addressed()):
		return false
	case r.Length == 0:
		return true
	}
	return start < r.End() && r.Addr < end
}

// take takes out what an invalidation concerns. Who calls deregisters what is idle.
func (c *Cache) take(r Range, cause Cause) (idle []*entry) {
	for _, rl := range c.rails {
		idle = rl.take(r, cause, idle)
	}
	return idle
}

func (r *rail) take(what Range, cause Cause, idle []*entry) []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.flights {
		if what.covers(f.Alloc, f.Addr, f.End()) && f.stale == 0 {
			f.stale = cause
		}
	}
	var hit []*entry
	note := func(e *entry) {
		if what.covers(Allocation{e.space, e.id}, e.start, e.end) {
			hit = append(hit, e)
		}
	}
	if what.Length == 0 {
		r.all(note)
	} else {
		r.index.touching(what.Alloc, what.Addr, what.End(), r.all, note)
	}
	for _, e := range hit {
		idle = r.retire(e, cause, idle)
	}
	return idle
}

// drain waits until nothing of the range is registered, nor about to be.
func (r *rail) drain(ctx context.Context, op string, what Range) error {
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		r.changed.Broadcast()
		r.mu.Unlock()
	})()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var busy []Holder
		refused, left := 0, 0
		for e := range r.dying {
			if !what.covers(Allocation{e.space, e.id}, e.start, e.end) {
				continue
			}
			left++
			switch n := e.refs(); {
			case n > 0:
				busy = append(busy, Holder{r.name, e.span(), n})
			case e.stuck && !e.closing:
				refused++
			}
		}
		for _, f := range r.flights {
			if f.stale != 0 && what.covers(f.Alloc, f.Addr, f.End()) {
				left++
			}
		}
		if left == refused {
			return nil // those errors were told
		}
		if ctx.Err() != nil {
			return &Error{Op: op, Rail: r.name, Range: what, Err: errors.Join(ErrBusy, ctx.Err()), Holders: busy,
				Detail: "registrations are not gone yet; wait for the transfers to complete, then release them"}
		}
		r.changed.Wait()
	}
}

// dropped deregisters in the background what was taken out.
func dropped(idle []*entry) {
	if len(idle) > 0 {
		go deregisterAll(idle) // an error shows in the statistics, and when the cache is closed
	}
}

func deregisterAll(idle []*entry) error {
	var errs []error
	for _, e := range idle {
		errs = append(errs, e.rail.deregister(e))
	}
	return errors.Join(errs...)
}

// Sweep asks for the identity of what is kept, where Identify can tell, and takes
// out allocations that are gone: a registration keeps their memory pinned. It
// tells how many registrations it took out.
func (c *Cache) Sweep() (int, error) {
	var errs []error
	n := 0
	for _, r := range c.rails {
		live := make(map[Allocation]Range)
		r.mu.Lock()
		r.all(func(e *entry) {
			if a := (Allocation{e.space, e.id}); c.identify[e.space] != nil {
				live[a] = e.span()
			}
		})
		r.mu.Unlock()
		for a, span := range live {
			if id, err := c.identify[a.Space](span); err == nil && id == a.ID {
				continue
			}
			idle := r.take(Range{Alloc: a}, CauseIdentity, nil)
			n += len(idle)
			errs = append(errs, deregisterAll(idle))
		}
	}
	return n, errors.Join(errs...)
}

func (c *Cache) sweeping(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.Sweep()
		case <-c.stop:
			return
		}
	}
}

// Close deregisters everything. From its begin on, requests fail with ErrClosed.
// It waits for transfers to release what they refer to, until ctx ends; its error
// then says what is still held, and it may be called again.
func (c *Cache) Close(ctx context.Context) error {
	c.ending.Do(func() {
		close(c.stop)
		if c.watch != nil {
			c.watch.close()
		}
	})
	var errs []error
	for _, r := range c.rails {
		var mine []*entry
		r.mu.Lock()
		r.closed = true
		for r.hand != nil {
			mine = r.retire(r.hand, CauseClosed, mine)
		}
		for e := range r.dying {
			if e.stuck && !e.closing {
				mine = append(mine, e)
			}
		}
		mine = append(mine, r.doomed...)
		r.doomed = nil
		r.mu.Unlock()
		for _, e := range mine {
			if err := r.deregister(e); err != nil {
				errs = append(errs, &Error{Op: "deregister", Rail: r.name, Range: e.span(), Err: err})
			}
		}
	}
	for _, r := range c.rails {
		errs = append(errs, r.drainAll(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.helpers.Wait() // Sweep's
	return nil
}

// drainAll waits until nothing is registered or about to be, except what the NIC
// refuses to deregister.
func (r *rail) drainAll(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		r.changed.Broadcast()
		r.mu.Unlock()
	})()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		refused := 0
		for e := range r.dying {
			if e.stuck && !e.closing && e.refs() == 0 {
				refused++
			}
		}
		if len(r.dying) == refused && len(r.flights) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return &Error{Op: "close", Rail: r.name, Err: errors.Join(ErrBusy, ctx.Err()), Holders: r.holders(),
				Detail: fmt.Sprintf("%d registrations are left, %d under way; release them, then close again", len(r.dying), len(r.flights))}
		}
		r.changed.Wait()
	}
}
