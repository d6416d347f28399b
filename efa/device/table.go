package device

// table hands out small numbers for objects. A number that was given back comes
// again only after all others, so that a stale one stays invalid for long.
type table[T any] struct {
	slots []*T
	free  []uint32 // given back, oldest first
	next  uint32   // never used from here on
	limit uint32
	used  int
}

func newTable[T any](first, limit int) table[T] {
	return table[T]{next: uint32(first), limit: uint32(limit)}
}

// put stores x and gives its number; false if the table is full.
func (t *table[T]) put(x *T) (uint32, bool) {
	var i uint32
	switch {
	case t.next < t.limit:
		i = t.next
		t.next++
	case len(t.free) > 0:
		i = t.free[0]
		t.free = t.free[1:]
	default:
		return 0, false
	}
	for uint32(len(t.slots)) <= i {
		t.slots = append(t.slots, nil)
	}
	t.slots[i] = x
	t.used++
	return i, true
}

// get gives the object of a number, nil if there is none.
func (t *table[T]) get(i uint32) *T {
	if i >= uint32(len(t.slots)) {
		return nil
	}
	return t.slots[i]
}

func (t *table[T]) remove(i uint32) {
	t.slots[i] = nil
	t.free = append(t.free, i)
	t.used--
}

// clear removes everything and keeps the order in which numbers come.
func (t *table[T]) clear() {
	for i, x := range t.slots {
		if x != nil {
			t.remove(uint32(i))
		}
	}
}
