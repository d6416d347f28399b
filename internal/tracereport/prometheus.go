package tracereport

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	dto "github.com/prometheus/client_model/go"
)

// Collector gives what read gives at the time of each scrape, in the forms that
// Prometheus reads.
type Collector struct {
	read  func() ([]Metric, error)
	began time.Time

	mu    sync.Mutex
	bound *Bound
}

// NewCollector makes one whose counts began at a time, with at most so many series a
// metric.
func NewCollector(began time.Time, most int, read func() ([]Metric, error)) *Collector {
	return &Collector{read: read, began: began, bound: NewBound(most)}
}

// collect reads and bounds.
func (c *Collector) collect() ([]Metric, error) {
	c.mu.Lock() // over reading too, so that what was read first is bounded first
	defer c.mu.Unlock()
	metrics, err := c.read()
	if err != nil {
		return nil, err
	}
	at := time.Now()
	for i, m := range metrics {
		metrics[i] = c.bound.Apply(m, at)
	}
	return slices.DeleteFunc(metrics, func(m Metric) bool { return len(m.Samples) == 0 }), nil
}

// nativeSchema 3 has 8 buckets an octave, each 9.05 % wide, with bounds 2^(i/8) seconds.
// Of the schemas it is the finest whose buckets are all wider than a slot of ours
// (6.25 % at most), so that a slot lies in one bucket or across one bound. One finer,
// and a slot could cover a bucket whole; its count could then fall from one scrape to
// the next, which Prometheus takes for a restart.
const nativeSchema = 3

const nativePerOctave = 1 << nativeSchema

// nativeBuckets distributes slots to native buckets. A slot across a bound is divided
// by proportion, as if its calls were spread evenly: a call may be counted in the next
// bucket, but only if it took within 6.25 % of the bound. Below 16 ns, where slots are
// 1 ns wide and may cover several buckets, a slot goes to the bucket of its middle.
func nativeBuckets(h *ebpfprobes.Histogram) (buckets map[int]int64, zero uint64) {
	buckets = make(map[int]int64)
	for slot, n := range h.Slots {
		if n == 0 {
			continue
		}
		from, to := ebpfprobes.SlotRange(slot)
		if from == 0 {
			zero += uint64(n)
			continue
		}
		low, high := from.Seconds(), to.Seconds()
		first, last := nativeIndex(low), nativeIndex(high)
		switch last - first {
		case 0:
			buckets[first] += int64(n)
		case 1:
			part := (nativeBound(first) - low) / (high - low)
			below := min(int64(math.Floor(float64(n)*part)), int64(n))
			if below > 0 {
				buckets[first] += below
			}
			if below < int64(n) {
				buckets[last] += int64(n) - below
			}
		default:
			buckets[nativeIndex((low+high)/2)] += int64(n)
		}
	}
	return buckets, zero
}

// nativeIndex is the bucket of a duration in seconds: bounds belong to the one below.
func nativeIndex(seconds float64) int {
	return int(math.Ceil(math.Log2(seconds) * nativePerOctave))
}

// nativeBound is a bucket's upper bound, in seconds.
func nativeBound(index int) float64 { return math.Exp2(float64(index) / nativePerOctave) }

// Classic buckets: an octave each, from 1.02 us to 17.2 s.
const (
	classicFirst = 10 // 2^10 ns
	classicLast  = 34
)

// classicBuckets counts exactly: octaves are of whole slots. Only a call that took
// 2^n ns to the nanosecond is in the bucket above.
func classicBuckets(h *ebpfprobes.Histogram) (buckets []*dto.Bucket) {
	sums := octaves(h)
	var below uint64
	for n := range classicLast {
		if n < len(sums) {
			below += sums[n]
		}
		if n+1 >= classicFirst {
			bound := (time.Duration(1) << (n + 1)).Seconds()
			buckets = append(buckets, &dto.Bucket{UpperBound: &bound, CumulativeCount: new(below)})
		}
	}
	return buckets
}
