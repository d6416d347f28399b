package tracereport

import (
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// octaves sums a histogram's slots by octaves: n of the durations from 2^n ns to below
// 2^(n+1); those below 2 ns are in the first.
func octaves(h *ebpfprobes.Histogram) []uint64 {
	var sums []uint64
	for slot, n := range h.Slots {
		if n == 0 {
			continue
		}
		low, _ := ebpfprobes.SlotRange(slot)
		octave := max(bits.Len64(uint64(low))-1, 0)
		for len(sums) <= octave {
			sums = append(sums, 0)
		}
		sums[octave] += uint64(n)
	}
	return sums
}

const log2Stars = 40

// writeLog2 prints a histogram by octaves, from its first to its last, as funclatency
// of bcc does. Octaves are of whole slots: the counts are exact.
func writeLog2(w io.Writer, h *ebpfprobes.Histogram) {
	sums := octaves(h)
	first, most := -1, uint64(0)
	for i, n := range sums {
		if n > 0 && first < 0 {
			first = i
		}
		most = max(most, n)
	}
	if first < 0 {
		return
	}
	digits := max(len(fmt.Sprint(uint64(1)<<len(sums)-1)), 5)
	fmt.Fprintf(w, "%-*s : count     distribution\n", 2*digits+6, "     nsecs")
	for i := first; i < len(sums); i++ {
		low := uint64(1) << i
		if i == 0 {
			low = 0
		}
		stars := strings.Repeat("*", int((sums[i]*log2Stars+most/2)/most))
		fmt.Fprintf(w, "  %*d -> %-*d : %-9d |%-*s|\n", digits, low, digits, uint64(1)<<(i+1)-1, sums[i], log2Stars, stars)
	}
}
