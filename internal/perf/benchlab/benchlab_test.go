package benchlab

import (
	"math"
	"testing"

	"github.com/peerdirect/peerdirect/internal/perf"
)

func TestPerftestOutputIsRead(t *testing.T) {
	bw := testCase{perf.Write, perf.Bandwidth, 8, 10000}
	v, err := theirs.parse(bw, []byte(` #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 2100.000000 != 2000.000000. CPU Frequency is not max.
 8          10000            0.07               0.06 		   0.008300
---------------------------------------------------------------------------------------
`))
	if want := 0.0083e6 * 8 / (1 << 20); err != nil || math.Abs(v-want) > 1e-9 {
		t.Errorf("%v, %v; want %v", v, err, want)
	}
	lat := testCase{perf.Send, perf.Latency, 8, 5000}
	v, err = theirs.parse(lat, []byte(` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       5000          31.10          4021.11      47.25     	       52.01       	12.31		101.10  		1021.00
`))
	if err != nil || v != 47.25 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := theirs.parse(lat, []byte("Completion with error at client")); err == nil {
		t.Error("nothing was taken for a result")
	}
}

func TestCasesAreDistinct(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range cases() {
		if seen[c.name()] {
			t.Errorf("%s appears twice", c.name())
		}
		seen[c.name()] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d cases", len(seen))
	}
}
