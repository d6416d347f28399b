package tracereport

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// boundSteps feeds a bound with counts, and gives what it serves, as "label=value".
type boundSteps struct {
	bound  *Bound
	at     time.Time
	kind   MetricType
	counts map[string]int
	served map[string]float64
	ever   map[string]float64 // the most that was served of each, while it went on
}

func newBoundSteps(most int, kind MetricType) *boundSteps {
	return &boundSteps{bound: NewBound(most), at: noon, kind: kind, counts: map[string]int{}, ever: map[string]float64{}}
}

func (b *boundSteps) step(t *testing.T, after time.Duration) string {
	t.Helper()
	b.at = b.at.Add(after)
	m := Metric{Name: "m", Type: b.kind, Labels: []string{"l"}}
	for _, l := range slices.Sorted(maps.Keys(b.counts)) {
		s := Sample{Labels: []string{l}, Value: float64(b.counts[l])}
		if b.kind == Durations {
			h := histogramOfAll(slices.Repeat([]time.Duration{time.Microsecond}, b.counts[l])...)
			s = Sample{Labels: s.Labels, Histogram: &h}
		}
		m.Samples = append(m.Samples, s)
	}
	b.served = map[string]float64{}
	var text []string
	for _, s := range b.bound.Apply(m, b.at).Samples {
		l := s.Labels[0]
		b.served[l] = s.total()
		if b.kind != Gauge && b.ever[l] > s.total() {
			t.Errorf("%s falls from %v to %v", l, b.ever[l], s.total())
		}
		b.ever[l] = s.total()
		text = append(text, fmt.Sprintf("%s=%v", l, s.total()))
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

func TestBound(t *testing.T) {
	for _, kind := range []MetricType{Counter, Durations} {
		b := newBoundSteps(3, kind)
		check := func(after time.Duration, want string) {
			t.Helper()
			if got := b.step(t, after); got != want {
				t.Errorf("%v: %s, want %s", kind, got, want)
			}
		}
		b.counts["a"], b.counts["b"] = 1, 2
		check(0, "a=1 b=2")
		b.counts["c"] = 5 // no place
		check(time.Minute, "a=1 b=2 other=5")
		b.counts["b"], b.counts["c"] = 3, 6
		check(30*time.Minute, "a=1 b=3 other=6")
		// a has stood still for an hour: c's further calls have their own series.
		b.counts["c"] = 10
		check(30*time.Minute, "b=3 c=4 other=6")
		// a goes on, and b has not stood still long enough: only what is new is other.
		b.counts["a"] = 3
		check(time.Minute, "b=3 c=4 other=8")
		// b is no more: its place goes to a, without what was counted as other.
		delete(b.counts, "b")
		b.counts["a"] = 4
		check(time.Minute, "a=2 c=4 other=8")
		// What had no place and is no more stays counted.
		b.counts["d"] = 7
		check(time.Minute, "a=2 c=4 other=15")
		delete(b.counts, "d")
		check(time.Minute, "a=2 c=4 other=15")
		// A count that begins anew is one that grew.
		b.counts["c"] = 1
		b.ever["c"] = 0
		check(time.Minute, "a=2 c=1 other=15")
	}
}

func TestBoundOfGauges(t *testing.T) {
	b := newBoundSteps(3, Gauge)
	for _, step := range []struct {
		after  time.Duration
		counts map[string]int
		want   string
	}{
		{0, map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}, "a=1 b=2 other=7"},
		// What stands still is no less there.
		{2 * time.Hour, map[string]int{"a": 1, "b": 2, "c": 3, "d": 5}, "a=1 b=2 other=8"},
		{time.Minute, map[string]int{"b": 2, "c": 3, "d": 5}, "b=2 c=3 other=5"},
		{time.Minute, map[string]int{"d": 5}, "d=5"},
	} {
		b.counts = step.counts
		if got := b.step(t, step.after); got != step.want {
			t.Errorf("%v: %s, want %s", step.counts, got, step.want)
		}
	}
}

// TestBoundOverDays has programs come and go for a week: those of the last hour have
// series of their own, and what is remembered stays small.
func TestBoundOverDays(t *testing.T) {
	b := newBoundSteps(20, Counter)
	total := 0
	for hour := range 7 * 24 {
		b.counts["daemon"]++
		for i := range 5 {
			b.counts[fmt.Sprintf("job %d.%d", hour, i)] = 10
			delete(b.counts, fmt.Sprintf("job %d.%d", hour-6, i))
		}
		total += 51
		b.step(t, time.Hour)
		for i := range 5 {
			if l := fmt.Sprintf("job %d.%d", hour, i); b.served[l] != 10 {
				t.Fatalf("hour %d: %s has %v", hour, l, b.served[l])
			}
		}
		if n := len(b.bound.metrics["m"].series); n > 60 {
			t.Fatalf("hour %d: %d series are remembered", hour, n)
		}
	}
	sum := 0.0
	for _, v := range b.ever {
		sum += v
	}
	if b.served["daemon"] != 7*24 || int(sum) != total {
		t.Errorf("daemon has %v; all that was served is %v, of %d", b.served["daemon"], sum, total)
	}
}
