package perf

import (
	"math"
	"sort"
)

// peak is the shortest time a message that any stretch of the run had, in
// ticks: from the posting of message i to the completion of message j, over the
// j-i+1 messages between. Messages were posted in lists; a completion's stamp
// stands at the last message that it was for, the other places are 0.
//
// In a plane of message numbers and times this is the least slope of a line
// from a posting (i-1, postedAt[i]) to a completion (j, doneAt[j]) to its right.
// The posting that it starts from lies on the upper hull of all postings so
// far, and along the hull the slopes fall, then rise.
func peak(postedAt, doneAt []uint64, list int) float64 {
	if len(postedAt) == 0 {
		return math.Inf(1)
	}
	type point struct{ x, y float64 }
	origin := postedAt[0]
	at := func(x int, t uint64) point { return point{float64(x), float64(int64(t - origin))} }
	slope := func(a, b point) float64 { return (b.y - a.y) / (b.x - a.x) }

	var hull []point
	best, next := math.Inf(1), 0
	for j, done := range doneAt {
		if done == 0 {
			continue
		}
		for ; next <= j; next += list {
			p := at(next-1, postedAt[next])
			for n := len(hull); n >= 2 && slope(hull[n-2], hull[n-1]) <= slope(hull[n-1], p); n-- {
				hull = hull[:n-1]
			}
			hull = append(hull, p)
		}
		end := at(j, done)
		// The tangent touches where going on along the hull stops to help.
		k := sort.Search(len(hull)-1, func(k int) bool { return slope(hull[k], end) <= slope(hull[k+1], end) })
		if s := slope(hull[k], end); s > 0 {
			best = min(best, s)
		}
	}
	return best
}
