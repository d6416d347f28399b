package pages

import (
	"testing"
	"testing/quick"
)

func TestAPermutationIsABijectionAndTheSeedsOwn(t *testing.T) {
	for n := range uint64(300) {
		for _, seed := range []uint64{0, 1, 1 << 63} {
			p, again := newPermutation(n, seed), newPermutation(n, seed)
			seen := make([]bool, n)
			for i := range n {
				to := p.at(i)
				if to >= n || seen[to] || to != again.at(i) {
					t.Fatalf("n %d, seed %d: %d goes to %d", n, seed, i, to)
				}
				seen[to] = true
			}
		}
	}
	a, b := newPermutation(10_000, 1), newPermutation(10_000, 2)
	same, near := 0, 0
	for i := range uint64(9999) {
		if a.at(i) == b.at(i) {
			same++
		}
		if a.at(i)+1 == a.at(i+1) {
			near++
		}
	}
	if same > 10 || near > 10 {
		t.Errorf("%d places are the same for another seed, %d neighbours stay neighbours", same, near)
	}
}

// checkRuns walks a layout and checks what a transfer relies on: every page
// once, inside the region, none over another.
func checkRuns(t *testing.T, l Layout) bool {
	t.Helper()
	target := l.TargetSlots()
	used := make(map[int]bool)
	page, size := 0, uint64(l.PageSize)
	for c := l.Runs(); ; {
		r, ok := c.Next()
		if !ok {
			break
		}
		if r.Length != uint32(r.Pages)*uint32(size) || r.Pages < 1 || r.Length > maxSegment && r.Pages > 1 {
			t.Errorf("%+v: %+v", l, r)
			return false
		}
		for k := range r.Pages {
			from, to := r.Source+uint64(k)*size, r.Target+uint64(k)*size
			if from != uint64(l.SourceSlot(page))*size || to != uint64(target(page))*size ||
				from+size > l.Span() || to+size > l.Span() || used[target(page)] {
				t.Errorf("%+v: page %d from %d to %d", l, page, from, to)
				return false
			}
			used[target(page)] = true
			page++
		}
	}
	if page != l.Pages {
		t.Errorf("%+v: %d pages came", l, page)
	}
	return page == l.Pages
}

func TestEveryPageIsMovedOnceAndOverlapsNone(t *testing.T) {
	property := func(shift, stride uint8, pages uint16, seed uint64, ordered bool) bool {
		if ordered {
			seed = 0
		}
		return checkRuns(t, Layout{PageSize: MinPageSize << (shift % 21), Pages: int(pages)%2000 + 1, Stride: int(stride)%9 + 1, Seed: seed})
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}

func TestNeighboursBecomeOneWrite(t *testing.T) {
	for _, test := range []struct {
		layout Layout
		runs   int
	}{
		{Layout{PageSize: 64 << 10, Pages: 64, Stride: 1}, 4},
		{Layout{PageSize: 64 << 10, Pages: 65, Stride: 1}, 5},
		{Layout{PageSize: 64 << 10, Pages: 64, Stride: 2}, 64},
		{Layout{PageSize: 4 << 20, Pages: 3, Stride: 1}, 3},
	} {
		n := 0
		for c := test.layout.Runs(); ; n++ {
			if _, ok := c.Next(); !ok {
				break
			}
		}
		if n != test.runs {
			t.Errorf("%+v: %d writes, want %d", test.layout, n, test.runs)
		}
	}
}

// FuzzPlan: whatever a layout says, it is refused or it is right.
func FuzzPlan(f *testing.F) {
	f.Add(65536, 512, 2, uint64(1))
	f.Add(64, 1, 1, uint64(0))
	f.Add(MaxPageSize, MaxPages, 1<<40, uint64(1))
	f.Add(-4096, -1, -1, uint64(1))
	f.Fuzz(func(t *testing.T, size, pages, stride int, seed uint64) {
		l := Layout{PageSize: size, Pages: pages, Stride: stride, Seed: seed}
		if l.Validate() != nil {
			return
		}
		if l.Span() > MaxSpan || l.Bytes() > l.Span() || l.Slots() < l.Pages {
			t.Fatalf("%+v spans %d bytes", l, l.Span())
		}
		if l.Pages <= 4096 {
			checkRuns(t, l)
			return
		}
		for c, n := l.Runs(), 0; n < 1000; n++ {
			if r, ok := c.Next(); !ok || r.Target+uint64(r.Length) > l.Span() || r.Source+uint64(r.Length) > l.Span() {
				t.Fatalf("%+v: %+v, %v", l, r, ok)
			}
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	for name, l := range map[string]Layout{
		"scattered": {PageSize: 65536, Pages: 1 << 20, Stride: 2, Seed: 1},
		"ordered":   {PageSize: 65536, Pages: 1 << 20, Stride: 2},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			c := l.Runs()
			for b.Loop() {
				if _, ok := c.Next(); !ok {
					c = l.Runs()
				}
			}
		})
	}
}
