package umem

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// fits says by its definition whether one page size describes a region: every
// byte's place in its page is the same by address and by iova, and pages begin
// wherever the memory is not contiguous.
func fits(size, page, offset, length, iova uint64, segments []Segment) bool {
	var at uint64
	start, end := offset&^(page-1), (offset+length+page-1)&^(page-1)
	va := iova &^ (page - 1)
	first, next := true, uint64(0)
	for _, s := range segments {
		from, to := max(start, at), min(end, at+s.Length)
		if from < to {
			addr := s.Addr + from - at
			if first || addr != next {
				if (addr^va)%size != 0 || !first && va%size != 0 {
					return false
				}
			}
			first, next = false, addr+to-from
			va += to - from
		}
		at += s.Length
	}
	return !first
}

func entries(size, iova, length uint64) uint64 {
	return (iova+length-1)/size - iova/size + 1
}

func TestTheBestPageSizeFitsAndNeedsTheFewestEntries(t *testing.T) {
	const page = 4096
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 20000 {
		var sizes uint64
		for range 1 + r.IntN(5) {
			sizes |= 1 << (12 + r.IntN(12))
		}
		var segments []Segment
		total := uint64(0)
		base := uint64(r.IntN(1<<12)) << (12 + r.IntN(10))
		for range 1 + r.IntN(4) {
			n := uint64(1+r.IntN(8)) << (12 + r.IntN(10))
			if r.IntN(2) == 0 {
				base += uint64(r.IntN(1<<10)) << (12 + r.IntN(10))
			}
			segments = append(segments, Segment{base, n})
			base, total = base+n, total+n
		}
		offset := r.Uint64N(total)
		length := 1 + r.Uint64N(total-offset)
		iova := uint64(r.IntN(1<<12))<<(12+r.IntN(10)) + offset%page
		got := BestPageSize(sizes, page, offset, length, iova, segments)
		least := uint64(0)
		for s := sizes; s != 0; s &= s - 1 {
			if size := s & -s; fits(size, page, offset, length, iova, segments) {
				if n := entries(size, iova, length); least == 0 || n < least {
					least = n
				}
			}
		}
		if (got == 0) != (least == 0) || got != 0 && (!fits(got, page, offset, length, iova, segments) || entries(got, iova, length) != least) {
			t.Fatalf("sizes %#x, offset %#x, length %#x, iova %#x, %+v: %#x; the best has %d entries", sizes, offset, length, iova, segments, got, least)
		}
		if got != 0 {
			found++
		}
		if bits.OnesCount64(got) > 1 || got&^sizes != 0 {
			t.Fatalf("%#x is none of %#x", got, sizes)
		}
	}
	if found < 1000 {
		t.Errorf("only %d cases had a page size", found)
	}
}

func TestPageSizesOfKnownShapes(t *testing.T) {
	const all = 0xfffffffffffff000
	for name, c := range map[string]struct {
		sizes, offset, length, iova uint64
		segments                    []Segment
		want                        uint64
	}{
		// An 8 MiB BAR at 0xf8000000 under an equally aligned iova went to the
		// device with page shift 23 (facts of the lab).
		"a BAR":                     {all, 0, 8 << 20, 1 << 40, []Segment{{0xf8000000, 8 << 20}}, 8 << 20},
		"a BAR, iova not aligned":   {all, 0, 8 << 20, 1<<40 + 4096, []Segment{{0xf8000000, 8 << 20}}, 4096},
		"single pages":              {all, 0, 8192, 1 << 40, []Segment{{0x1000, 4096}, {0x9000, 4096}}, 4096},
		"only large pages":          {2 << 20, 0, 8192, 1 << 40, []Segment{{0x1000, 4096}, {0x9000, 4096}}, 0},
		"a byte":                    {all, 5, 1, 5, []Segment{{0x7000, 4096}}, 4096},
		"no segments":               {all, 0, 4096, 0, nil, 0},
		"outside the segments":      {all, 8192, 4096, 0, []Segment{{0x7000, 4096}}, 0},
		"length 0":                  {all, 0, 0, 0, []Segment{{0x7000, 4096}}, 0},
		"addresses up to the end":   {all, 0, 4096, 0, []Segment{{^uint64(0) - 4095, 4096}}, 4096},
		"segments that pass 2^64":   {all, 0, 4096, 0, []Segment{{0, 1 << 63}, {0, 1 << 63}, {0, 1}}, 4096},
		"contiguous, in two pieces": {all, 0, 8192, 0x8000, []Segment{{0x8000, 4096}, {0x9000, 4096}}, 8192},
	} {
		if got := BestPageSize(c.sizes, 4096, c.offset, c.length, c.iova, c.segments); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}
