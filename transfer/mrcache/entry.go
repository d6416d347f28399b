package mrcache

import (
	"sync/atomic"
)

// entry is one registration. Its state is one word, so that a hit is one
// compare-and-swap: references, hits, whether it was used since the clock's hand
// passed, and whether it is dead. Nobody gets a reference to a dead entry; who
// takes the last one away deregisters it.
type entry struct {
	state atomic.Uint64

	// What a lookup compares; never changes.
	start, end uint64
	id         uint64
	access     Access
	space      Space
	level      uint8 // of the index

	reg  Registration
	rail *rail

	// Under the rail's lock.
	prev, next   *entry // the clock's ring; nil where not kept
	cause        Cause  // of its end
	closing      bool   // somebody deregisters it now
	stuck        bool   // the NIC refused to
	base, extent uint64 // of the allocation, as far as known

	_ [24]byte // to two cache lines, of which lookups read the first
}

const (
	refOne   = 1
	refMask  = 1<<24 - 1
	hitOne   = 1 << 24
	hitShift = 24
	hitMask  = 1<<62 - 1 - refMask
	hitMany  = 1 << 61 // the highest bit of the hits: time to take them away
	usedBit  = 1 << 62
	deadBit  = 1 << 63
)

// acquire takes a reference, unless the entry is dead or has no room for one.
func (e *entry) acquire() bool {
	for {
		s := e.state.Load()
		if s&deadBit != 0 || s&refMask == refMask {
			return false
		}
		n := (s + refOne + hitOne) | usedBit
		if n&hitMany != 0 {
			n &^= hitMask
		}
		if e.state.CompareAndSwap(s, n) {
			if s&hitMask != 0 && n&hitMask == 0 {
				e.rail.hits.Add((s&hitMask)>>hitShift + 1)
			}
			return true
		}
	}
}

// release gives a reference back and tells whether the caller must deregister.
func (e *entry) release() bool {
	s := e.state.Add(^uint64(refOne - 1))
	if s&refMask == refMask {
		e.state.Add(refOne)
		panic("mrcache: a reference was released twice")
	}
	return s&(deadBit|refMask) == deadBit
}

// kill marks the entry dead and tells whether the caller must deregister: it was
// alive, and nobody refers to it. Where it is in use, who releases it last does.
func (e *entry) kill() bool {
	s := e.state.Or(deadBit)
	return s&(deadBit|refMask) == 0
}

// killIdle is kill of an entry that nobody refers to, else nothing.
func (e *entry) killIdle() bool {
	for {
		s := e.state.Load()
		if s&(deadBit|refMask) != 0 {
			return false
		}
		if e.state.CompareAndSwap(s, s|deadBit) {
			return true
		}
	}
}

func (e *entry) refs() int    { return int(e.state.Load() & refMask) }
func (e *entry) hits() uint64 { return e.state.Load() & hitMask >> hitShift }
func (e *entry) dead() bool   { return e.state.Load()&deadBit != 0 }

func (e *entry) span() Range {
	return Range{Alloc: Allocation{e.space, e.id}, Addr: e.start, Length: e.end - e.start, Base: e.base, Size: e.extent}
}

func (e *entry) overlaps(space Space, start, end uint64) bool {
	return e.space == space && e.start < end && start < e.end
}

// Ref is a reference to a registration. The range stays registered until it is
// released; that must happen once, when the last transfer over it has completed.
type Ref struct {
	e      *entry
	offset uint64
}

// Registration is what the rail's Registrar gave; nil of a Ref that was released.
func (r *Ref) Registration() Registration {
	if r.e == nil {
		return nil
	}
	return r.e.reg
}

// Offset is where the bytes asked for begin in the registration.
func (r *Ref) Offset() uint64 { return r.offset }

// Range is what is registered.
func (r *Ref) Range() Range {
	if r.e == nil {
		return Range{}
	}
	return r.e.span()
}

// Release gives the reference back. A second call through the same Ref does
// nothing; copies of a Ref count as one reference.
func (r *Ref) Release() {
	e := r.e
	if e == nil {
		return
	}
	r.e = nil
	if e.release() {
		e.rail.deregister(e)
	}
}
