package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// BenchmarkFirst is the first transfer of a connection, with and without Warm,
// beside the median of the twenty that follow: 64 KiB over 4 embedded
// NICs.
func BenchmarkFirst(b *testing.B) {
	for _, warm := range []bool{false, true} {
		b.Run(map[bool]string{false: "cold", true: "warmed"}[warm], func(b *testing.B) {
			var firsts, laters []time.Duration
			for range b.N {
				c := newCluster(b, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 4}})
				x, y := c.nodes[0], c.nodes[1]
				fill(x.mem, 1) // or the pages would be made now
				fill(y.mem, 2)
				if warm {
					if err := x.peers[y].Warm(within(b)); err != nil {
						b.Fatal(err)
					}
				}
				for i := range 21 {
					start := time.Now()
					x.done(x.write(y, engine.Notify{}, engine.Segment{Length: 64 << 10}))
					if took := time.Since(start); i == 0 {
						firsts = append(firsts, took)
					} else {
						laters = append(laters, took)
					}
				}
			}
			slices.Sort(firsts)
			slices.Sort(laters)
			first, later := firsts[len(firsts)/2], laters[len(laters)/2]
			b.ReportMetric(float64(first.Microseconds()), "first-us")
			b.ReportMetric(float64(later.Microseconds()), "later-us")
			b.ReportMetric(float64(first)/float64(later), "first/later")
		})
	}
}
