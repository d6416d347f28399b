package mrcache

import (
	"sort"
	"sync/atomic"
)

// index finds the registrations that cover an address, without a lock: a hash
// table by piece of the address space, each slot with an immutable list of the
// registrations that touch the piece. Changing it takes the rail's lock, and
// copies one list for each piece that a registration touches.
//
// There are four sizes of pieces, and a registration is listed under the smallest
// of which it touches no more than 129, so that one of 95 GB is as cheap to add as
// one of a few megabytes. A lookup tries the sizes that are in use.
type index struct {
	table   atomic.Pointer[table]
	levels  atomic.Uint32 // bit of each level that has entries
	entries [len(shifts)]int
	listed  int // places in lists
}

var shifts = [...]uint8{14, 21, 28, 35} // 16 KiB, 2 MiB, 256 MiB, 32 GiB

const mostPieces = 128

type table struct {
	shift uint8 // of a hash, down to a slot's number
	slots []atomic.Pointer[bag]
}

// bag is the list of a slot, by start. Pieces that share a slot share it. Short
// lists lie beside their header: a lookup mostly waits for cache lines.
type bag struct{ items []item }

type bag1 struct {
	bag
	room [1]item
}

type bag4 struct {
	bag
	room [4]item
}

type item struct {
	start, end uint64
	reach      uint64 // the furthest end up to here
	e          *entry
}

const firstShift = 64 - 8

func (x *index) init() { x.table.Store(newTable(firstShift)) }

func newTable(shift uint8) *table {
	return &table{shift: shift, slots: make([]atomic.Pointer[bag], 1<<(64-shift))}
}

func levelOf(length uint64) uint8 {
	for i, s := range shifts {
		if length>>s < mostPieces {
			return uint8(i)
		}
	}
	return uint8(len(shifts) - 1)
}

// hash of a piece: of an address, or of an offset in one buffer.
func hash(space Space, id, piece uint64, level uint8) uint64 {
	h := piece*0x9e3779b97f4a7c15 ^ (uint64(space)<<8|uint64(level))*0xd6e8feb86659fd93
	if !space.addressed() {
		h ^= id * 0xc2b2ae3d27d4eb4f
	}
	h ^= h >> 32
	return h * 0xff51afd7ed558ccd
}

