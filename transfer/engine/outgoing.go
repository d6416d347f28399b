package engine

import "sync/atomic"

// outgoing gives the notices of one number their sequences. Of noticeWindow of
// them one after the other, each is taken by one that is on its way or free:
// so no two further apart are on their way, whatever completes first.
type outgoing struct {
	next atomic.Uint32
	busy [noticeWindow / 64]atomic.Uint64
}

// take gives the next sequence, false if the one a window before it is still on
// its way. It may fail in vain when several workers take at once: they try again.
func (o *outgoing) take() (uint16, bool) {
	n := o.next.Load()
	word, bit := o.at(uint16(n))
	if word.Or(bit)&bit != 0 {
		return 0, false
	}
	if !o.next.CompareAndSwap(n, n+1) {
		word.And(^bit)
		return 0, false
	}
	return uint16(n), true
}

// arrived frees a sequence.
func (o *outgoing) arrived(sequence uint16) {
	word, bit := o.at(sequence)
	word.And(^bit)
}

func (o *outgoing) at(sequence uint16) (*atomic.Uint64, uint64) {
	return &o.busy[sequence%noticeWindow/64], 1 << (sequence % 64)
}

// counters are the counters of one peer by number, made when first asked for and
// found without a lock.
type counters struct {
	pages [1 << numberBits / countersPage]atomic.Pointer[[countersPage]atomic.Pointer[Counter]]
	many  atomic.Int32
}

const countersPage = 256

// find gives a counter and makes it if need be; nil if there are most already.
func (s *counters) find(n Number, most int) *Counter {
	at := &s.pages[n/countersPage]
	page := at.Load()
	if page == nil {
		page = new([countersPage]atomic.Pointer[Counter])
		if !at.CompareAndSwap(nil, page) {
			page = at.Load()
		}
	}
	slot := &page[n%countersPage]
	if c := slot.Load(); c != nil {
		return c
	}
	if int(s.many.Add(1)) > most {
		s.many.Add(-1)
		return slot.Load()
	}
	c := new(Counter)
	if !slot.CompareAndSwap(nil, c) {
		s.many.Add(-1)
		return slot.Load()
	}
	return c
}

// each calls f for every counter.
func (s *counters) each(f func(*Counter)) {
	for i := range s.pages {
		page := s.pages[i].Load()
		if page == nil {
			continue
		}
		for k := range page {
			if c := page[k].Load(); c != nil {
				f(c)
			}
		}
	}
}
