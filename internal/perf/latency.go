package perf

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies collects times in nanoseconds. Quantiles come from a histogram
// with three significant digits; the rest is exact.
type latencies struct {
	hist     *hdrhistogram.Histogram
	n        uint64
	min, max float64
	sum, sq  float64
}

// longest is what the histogram tells apart, in ns: an hour.
const longest = 3600_000_000_000

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(1, longest, 3), min: math.Inf(1)}
}

func (l *latencies) record(ns float64) {
	ns = max(ns, 0)
	l.n++
	l.min, l.max = min(l.min, ns), max(l.max, ns)
	l.sum += ns
	l.sq += ns * ns
	l.hist.RecordValue(min(int64(math.Round(ns)), longest))
}

func (l *latencies) merge(m *latencies) {
	l.hist.Merge(m.hist)
	l.n += m.n
	l.min, l.max = min(l.min, m.min), max(l.max, m.max)
	l.sum += m.sum
	l.sq += m.sq
}

// recordStamps takes the times between stamps, the last of which ends at end.
func (l *latencies) recordStamps(stamps []uint64, end uint64, nsPerTick float64) {
	for i, from := range stamps {
		to := end
		if i+1 < len(stamps) {
			to = stamps[i+1]
		}
		// Counters of different processors may differ by a little.
		l.record(float64(int64(to-from)) * nsPerTick)
	}
}

// summary gives the times divided by trips, in microseconds.
func (l *latencies) summary(trips float64) *LatencyStats {
	if l.n == 0 {
		return nil
	}
	usec := func(ns float64) float64 { return ns / 1e3 / trips }
	at := l.hist.ValueAtPercentilesSlice([]float64{50, 99, 99.9})
	mean := l.sum / float64(l.n)
	// A bucket's upper end may lie over the greatest value in it.
	quantile := func(v int64) float64 { return usec(min(max(float64(v), l.min), l.max)) }
	return &LatencyStats{
		Min: usec(l.min), Max: usec(l.max), Avg: usec(mean),
		Typical: quantile(at[0]), P99: quantile(at[1]), P999: quantile(at[2]),
		Stdev: usec(math.Sqrt(max(l.sq/float64(l.n)-mean*mean, 0))),
	}
}
