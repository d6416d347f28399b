package tracereport

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// appendProtobuf writes a metric as a delimited MetricFamily of io.prometheus.client
// (metrics.proto of prometheus/client_model), whose numbers of fields are below.
// Histograms have native buckets, and the classic ones for those who keep to them.
func appendProtobuf(to []byte, m *Metric, began time.Time) []byte {
	kind := [...]uint64{Gauge: 1, Counter: 0, Durations: 4}[m.Type]
	family := message(nil).text(1, m.Name).text(2, m.Help).number(3, kind)
	for i := range m.Samples {
		s := &m.Samples[i]
		var one message
		for l, name := range m.Labels {
			one = one.nested(1, message(nil).text(1, name).text(2, s.Labels[l]))
		}
		switch m.Type {
		case Gauge:
			one = one.nested(2, message(nil).double(1, s.Value))
		case Counter:
			one = one.nested(3, message(nil).double(1, s.Value).nested(3, timestamp(began)))
		case Durations:
			one = one.nested(7, histogramMessage(s.Histogram).nested(15, timestamp(began)))
		}
		family = family.nested(4, one)
	}
	to = binary.AppendUvarint(to, uint64(len(family)))
	return append(to, family...)
}

func timestamp(t time.Time) message {
	return message(nil).number(1, uint64(t.Unix())).number(2, uint64(t.Nanosecond()))
}

func histogramMessage(h *ebpfprobes.Histogram) message {
	m := message(nil).number(1, h.Count).double(2, h.Sum.Seconds())
	for _, b := range classicBuckets(h) {
		m = m.nested(3, message(nil).number(1, b.count).double(2, b.bound))
	}
	native, zero := nativeBuckets(h)
	m = m.zigzag(5, nativeSchema).double(6, 0).number(7, zero)
	spans, deltas := spansOf(native)
	for _, s := range spans {
		m = m.nested(12, message(nil).zigzag(1, int64(s.gap)).number(2, uint64(s.length)))
	}
	for _, d := range deltas {
		m = m.zigzag(13, d)
	}
	return m
}

// span is a run of native buckets, so many after the end of the one before.
type span struct{ gap, length int }

// spansOf puts native buckets into runs, and gives each one's count less that of the one
// before. A gap of one or two is bridged: that is shorter than another run. Without
// any there is an empty run, or nobody could tell that the histogram is a native one.
func spansOf(buckets map[int]int64) (spans []span, deltas []int64) {
	if len(buckets) == 0 {
		return []span{{}}, nil
	}
	next, before := 0, int64(0)
	add := func(n int64) {
		spans[len(spans)-1].length++
		deltas = append(deltas, n-before)
		before = n
		next++
	}
	for _, index := range slices.Sorted(maps.Keys(buckets)) {
		if gap := index - next; len(spans) == 0 || gap > 2 {
			spans = append(spans, span{gap: gap})
			next = index
		}
		for next < index {
			add(0)
		}
		add(buckets[index])
	}
	return spans, deltas
}

// message is an encoded message of protocol buffers, to which fields are added.
type message []byte

func (m message) number(field int, v uint64) message {
	return binary.AppendUvarint(append(m, byte(field<<3)), v)
}

func (m message) zigzag(field int, v int64) message {
	return m.number(field, uint64(v<<1)^uint64(v>>63))
}

func (m message) double(field int, v float64) message {
	return binary.LittleEndian.AppendUint64(append(m, byte(field<<3|1)), math.Float64bits(v))
}

func (m message) text(field int, s string) message { return m.nested(field, message(s)) }

func (m message) nested(field int, of message) message {
	return append(binary.AppendUvarint(append(m, byte(field<<3|2)), uint64(len(of))), of...)
}
