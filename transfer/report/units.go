package report

import (
	"time"

	"github.com/peerdirect/peerdirect/internal/units"
)

// Bytes is a number of bytes. It prints with a binary unit, "64 KiB", and as a flag
// it takes one: its Set reads 4096, 64K or 64KiB.
type Bytes = units.Bytes

// micros prints microseconds with about three digits.
func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	for unit := 100 * time.Second; unit >= 100*time.Nanosecond; unit /= 10 {
		if d >= unit {
			d = d.Round(unit / 100)
			break
		}
	}
	return d.String()
}
