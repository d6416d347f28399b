package mrcache

import (
	"math/rand/v2"
	"testing"
)

// TestTheIndexAgainstAList adds, removes and looks for registrations from one
// page to hundreds of gigabytes, and compares with a list of them.
func TestTheIndexAgainstAList(t *testing.T) {
	for seed := range uint64(20) {
		indexAgainstList(t, rand.New(rand.NewPCG(seed, 1)), 2000)
	}
}

// FuzzIndex is the same with what the fuzzer finds.
func FuzzIndex(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { indexAgainstList(t, rand.New(rand.NewPCG(a, b)), 300) })
}

func indexAgainstList(t *testing.T, rng *rand.Rand, steps int) {
	t.Helper()
	var x index
	x.init()
	var list []*entry
	all := func(f func(*entry)) {
		for _, e := range list {
			f(e)
		}
	}
	// Addresses are near each other at each of the sizes.
	address := func() uint64 { return rng.Uint64N(64) << (12 + 3*rng.IntN(10)) }
	length := func() uint64 { return (1 + rng.Uint64N(8)) << (12 + 3*rng.IntN(10)) }
	alloc := func() Allocation {
		return Allocation{Space: []Space{Host, DMABuf}[rng.IntN(2)], ID: rng.Uint64N(3)}
	}
	for range steps {
		switch rng.IntN(4) {
		case 0:
			a, start, n := alloc(), address(), length()
			e := &entry{start: start, end: start + n, id: a.ID, space: a.Space, access: Access(1 + rng.IntN(2)), level: levelOf(n)}
			x.add(e, all)
			list = append(list, e)
		case 1:
			if len(list) > 0 {
				i := rng.IntN(len(list))
				x.remove(list[i])
				list = append(list[:i], list[i+1:]...)
			}
		case 2:
			q := request{Range: Range{Alloc: alloc(), Addr: address() + rng.Uint64N(4096), Length: 1 + rng.Uint64N(length())}, access: 1}
			q.end = q.End()
			serves := func(e *entry) bool {
				return e.space == q.Alloc.Space && e.id == q.Alloc.ID && q.inside(e.start, e.end) && e.access.serves(q.access)
			}
			want := false
			for _, e := range list {
				want = want || serves(e)
			}
			got := x.find(&q)
			switch {
			case got == nil && want:
				t.Fatalf("%v is registered and was not found", q.Range)
			case got != nil && !serves(got):
				t.Fatalf("%v for %v", got.span(), q.Range)
			case got != nil:
				got.release()
			}
		case 3:
			a, start := alloc(), address()
			end := start + length()
			want := make(map[*entry]bool)
			for _, e := range list {
				if e.space == a.Space && (a.Space == Host || e.id == a.ID) && e.start <= end && start <= e.end {
					want[e] = true
				}
			}
			x.touching(a, start, end, all, func(e *entry) {
				if !want[e] {
					t.Fatalf("%v touches %#x to %#x: not, or told twice", e.span(), start, end)
				}
				delete(want, e)
			})
			if len(want) > 0 {
				t.Fatalf("%d that touch %#x to %#x are missing", len(want), start, end)
			}
		}
	}
	for len(list) > 0 {
		x.remove(list[0])
		list = list[1:]
	}
	if x.listed != 0 || x.levels.Load() != 0 {
		t.Fatalf("%d places are left, levels %b", x.listed, x.levels.Load())
	}
}

func TestALargeRegistrationIsListedFewTimes(t *testing.T) {
	for _, n := range []uint64{1, 4096, 1 << 20, 1 << 30, 95 << 30, 4 << 40} {
		var x index
		x.init()
		x.add(&entry{start: 4096, end: 4096 + n, space: Host, level: levelOf(n)}, func(func(*entry)) {})
		if x.listed > mostPieces+1 {
			t.Errorf("%d bytes are listed %d times", n, x.listed)
		}
	}
}
