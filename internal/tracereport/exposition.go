package tracereport

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// families gives metrics whose counts began at a time as Prometheus' model has them,
// sorted, so that two scrapes of the same counts are the same.
func families(metrics []Metric, began time.Time) (all []*dto.MetricFamily) {
	created := timestamppb.New(began)
	for i := range metrics {
		m := &metrics[i]
		f := &dto.MetricFamily{Name: &m.Name, Help: &m.Help,
			Type: [...]dto.MetricType{Gauge: dto.MetricType_GAUGE, Counter: dto.MetricType_COUNTER, Durations: dto.MetricType_HISTOGRAM}[m.Type].Enum()}
		for s := range m.Samples {
			f.Metric = append(f.Metric, sampleOf(m, &m.Samples[s], created))
		}
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return slices.CompareFunc(a.Label, b.Label, compareLabels) })
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

func compareLabels(a, b *dto.LabelPair) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetValue(), b.GetValue()))
}

func sampleOf(m *Metric, s *Sample, created *timestamppb.Timestamp) *dto.Metric {
	one := new(dto.Metric)
	for i := range m.Labels {
		one.Label = append(one.Label, &dto.LabelPair{Name: &m.Labels[i], Value: &s.Labels[i]})
	}
	slices.SortFunc(one.Label, compareLabels)
	switch m.Type {
	case Gauge:
		one.Gauge = &dto.Gauge{Value: &s.Value}
	case Counter:
		one.Counter = &dto.Counter{Value: &s.Value, CreatedTimestamp: created}
	case Durations:
		one.Histogram = histogramFamily(s.Histogram)
		one.Histogram.CreatedTimestamp = created
	}
	return one
}

// histogramFamily has native buckets, and the classic ones for those who keep to them.
func histogramFamily(h *ebpfprobes.Histogram) *dto.Histogram {
	native, zero := nativeBuckets(h)
	spans, deltas := spansOf(native)
	return &dto.Histogram{SampleCount: new(h.Count), SampleSum: new(h.Sum.Seconds()), Bucket: classicBuckets(h),
		Schema: new(int32(nativeSchema)), ZeroThreshold: new(0.0), ZeroCount: &zero, PositiveSpan: spans, PositiveDelta: deltas}
}

// spansOf puts native buckets into runs, and gives each one's count less that of the one
// before. A gap of one or two is bridged: that is shorter than another run. Without
// any there is an empty run, or nobody could tell that the histogram is a native one.
func spansOf(buckets map[int]int64) (spans []*dto.BucketSpan, deltas []int64) {
	if len(buckets) == 0 {
		return []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}, nil
	}
	next, before := 0, int64(0)
	add := func(n int64) {
		*spans[len(spans)-1].Length++
		deltas = append(deltas, n-before)
		before = n
		next++
	}
	for _, index := range slices.Sorted(maps.Keys(buckets)) {
		if gap := index - next; len(spans) == 0 || gap > 2 {
			spans = append(spans, &dto.BucketSpan{Offset: new(int32(gap)), Length: new(uint32(0))})
			next = index
		}
		for next < index {
			add(0)
		}
		add(buckets[index])
	}
	return spans, deltas
}
