// Package units prints and reads quantities as the commands do.
package units

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Bytes is a number of bytes. It prints with a binary unit, and is a flag that
// takes one.
type Bytes uint64

var binary = []string{"B", "KiB", "MiB", "GiB", "TiB"}

func (b Bytes) String() string {
	if b == 0 {
		return "0" // which flag packages know as no default
	}
	unit := min((bits.Len64(uint64(b))-1)/10, len(binary)-1)
	v := float64(b) / float64(uint64(1)<<(10*unit))
	if v >= 100 || v == float64(uint64(v)) {
		return fmt.Sprintf("%.0f %s", v, binary[unit])
	}
	return fmt.Sprintf("%.1f %s", v, binary[unit])
}

// Set reads bytes with an optional unit, which is binary: 4096, 64K, 64KiB.
func (b *Bytes) Set(s string) error {
	digits := strings.TrimRight(s, "BIKMGTibkmgt ")
	unit := strings.ToUpper(strings.TrimSpace(s[len(digits):]))
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")
	power := strings.Index(" KMGT", unit) // 0 for none
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || power < 0 || len(unit) > 1 || v > 1<<63>>(10*power) {
		return fmt.Errorf("%q is no size: give bytes, as 4096, 64K or 1M", s)
	}
	*b = Bytes(v << (10 * power))
	return nil
}

// Type names the flag's value in help texts.
func (b *Bytes) Type() string { return "size" }
