package perf

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(got, want, relative float64) bool { return math.Abs(got-want) <= relative*math.Abs(want) }

func TestLatencySummary(t *testing.T) {
	l := newLatencies()
	for i := 1; i <= 1000; i++ {
		l.record(float64(i) * 1000) // 1 to 1000 us
	}
	s := l.summary(2)
	for name, c := range map[string]struct{ got, want, within float64 }{
		"min":     {s.Min, 0.5, 0},
		"max":     {s.Max, 500, 0},
		"avg":     {s.Avg, 250.25, 1e-9},
		"stdev":   {s.Stdev, math.Sqrt((1000*1000-1)/12.0) / 2, 1e-9},
		"typical": {s.Typical, 250, 2e-3},
		"99%":     {s.P99, 495, 2e-3},
		"99.9%":   {s.P999, 499.5, 2e-3},
	} {
		if !near(c.got, c.want, c.within) {
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
}

func TestLatencyOfEqualTimesHasNoSpread(t *testing.T) {
	l := newLatencies()
	for range 10 {
		l.record(1234567)
	}
	if s := l.summary(1); s.Min != s.Max || s.Typical != s.Max || s.P999 != s.Max || s.Stdev > 1e-3 {
		t.Errorf("%+v", s)
	}
}

func TestLatencyMergeIsTheWhole(t *testing.T) {
	whole, a, b := newLatencies(), newLatencies(), newLatencies()
	for i := range 5000 {
		v := rand.ExpFloat64() * 5000
		whole.record(v)
		if i%3 == 0 {
			a.record(v)
		} else {
			b.record(v)
		}
	}
	a.merge(b)
	got, want := *a.summary(1), *whole.summary(1)
	if got.Min != want.Min || got.Max != want.Max || got.Typical != want.Typical || got.P99 != want.P99 || got.P999 != want.P999 ||
		!near(got.Avg, want.Avg, 1e-9) || !near(got.Stdev, want.Stdev, 1e-9) {
		t.Errorf("merged %+v, want %+v", got, want)
	}
}

func TestLatencyOfNothing(t *testing.T) {
	if s := newLatencies().summary(1); s != nil {
		t.Errorf("%+v", s)
	}
}

func TestStampsBecomeTimes(t *testing.T) {
	l := newLatencies()
	l.recordStamps([]uint64{100, 200, 180, 400}, 1000, 10)
	// 100, a step back, 220 and the last one until the end.
	if l.n != 4 || l.min != 0 || l.max != 6000 || l.sum != 1000+0+2200+6000 {
		t.Errorf("%d times from %v to %v, sum %v", l.n, l.min, l.max, l.sum)
	}
}

// slowPeak tries every stretch.
func slowPeak(postedAt, doneAt []uint64, list int) float64 {
	best := math.Inf(1)
	for i := 0; i < len(postedAt); i += list {
		for j := i; j < len(doneAt); j++ {
			if d := int64(doneAt[j] - postedAt[i]); doneAt[j] != 0 && d > 0 {
				best = min(best, float64(d)/float64(j-i+1))
			}
		}
	}
	return best
}

func TestPeakIsTheBestStretch(t *testing.T) {
	for range 200 {
		list, mod := 1+rand.IntN(4), 1+rand.IntN(8)
		n := list * (1 + rand.IntN(100))
		posted, done := make([]uint64, n), make([]uint64, n)
		now := uint64(1 << 40)
		for i := range n {
			now += rand.Uint64N(1000)
			if i%list == 0 {
				posted[i] = now
			}
		}
		late := uint64(0)
		for i := range n {
			late = max(late, posted[i/list*list]) + 1 + rand.Uint64N(5000)
			if (i+1)%mod == 0 || i == n-1 {
				done[i] = late
			}
		}
		got, want := peak(posted, done, list), slowPeak(posted, done, list)
		if !near(got, want, 1e-9) {
			t.Fatalf("%d messages in lists of %d: %v, want %v", n, list, got, want)
		}
	}
	if p := peak(nil, nil, 1); !math.IsInf(p, 1) {
		t.Errorf("the peak of nothing is %v", p)
	}
}
