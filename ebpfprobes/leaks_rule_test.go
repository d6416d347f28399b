package ebpfprobes

import (
	"math/rand/v2"
	"testing"
)

// survive makes a history of survivors, none of which ended.
func survive(counts ...uint64) (h []sample) {
	for _, c := range counts {
		h = append(h, sample{survivors: c})
	}
	return h
}

// ending makes n of the survivors end in each interval.
func ending(n uint64, h []sample) []sample {
	for i := range h {
		h[i].ended = n
	}
	return h
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name    string
		history []sample
		want    Verdict
	}{
		{"nothing", nil, Steady},
		{"a leak, too young to tell", survive(0, 1, 2, 3, 4, 5), Steady},
		{"a leak in every interval", survive(0, 1, 2, 3, 4, 5, 6), Leaking},
		{"a leak in most intervals", survive(7, 7, 8, 8, 9, 10, 11), Leaking},
		{"a leak that is rarer than the intervals", survive(7, 7, 7, 8, 8, 8, 9), Steady},
		{"what was made at the start stays", survive(0, 8, 8, 8, 8, 8, 8), Steady},
		{"a cache that has filled", survive(0, 4, 8, 12, 16, 16, 16), Steady},
		{"a cache that works", ending(2, survive(16, 16, 15, 16, 16, 16, 16)), Steady},
		{"a short phase of growth", ending(1, survive(1, 2, 3, 4, 5, 6, 7)), Steady},
		{"some leak, others end", ending(3, survive(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)), Growing},
		{"some leak, and it fell once", ending(3, survive(1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)), Steady},
		{"a leak that ended", survive(0, 1, 2, 3, 4, 5, 6, 6, 6), Steady},
	} {
		if got := verdict(c.history, 6); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A program that makes and ends objects at random is named about never.
func TestVerdictOfChurn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h []sample
	named := 0
	const intervals = 100_000
	at := uint64(100)
	for range intervals {
		ended := random.Uint64N(5)
		at = at - min(at, ended) + random.Uint64N(5)
		h = append(h, sample{survivors: at, ended: ended})
		if len(h) > 19 {
			h = h[1:]
		}
		if verdict(h, 6) != Steady {
			named++
		}
	}
	if named > intervals/5000 {
		t.Errorf("named in %d of %d intervals", named, intervals)
	}
}
