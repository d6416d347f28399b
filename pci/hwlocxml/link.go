package hwlocxml

import "math"

// rates are what hwloc takes a lane of each speed to carry, in Gbit/s
// (hwloc_pcidisc_find_linkspeed). Releases before 2.7 knew no 64 GT/s and went on
// from 32 with its encoding.
var rates = []struct{ speed, carries float64 }{
	{2.5, 2.5 * 8 / 10}, {5, 5 * 8. / 10}, {8, 8 * 128. / 130}, {16, 16 * 128. / 130}, {32, 32 * 128. / 130},
	{64, 64 * 128. / 130}, {64, 64 * 242. / 256}, {128, 128 * 128. / 130}, {128, 128 * 242. / 256},
}

// lanesOf gives speed and width of a link that carries so many GB/s, if only one
// link does: 0.25 is one lane of 2.5 GT/s, but 15.75 are 16 lanes of 8 GT/s as well as
// 8 of 16. Zeros are unknown.
func lanesOf(bandwidth float64) (speed float64, width int) {
	for _, r := range rates {
		for _, lanes := range []int{1, 2, 4, 8, 12, 16, 32} {
			// hwloc counts in single precision and prints six digits.
			if carries := r.carries * float64(lanes) / 8; math.Abs(carries-bandwidth) > carries*1e-5 {
				continue
			}
			if width != 0 && (speed != r.speed || width != lanes) {
				return 0, 0
			}
			speed, width = r.speed, lanes
		}
	}
	return speed, width
}
