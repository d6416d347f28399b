package engine

import (
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
)

// railSet is some of an engine's rails, by their numbers.
type railSet [MaxRails / 64]uint64

// firstRails is the first n.
func firstRails(n int) (s railSet) {
	for i := range n {
		s.add(i)
	}
	return s
}

func (s *railSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s *railSet) remove(i int)   { s[i>>6] &^= 1 << (i & 63) }
func (s *railSet) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

func (s railSet) and(o railSet) railSet {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// without is those of s that are not of o.
func (s railSet) without(o railSet) railSet {
	for i := range s {
		s[i] &^= o[i]
	}
	return s
}

func (s *railSet) empty() bool { return *s == railSet{} }

// meets tells whether the two have a rail in common.
func (s *railSet) meets(o *railSet) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

func (s *railSet) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// each calls f for each rail, in order, until it returns false.
func (s *railSet) each(f func(i int) bool) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			if !f(i<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// last is the rail of the highest number, -1 if there is none.
func (s *railSet) last() int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != 0 {
			return i<<6 + bits.Len64(s[i]) - 1
		}
	}
	return -1
}

// few is n of them at most: those that come after a rail, counted around.
func (s *railSet) few(n, after int) (some railSet) {
	for i := range MaxRails {
		at := (after + 1 + i) % MaxRails
		if n == 0 {
			break
		}
		if s.has(at) {
			some.add(at)
			n--
		}
	}
	return some
}

// String lists them: "0,1,4".
func (s railSet) String() string {
	var b strings.Builder
	s.each(func(i int) bool {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, i)
		return true
	})
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

// appendBits serialises the first n rails, 8 to a byte, rail 0 in the lowest bit.
func (s *railSet) appendBits(b []byte, n int) []byte {
	for i := range (n + 7) / 8 {
		b = append(b, byte(s[i/8]>>(i%8*8)))
	}
	return b
}

// parseBits reads what appendBits wrote; false for bits beyond the n-th, or a
// length of another n.
func (s *railSet) parseBits(b []byte, n int) bool {
	*s = railSet{}
	if len(b) != (n+7)/8 {
		return false
	}
	for i, c := range b {
		s[i/8] |= uint64(c) << (i % 8 * 8)
	}
	return s.last() < n
}

// sharedSet is a railSet that several look at while one changes it.
type sharedSet [MaxRails / 64]atomic.Uint64

func (s *sharedSet) load() (r railSet) {
	for i := range s {
		r[i] = s[i].Load()
	}
	return r
}

// store is not one step: who looks meanwhile finds some of each.
func (s *sharedSet) store(r railSet) {
	for i := range s {
		s[i].Store(r[i])
	}
}

func (s *sharedSet) add(i int)  { s[i>>6].Or(1 << (i & 63)) }
func (s *sharedSet) drop(i int) { s[i>>6].And(^uint64(1 << (i & 63))) }