// find gives a registration that serves the request, with a reference to it.
func (x *index) find(q *request) *entry {
	t, levels := x.table.Load(), x.levels.Load()
	for level := uint8(0); levels>>level != 0; level++ {
		if levels>>level&1 == 0 {
			continue
		}
		b := t.slots[hash(q.Alloc.Space, q.Alloc.ID, q.Addr>>shifts[level], level)>>t.shift].Load()
		if b == nil {
			continue
		}
		items := b.items
		// The last that begins at or before the request.
		lo, hi := 0, len(items)
		for lo < hi {
			if mid := int(uint(lo+hi) >> 1); items[mid].start <= q.Addr {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		for i := lo - 1; i >= 0 && items[i].reach >= q.end; i-- {
			if items[i].end < q.end {
				continue
			}
			e := items[i].e
			if e.id == q.Alloc.ID && e.space == q.Alloc.Space && e.access.serves(q.access) && e.acquire() {
				return e
			}
		}
	}
	return nil
}

// touching calls f with what overlaps or touches the range, of any allocation of
// the space if it has addresses, else of the one; each once. Under the lock.
func (x *index) touching(alloc Allocation, start, end uint64, all func(func(*entry)), f func(*entry)) {
	hit := func(e *entry) bool {
		return e.space == alloc.Space && (e.space.addressed() || e.id == alloc.ID) && e.start <= end && start <= e.end
	}
	var pieces uint64
	lo := start
	if lo > 0 {
		lo--
	}
	for level, s := range shifts {
		if x.entries[level] > 0 {
			pieces += end>>s - lo>>s + 1
		}
	}
	if pieces > uint64(x.listed) {
		all(func(e *entry) {
			if hit(e) {
				f(e)
			}
		})
		return
	}
	t := x.table.Load()
	for level, s := range shifts {
		if x.entries[level] == 0 {
			continue
		}
		for p := lo >> s; p <= end>>s; p++ {
			b := t.slots[hash(alloc.Space, alloc.ID, p, uint8(level))>>t.shift].Load()
			if b == nil {
				continue
			}
			for i := range b.items {
				// Once: in the first of the range's pieces that it touches.
				if e := b.items[i].e; int(e.level) == level && hit(e) && p == max(e.start>>s, lo>>s) {
					f(e)
				}
			}
		}
	}
}

// add lists an entry. The entries listed already are what all gives, for when the
// table must grow. Under the lock.
func (x *index) add(e *entry, all func(func(*entry))) {
	t := x.table.Load()
	if x.listed > 2*len(t.slots) && t.shift > 24 {
		bigger := newTable(t.shift - 2)
		x.listed = 0
		all(func(e *entry) { x.listed += bigger.list(e) })
		x.table.Store(bigger)
		t = bigger
	}
	x.listed += t.list(e)
	x.entries[e.level]++
	x.levels.Store(x.levels.Load() | 1<<e.level)
}

func (x *index) remove(e *entry) {
	x.listed -= x.table.Load().unlist(e)
	if x.entries[e.level]--; x.entries[e.level] == 0 {
		x.levels.Store(x.levels.Load() &^ (1 << e.level))
	}
}

// each calls f with the slot of each of an entry's pieces, and adds up what it says.
func (t *table) each(e *entry, f func(*atomic.Pointer[bag]) int) (changed int) {
	s := shifts[e.level]
	for p := e.start >> s; p <= (e.end-1)>>s; p++ {
		changed += f(&t.slots[hash(e.space, e.id, p, e.level)>>t.shift])
	}
	return changed
}

// place is where an entry is in a list, or belongs.
func place(items []item, e *entry) (at int, there bool) {
	at = sort.Search(len(items), func(i int) bool { return items[i].start >= e.start })
	for i := at; i < len(items) && items[i].start == e.start; i++ {
		if items[i].e == e {
			return i, true
		}
	}
	return at, false
}

// list adds an entry to the lists of its pieces, and tells to how many: two of
// its pieces may share one.
func (t *table) list(e *entry) int {
	return t.each(e, func(slot *atomic.Pointer[bag]) int {
		var old []item
		if b := slot.Load(); b != nil {
			old = b.items
		}
		at, there := place(old, e)
		if there {
			return 0
		}
		b := newBag(len(old) + 1)
		copy(b.items, old[:at])
		b.items[at] = item{start: e.start, end: e.end, e: e}
		copy(b.items[at+1:], old[at:])
		b.measure(at)
		slot.Store(b)
		return 1
	})
}

func (t *table) unlist(e *entry) int {
	return t.each(e, func(slot *atomic.Pointer[bag]) int {
		var old []item
		if b := slot.Load(); b != nil {
			old = b.items
		}
		at, there := place(old, e)
		if !there {
			return 0 // another piece shared the slot
		}
		if len(old) == 1 {
			slot.Store(nil)
			return 1
		}
		b := newBag(len(old) - 1)
		copy(b.items, old[:at])
		copy(b.items[at:], old[at+1:])
		b.measure(at)
		slot.Store(b)
		return 1
	})
}

func newBag(n int) *bag {
	switch {
	case n == 1:
		b := new(bag1)
		b.items = b.room[:]
		return &b.bag
	case n <= 4:
		b := new(bag4)
		b.items = b.room[:n]
		return &b.bag
	}
	return &bag{make([]item, n)}
}

// measure finds the reaches from an item on.
func (b *bag) measure(from int) {
	var reach uint64
	if from > 0 {
		reach = b.items[from-1].reach
	}
	for i := from; i < len(b.items); i++ {
		reach = max(reach, b.items[i].end)
		b.items[i].reach = reach
	}
}
