package mrcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// plan is what a miss registers.
type plan struct {
	Range             // what is registered
	own       request // what was asked for
	least     Range   // the least that is registered for it
	access    Access
	reason    Reason
	keep      bool
	victims   []*entry // idle, and inside the range: not needed beside it
	freed     int      // registrations given back for want of room
	unwatched error
}

// told says that somebody tells when memory of the allocation goes: its number
// changes, or the kernel or the caller says so.
func (c *Cache) told(a Allocation) bool {
	return a.Space != Host || a.ID != 0 || c.explicit || c.watch != nil
}

// mustWatch says that only the kernel tells.
func (c *Cache) mustWatch(a Allocation) bool {
	return a.Space == Host && a.ID == 0 && !c.explicit
}

// plan decides what to register. It takes out what stands for another
// allocation at the same addresses, which is gone. Under the lock.
func (r *rail) plan(q *request) plan {
	p := plan{own: *q, access: q.access, reason: ReasonNew, keep: r.keeps && r.c.told(q.Alloc)}
	p.least = r.c.policy.aligned(q.Range)
	p.Range = p.least
	if p.keep && q.Size != 0 && !r.c.policy.NoWhole {
		whole := q.Range
		whole.Addr, whole.Length = q.Base, q.Size
		if whole = r.c.policy.aligned(whole); r.room(whole.Length) {
			p.Range = whole
		}
	}
	var near, others []*entry
	r.index.touching(q.Alloc, p.Addr, p.End(), r.all, func(e *entry) {
		same := e.id == q.Alloc.ID
		if e.overlaps(q.Alloc.Space, q.Addr, q.end) {
			switch {
			case !same:
				p.reason = max(p.reason, ReasonReallocated)
			case q.inside(e.start, e.end):
				p.reason = max(p.reason, ReasonAccess)
			default:
				p.reason = max(p.reason, ReasonPartial)
			}
		}
		if same {
			near = append(near, e)
		} else if e.overlaps(q.Alloc.Space, p.Addr, p.End()) {
			others = append(others, e)
		}
	})
	for _, e := range others { // which fly deregisters before it registers
		r.doomed = r.retire(e, CauseReallocated, r.doomed)
	}
	for _, f := range r.flights {
		if f.Alloc.Space == q.Alloc.Space && q.Alloc.Space.addressed() && f.Alloc.ID != q.Alloc.ID && f.Addr < p.End() && p.Addr < f.End() {
			f.stale = CauseReallocated
		}
	}
	switch {
	case !r.keeps:
		p.reason = ReasonNoBudget
	case !p.keep:
		p.reason = ReasonUnwatched
	default:
		r.merge(&p, near)
	}
	return p
}

// merge widens a plan by idle neighbours of the same rights, each no longer than
// the rest, and notes which registrations the new one makes needless.
func (r *rail) merge(p *plan, near []*entry) {
	idle := near[:0]
	for _, e := range near {
		if e.refs() == 0 {
			idle = append(idle, e)
		}
	}
	wide := p.Range
	if !r.c.policy.NoMerge {
		slices.SortFunc(idle, func(a, b *entry) int { return cmp.Compare(a.end-a.start, b.end-b.start) })
		for again := true; again; {
			again = false
			// Neighbours of neighbours are found when the wider range is asked for.
			for _, e := range idle {
				start, end := min(wide.Addr, e.start), max(wide.End(), e.end)
				if e.access != p.access || end-start == wide.Length || e.start > wide.End() || wide.Addr > e.end ||
					e.end-e.start > wide.Length || end-start > r.c.policy.MaxMerged {
					continue
				}
				wide.Addr, wide.Length, again = start, end-start, true
			}
			if again {
				idle = idle[:0]
				r.index.touching(p.Alloc, wide.Addr, wide.End(), r.all, func(e *entry) {
					if e.id == p.Alloc.ID && e.refs() == 0 {
						idle = append(idle, e)
					}
				})
			}
		}
	}
	if r.roomNow(wide.Length) {
		p.Range = wide
	}
	for _, e := range idle {
		if p.Addr <= e.start && e.end <= p.End() && p.access.serves(e.access) {
			p.victims = append(p.victims, e)
		}
	}
	if p.Length > p.least.Length && len(p.victims) > 0 {
		p.reason = max(p.reason, ReasonMerged)
	}
}

// shrink goes back to the least that the request takes, if more was planned.
func (p *plan) shrink() bool {
	if p.Length == p.least.Length {
		return false
	}
	p.Range, p.victims = p.least, nil
	return true
}

// aligned rounds a range outwards: host memory to whole pages, other memory
// inside its allocation.
func (p *Policy) aligned(r Range) Range {
	if r.Alloc.Space != Host && r.Size == 0 {
		return r
	}
	start := r.Addr &^ (p.Align - 1)
	end := (r.End() + p.Align - 1) &^ (p.Align - 1)
	if end == 0 { // beyond the last address
		end = r.End()
	}
	if r.Alloc.Space != Host {
		start, end = max(start, r.Base), min(end, r.Base+r.Size)
	}
	r.Addr, r.Length = start, end-start
	return r
}

// exhausted tells errors that fewer registrations may cure. EMFILE: some drivers
// want a dma-buf's descriptor open for as long as its registration lives.
func exhausted(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// tooLarge tells errors that a smaller registration may cure.
func tooLarge(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EFAULT) || errors.Is(err, syscall.E2BIG)
}

// explain adds to an error for want of room what was done about it.
func (r *rail) explain(f *flight, err error) error {
	if !exhausted(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	detail := fmt.Sprintf("also after %d idle registrations were given back; %d bytes in %d regions stay registered", f.freed, r.bytes-f.Length, r.count-1)
	return &Error{Op: "register", Rail: r.name, Range: f.Range, Err: err, Detail: detail, Holders: r.holders()}
}
