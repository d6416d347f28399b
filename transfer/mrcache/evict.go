package mrcache

import (
	"cmp"
	"fmt"
	"slices"
)

// bound gives the most bytes and regions that the rail may hold, and the name of
// what says so.
func (r *rail) bound() (bytes uint64, byteName string, count int, countName string) {
	bytes, byteName, count, countName = Unlimited.Bytes, "", Unlimited.Count, ""
	if r.keeps {
		bytes, byteName, count, countName = r.budget.Bytes, "the cache's byte budget", r.budget.Count, "the cache's region budget"
	}
	if l := r.limits.Bytes; l != 0 && l < bytes {
		bytes, byteName = l, "the device's limit of registered bytes"
	}
	if l := r.limits.Count; l != 0 && l < count {
		count, countName = l, "the device's limit of regions (max_mr)"
	}
	return
}

// over says which bound n more bytes in one more region would break.
func (r *rail) over(n uint64) string {
	bytes, byteName, count, countName := r.bound()
	switch {
	case n > bytes || r.bytes > bytes-n:
		return fmt.Sprintf("%s is %d bytes: %d are registered, %d more are wanted", byteName, bytes, r.bytes, n)
	case r.count >= count:
		return fmt.Sprintf("%s is %d, all registered", countName, count)
	}
	return ""
}

// room tells that n bytes fit when all that is idle has gone.
func (r *rail) room(n uint64) bool {
	if l := r.limits.RegionBytes; l != 0 && n > l {
		return false
	}
	if r.over(n) == "" {
		return true
	}
	bytes, _, count, _ := r.bound()
	busyBytes, busy := r.bytes, r.count
	r.all(func(e *entry) {
		if e.refs() == 0 {
			busyBytes -= e.end - e.start
			busy--
		}
	})
	return n <= bytes && busyBytes <= bytes-n && busy < count
}

// roomNow tells that n bytes fit as things are.
func (r *rail) roomNow(n uint64) bool {
	return (r.limits.RegionBytes == 0 || n <= r.limits.RegionBytes) && r.over(n) == ""
}

// reserve makes room for a range, by giving back what is idle and was used
// longest ago. The lock is given back in between.
func (r *rail) reserve(want Range) error {
	n := want.Length
	fail := func(detail string) error {
		return &Error{Op: "register", Rail: r.name, Range: want, Err: ErrBudget, Detail: detail, Holders: r.holders()}
	}
	if l := r.limits.RegionBytes; l != 0 && n > l {
		return fail(fmt.Sprintf("the device's limit of one region (max_mr_size) is %d bytes; register in pieces", l))
	}
	if bytes, name, _, _ := r.bound(); n > bytes {
		return fail(fmt.Sprintf("%s is %d bytes; raise it, or register in pieces", name, bytes))
	}
	for {
		if doomed := r.doomed; len(doomed) > 0 {
			r.doomed = nil
			r.mu.Unlock()
			for _, e := range doomed {
				r.deregister(e)
			}
			r.mu.Lock()
			continue
		}
		over := r.over(n)
		if over == "" {
			r.bytes += n
			r.count++
			return nil
		}
		e := r.victim()
		if e == nil {
			e = r.waiting(false)
		}
		switch {
		case e != nil:
			r.mu.Unlock()
			r.deregister(e)
			r.mu.Lock()
		case r.ending > 0:
			r.changed.Wait()
		default:
			return fail(over + "; release transfers, or raise it")
		}
	}
}

// victim takes the entry out that was not used for longest, as a clock tells:
// its hand passes over entries in use, and over those that were used since it last
// came by; but it comes by three times at most. Under the lock.
func (r *rail) victim() *entry {
	passes := r.kept
	for i := range 3 * passes {
		e := r.hand
		r.hand = e.next
		s := e.state.Load()
		if s&refMask != 0 {
			continue
		}
		if s&usedBit != 0 && i < 2*passes {
			e.state.And(^uint64(usedBit))
			continue
		}
		if e.killIdle() {
			r.unlist(e, CauseEvicted)
			return e
		}
	}
	return nil
}

// waiting is a dead entry that nobody refers to and nobody deregisters yet, or
// again. Under the lock.
func (r *rail) waiting(stuck bool) *entry {
	for e := range r.dying {
		if e.refs() == 0 && !e.closing && e.stuck == stuck {
			return e
		}
	}
	return nil
}

// giveBack deregisters what is idle until so many bytes are free, at least one
// registration, and tells how many. Also what could not be deregistered before
// is tried again.
func (r *rail) giveBack(bytes uint64) (n int) {
	for freed := uint64(0); n == 0 || freed < bytes; {
		r.mu.Lock()
		e := r.victim()
		if e == nil {
			e = r.waiting(true)
		}
		r.mu.Unlock()
		if e == nil || r.deregister(e) != nil {
			return n
		}
		freed += e.end - e.start
		n++
	}
	return n
}

// holders lists what transfers refer to, the largest first. Under the lock.
func (r *rail) holders() []Holder {
	var list []Holder
	add := func(e *entry) {
		if n := e.refs(); n > 0 {
			list = append(list, Holder{Rail: r.name, Range: e.span(), Refs: n})
		}
	}
	r.all(add)
	for e := range r.dying {
		add(e)
	}
	slices.SortFunc(list, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Range.Length, a.Range.Length), cmp.Compare(a.Range.Addr, b.Range.Addr))
	})
	return list
}
