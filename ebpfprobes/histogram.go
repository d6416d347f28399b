package ebpfprobes

import "time"

// slotBits is SLOT_BITS of bpf/common.h: 16 slots an octave.
const slotBits = 4

// Histogram counts durations in slots that are 6 % wide at most.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	Longest time.Duration
	Slots   []uint64 // SlotRange tells of what; nil if Count is 0, and of phase Tracing
}

// countSlots takes the programs' slots. Their sum is the count, so that both are of one
// moment.
func countSlots[N uint32 | uint64](h *Histogram, slots []N) {
	for _, n := range slots {
		h.Count += uint64(n)
	}
	if h.Count == 0 {
		return
	}
	h.Slots = make([]uint64, len(slots))
	for i, n := range slots {
		h.Slots[i] = uint64(n)
	}
}

// SlotRange gives the durations of a slot: from low to below high.
func SlotRange(slot int) (low, high time.Duration) {
	return slotLow(slot), slotLow(slot + 1)
}

func slotLow(slot int) time.Duration {
	const sub = 1 << slotBits
	if slot < sub {
		return time.Duration(slot)
	}
	shift := slot>>slotBits - 1
	return time.Duration(sub+slot&(sub-1)) << shift
}

// Quantile gives the duration that a part q of all is not above, within its slot by
// proportion; 0 of a histogram without slots.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 || h.Slots == nil {
		return 0
	}
	rank := q * float64(h.Count)
	below := 0.0
	for i, n := range h.Slots {
		if n == 0 {
			continue
		}
		if below+float64(n) >= rank {
			low, high := SlotRange(i)
			return min(low+time.Duration((rank-below)/float64(n)*float64(high-low)), h.Longest)
		}
		below += float64(n)
	}
	return h.Longest
}

// Mean gives the mean; 0 of an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Add adds another's counts.
func (h *Histogram) Add(o *Histogram) {
	if o.Count == 0 {
		return
	}
	h.Count += o.Count
	h.Sum += o.Sum
	h.Longest = max(h.Longest, o.Longest)
	if h.Slots == nil && o.Slots != nil {
		h.Slots = make([]uint64, len(o.Slots))
	}
	for i, n := range o.Slots {
		h.Slots[i] += n
	}
}
