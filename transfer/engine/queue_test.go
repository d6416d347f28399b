package engine

import (
	"slices"
	"testing"
)

// TestQueue: first in, first out, whatever was taken before; what a queue once held
// at most it holds again without growing.
func TestQueue(t *testing.T) {
	var q queue[int]
	var want []int
	next := 0
	for round := range 200 {
		for range round % 7 {
			q.push(next)
			want = append(want, next)
			next++
		}
		for range min(round%5, len(want)) {
			if got := q.first(); got != want[0] {
				t.Fatalf("round %d: %d, want %d", round, got, want[0])
			}
			q.pop()
			want = want[1:]
		}
		if round%11 == 0 {
			odd := func(n int) bool { return n%2 != 0 }
			q.keep(odd)
			want = slices.DeleteFunc(slices.Clone(want), func(n int) bool { return !odd(n) })
		}
		if q.len() != len(want) {
			t.Fatalf("round %d: %d in it, want %d", round, q.len(), len(want))
		}
	}
	q.keep(func(int) bool { return false })
	if n := testing.AllocsPerRun(1000, func() {
		q.push(1)
		q.push(2)
		q.pop()
		q.push(3)
		q.pop()
		q.pop()
	}); n != 0 || q.len() != 0 {
		t.Errorf("%v allocations, %d left", n, q.len())
	}
}
