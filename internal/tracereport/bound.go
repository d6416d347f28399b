package tracereport

import (
	"cmp"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// Bound keeps the number of series down. Of each metric the first ones that came have
// their own, and what else is counted goes into one whose labels are all "other". A
// series that has not changed for an hour, or is no more, gives its place to one that
// changes, and is not served until it changes again. No count ever falls, and none is
// in two series.
type Bound struct {
	most    int
	metrics map[string]*boundMetric
}

// MostSeries is how many series a metric has if nothing else is said.
const MostSeries = 200

// idleAfter is how long a count has to stand still before its place can be taken.
const idleAfter = time.Hour

const otherLabel = "other"

// NewBound bounds each metric to most series, that of the others included.
func NewBound(most int) *Bound {
	return &Bound{most: max(most, 2), metrics: make(map[string]*boundMetric)}
}

// boundMetric is what is remembered of a metric.
type boundMetric struct {
	gauge  bool
	series map[string]*boundSeries
	own    int
	other  Sample // what was counted without a place
}

// boundSeries is what is remembered of a sum of samples that have the same labels.
type boundSeries struct {
	own     bool
	present bool      // in the samples of now
	changed time.Time // last
	last    Sample    // as it was read
	grown   Sample    // since what was read before
	base    Sample    // the part of last that is in other
}

// Apply sums what has the same labels, and bounds the series. Of counts it is told the
// whole each time, as of a moment that is not before the last one's.
func (b *Bound) Apply(m Metric, at time.Time) Metric {
	known := b.metrics[m.Name]
	if known == nil {
		known = &boundMetric{gauge: m.Type == Gauge, series: make(map[string]*boundSeries)}
		b.metrics[m.Name] = known
	}
	keys, sums := sumAlike(m)
	known.note(sums, at)
	for _, key := range keys {
		s := known.series[key]
		if !s.own && (known.gauge || s.changed.Equal(at)) && known.makePlace(b.most-1, at) {
			s.own = true
			known.own++
		}
	}
	others := make([]string, len(m.Labels))
	for i := range others {
		others[i] = otherLabel
	}
	if known.gauge {
		known.other = Sample{}
	}
	known.other.Labels = others
	bounded := m
	bounded.Samples = nil
	for _, key := range keys {
		s := known.series[key]
		switch {
		case s.own:
			bounded.Samples = append(bounded.Samples, s.last.less(s.base))
		case known.gauge:
			known.other.add(s.last)
		default:
			known.other.add(s.grown)
			s.base.add(s.grown)
		}
	}
	if known.other.total() != 0 || len(bounded.Samples) < len(keys) && known.gauge {
		bounded.Samples = append(bounded.Samples, known.other.less(Sample{}))
	}
	return bounded
}

// note takes what was read now, and drops what is no more and has no place.
func (m *boundMetric) note(now map[string]Sample, at time.Time) {
	for key, s := range m.series {
		if _, s.present = now[key]; !s.present && !s.own {
			delete(m.series, key)
		}
	}
	for key, sum := range now {
		s := m.series[key]
		if s == nil {
			s = &boundSeries{present: true, changed: at}
			m.series[key] = s
		}
		if sum.total() < s.last.total() { // it began anew
			s.last, s.base = Sample{}, Sample{}
		}
		s.grown = Sample{}
		if sum.total() != s.last.total() {
			s.changed = at
			if !s.own && !m.gauge {
				s.grown = sum.less(s.last)
			}
		}
		s.last = sum
	}
}

// sumAlike sums samples by their labels; keys are in the order of their coming.
func sumAlike(m Metric) (keys []string, sums map[string]Sample) {
	sums = make(map[string]Sample)
	for _, s := range m.Samples {
		key := fmt.Sprintf("%q", s.Labels)
		sum, ok := sums[key]
		if !ok {
			keys = append(keys, key)
			sum = Sample{Labels: s.Labels}
			if m.Type == Durations {
				sum.Histogram = new(ebpfprobes.Histogram)
			}
		}
		sum.add(s)
		sums[key] = sum
	}
	return keys, sums
}

// makePlace tells whether there is room for one more series of its own, and takes one's
// place if need be: of one that is no more, else of the count that stands still longest.
func (m *boundMetric) makePlace(places int, at time.Time) bool {
	if m.own < places {
		return true
	}
	var worst *boundSeries
	worstKey := ""
	for key, s := range m.series {
		if !s.own || s.present && (m.gauge || at.Sub(s.changed) < idleAfter) {
			continue
		}
		if worst == nil || leaves(s, key, worst, worstKey) < 0 {
			worst, worstKey = s, key
		}
	}
	if worst == nil {
		return false
	}
	m.own--
	worst.own = false
	if !worst.present {
		delete(m.series, worstKey)
	}
	return true
}

// leaves orders by which of two has to give its place first.
func leaves(a *boundSeries, aKey string, b *boundSeries, bKey string) int {
	if a.present != b.present {
		if b.present {
			return -1
		}
		return 1
	}
	return cmp.Or(a.changed.Compare(b.changed), cmp.Compare(aKey, bKey))
}

// add adds another's counts.
func (s *Sample) add(o Sample) {
	s.Value += o.Value
	if o.Histogram == nil {
		return
	}
	if s.Histogram == nil {
		s.Histogram = new(ebpfprobes.Histogram)
	}
	s.Histogram.Add(o.Histogram)
}

// less gives s without what was in it before.
func (s Sample) less(before Sample) Sample {
	s.Value -= before.Value
	if s.Histogram == nil {
		return s
	}
	rest := new(ebpfprobes.Histogram)
	rest.Add(s.Histogram)
	if was := before.Histogram; was != nil && was.Count > 0 {
		rest.Count -= was.Count
		rest.Sum -= was.Sum
		for i, n := range was.Slots {
			rest.Slots[i] -= n
		}
	}
	s.Histogram = rest
	return s
}

// total is what tells whether something was counted since.
func (s Sample) total() float64 {
	if s.Histogram != nil {
		return float64(s.Histogram.Count)
	}
	return s.Value
}
