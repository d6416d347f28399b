package pages

import "time"

// rateBuckets is how finely the progress of a transfer is kept.
const rateBuckets = 96

// rateLog keeps how many bytes were moved in each of up to rateBuckets equal
// spans of time. When time runs out of buckets, spans double: the memory stays
// the same however long it takes.
type rateLog struct {
	width  time.Duration
	bytes  [rateBuckets]uint64
	filled int
}

func newRateLog() rateLog { return rateLog{width: time.Millisecond} }

func (r *rateLog) add(at time.Duration, bytes uint64) {
	for at >= r.width*rateBuckets {
		for i := range rateBuckets / 2 {
			r.bytes[i] = r.bytes[2*i] + r.bytes[2*i+1]
		}
		clear(r.bytes[rateBuckets/2:])
		r.width *= 2
		r.filled = (r.filled + 1) / 2
	}
	i := int(max(at, 0) / r.width)
	r.bytes[i] += bytes
	r.filled = max(r.filled, i+1)
}

// Rate is how a transfer's speed went over time.
type Rate struct {
	Interval float64  `json:"interval_seconds"`
	Bytes    []uint64 `json:"bytes"` // moved in each interval
}

func (r *rateLog) rate() Rate {
	return Rate{Interval: r.width.Seconds(), Bytes: append([]uint64(nil), r.bytes[:r.filled]...)}
}
