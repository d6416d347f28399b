package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// firstLater is how many transfers follow the first.
const firstLater = 20

// BenchmarkFirst is the first transfer of a connection beside the median of those
// that follow: without Warm; at once after it, as those follow at once; and after a
// pause, as each of those comes after one, so that both find everybody asleep. Each
// moves memory of its own, that nobody touched since it was filled.
func BenchmarkFirst(b *testing.B) {
	const page = 4096
	for _, rails := range []int{1, 4} {
		for _, pages := range []int{1, 16, 128} {
			for _, how := range []firstHow{{name: "cold"}, {name: "warmed", warm: true}, {name: "warmed,notified", warm: true, notify: engine.Counts(1)},
				{name: "warmed,paused", warm: true, pause: time.Millisecond}} {
				b.Run(fmt.Sprintf("rails=%d/pages=%d/%s", rails, pages, how.name), func(b *testing.B) {
					firsts, laters := make([]time.Duration, 0, b.N), make([]time.Duration, 0, firstLater*b.N)
					for range b.N {
						took := firstOnce(b, rails, pages, page, how)
						firsts, laters = append(firsts, took[0]), append(laters, took[1:]...)
					}
					slices.Sort(firsts)
					slices.Sort(laters)
					b.ReportMetric(0, "ns/op") // with the making of the nodes: left out
					first, later := firsts[len(firsts)/2], laters[len(laters)/2]
					b.ReportMetric(float64(first.Nanoseconds())/1e3, "first-us")
					b.ReportMetric(float64(later.Nanoseconds())/1e3, "later-us")
					b.ReportMetric(float64(first)/float64(later), "first/later")
				})
			}
		}
	}
}

// firstHow is under what conditions the transfers are made.
type firstHow struct {
	name   string
	warm   bool
	notify engine.Notify
	pause  time.Duration // before each
}

// firstOnce makes two nodes and gives the times of the transfers between them.
func firstOnce(b *testing.B, rails, pages, size int, how firstHow) []time.Duration {
	once := &oneRound{TB: b}
	defer once.end()
	c := newCluster(once, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: rails}, Bytes: (1 + firstLater) * pages * size})
	x, y := c.nodes[0], c.nodes[1]
	moves := firstMoves(c, pages, size)
	took := make([]time.Duration, 0, len(moves))
	ctx := within(once)
	if how.warm {
		if err := x.peers[y].Warm(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for _, m := range moves {
		if how.pause > 0 {
			time.Sleep(how.pause)
		}
		m.Notify = how.notify
		t, err := timeOne(ctx, x.peers[y], m)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, t)
	}
	same(b, "what was moved", y.mem, x.mem)
	return took
}

// oneRound is a benchmark for one round of it: what is to be cleaned up is at the
// round's end.
type oneRound struct {
	testing.TB
	cleanups []func()
}

func (r *oneRound) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *oneRound) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// firstMoves fills the nodes' memory, and makes a move from each part of one to the
// same of the other.
func firstMoves(c *cluster, pages, size int) []engine.Move {
	x, y := c.nodes[0], c.nodes[1]
	fill(x.mem, 1)
	fill(y.mem, 2) // or its pages would be made later
	var moves []engine.Move
	for range 1 + firstLater {
		index := make([]uint32, pages)
		for i := range index {
			index[i] = uint32(len(moves)*pages + i)
		}
		moves = append(moves, engine.Move{Local: x.region, Remote: x.target[y], PageSize: uint64(size),
			LocalPages: engine.Pages{Index: index}, RemotePages: engine.Pages{Index: index}})
	}
	return moves
}

// timeOne is the time from the call to the end.
func timeOne(ctx context.Context, p *engine.Peer, m engine.Move) (time.Duration, error) {
	start := time.Now()
	t, err := p.Write(ctx, m)
	if err != nil {
		return 0, err
	}
	err = t.Wait(ctx)
	took := time.Since(start)
	t.Release()
	return took, err
}
