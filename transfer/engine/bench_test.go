package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// benchRound is how many requests a round has.
const benchRound = 256

// rounds writes pages to the first peer, pages of them a transfer, benchRound in
// flight, and calls mark before and after what is to be measured: submitting,
// posting and polling, and not the device's part.
func (r *benchRig) rounds(t testing.TB, pages, rounds int, mark func()) {
	ctx := context.Background()
	move := r.pages(0, pages)
	flight := make([]*Transfer, benchRound/pages)
	for range rounds {
		mark()
		for i := range flight {
			var err error
			if flight[i], err = r.peers[0].Write(ctx, move); err != nil {
				t.Fatal(err)
			}
		}
		for left := len(flight); left > 0; {
			r.e.Step(0)
			mark()
			r.complete()
			mark()
			for left > 0 && flight[left-1].Ended() {
				left--
				flight[left].Release()
			}
		}
		mark()
	}
}

// BenchmarkEngine is the work of one core for a request, from the submission to
// the end, by transfers of so many pages: the engine's alone, on rails that do
// nothing, and with the EFA rail on rings that nobody reads. The median over
// rounds of 256 is what a machine that is busy with other things tells right.
func BenchmarkEngine(b *testing.B) {
	for _, over := range []string{"engine", "engine+efa"} {
		for _, rails := range []int{1, 4} {
			for _, pages := range []int{1, 16, 256} {
				b.Run(fmt.Sprintf("%s/rails=%d/pages=%d", over, rails, pages), func(b *testing.B) {
					r := newBenchRig(b, benchShape{efa: over != "engine", rails: rails, peers: 1})
					r.rounds(b, pages, 10, func() {})
					benchRounds(b, r, pages)
				})
			}
		}
	}
}

func benchRounds(b *testing.B, r *benchRig, pages int) {
	rounds := max(1, b.N/benchRound)
	took := make([]time.Duration, 0, rounds)
	b.ReportAllocs()
	b.ResetTimer()
	for range rounds {
		var sum time.Duration
		var start time.Time
		on := false
		r.rounds(b, pages, 1, func() {
			if on = !on; on {
				start = time.Now()
			} else {
				sum += time.Since(start)
			}
		})
		took = append(took, sum)
	}
	b.StopTimer()
	slices.Sort(took)
	median := float64(took[len(took)/2].Nanoseconds()) / benchRound
	b.ReportMetric(0, "ns/op") // with the device's part: left out
	b.ReportMetric(median, "median-ns/request")
	b.ReportMetric(1e3/median, "million/s/core")
}

// BenchmarkScatter writes a page to each of 56 peers and tells the time from the
// first post to the last doorbell, over the EFA rail on rings that nobody reads.
func BenchmarkScatter(b *testing.B) {
	for _, rails := range []int{1, 4} {
		b.Run(fmt.Sprintf("peers=56/rails=%d", rails), func(b *testing.B) {
			r := newBenchRig(b, benchShape{efa: true, rails: rails, peers: 56, stamp: true})
			var took []time.Duration
			r.scatter(b, 100, func() {})
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for _, s := range r.stamps {
					s.first, s.last = time.Time{}, time.Time{}
				}
				r.scatter(b, 1, func() {})
				first, last := r.stamps[0].first, r.stamps[0].last
				for _, s := range r.stamps[1:] {
					if !s.first.IsZero() && s.first.Before(first) {
						first = s.first
					}
					if s.last.After(last) {
						last = s.last
					}
				}
				if len(took) < cap(took) || cap(took) < 1<<16 {
					took = append(took, last.Sub(first))
				}
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[0].Nanoseconds()), "min-ns")
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// scatter writes a page to each peer. mark is called before and after the steps
// that post.
func (r *benchRig) scatter(t testing.TB, rounds int, mark func()) {
	ctx := context.Background()
	if r.moves == nil {
		for i := range r.peers {
			r.moves = append(r.moves, r.pages(i, 1))
		}
	}
	for range rounds {
		g, err := r.e.Scatter(ctx, r.moves)
		if err != nil {
			t.Fatal(err)
		}
		mark()
		for posted := false; !posted; {
			r.e.Step(0)
			posted = len(r.e.workers[0].turns) == 0
		}
		mark()
		for !g.Ended() {
			r.complete()
			r.e.Step(0)
		}
		g.Release()
	}
}

// TestScatterAllocatesNothing: for a call to 56 peers, from the call to the end.
func TestScatterAllocatesNothing(t *testing.T) {
	r := newBenchRig(t, benchShape{efa: true, rails: 4, peers: 56})
	r.scatter(t, 100, func() {})
	if n := testing.AllocsPerRun(100, func() { r.scatter(t, 1, func() {}) }); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

// TestSteadyStateAllocatesNothing: submitting, posting, polling and ending.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, over := range []bool{false, true} {
		r := newBenchRig(t, benchShape{efa: over, rails: 4, peers: 1})
		move := r.pages(0, 16)
		one := func() {
			w, err := r.peers[0].Write(context.Background(), move)
			if err != nil {
				t.Fatal(err)
			}
			for !w.Ended() {
				r.e.Step(0)
				r.complete()
			}
			w.Release()
		}
		for range 100 {
			one()
		}
		if n := testing.AllocsPerRun(1000, one); n != 0 && !raceEnabled {
			t.Errorf("efa %v: %v allocations for each transfer", over, n)
		}
	}
}
