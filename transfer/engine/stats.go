package engine

import "sync/atomic"

// RailStats are a rail's numbers since the engine began.
type RailStats struct {
	Device string
	Posted uint64 // work requests
	Done   uint64 // of them, completed
	Failed uint64 // and come back undone
	Flight int    // on their way now: posted, and not come back
	Bytes  uint64 // placed at peers, or read from them
	Up     int    // peers that it is connected to
	Losses uint64 // connections that failed
}

// railCount is written by the rail's worker alone, which shows what it has
// counted now and then: readers cost it nothing.
type railCount struct {
	done, bytes uint64

	posted, shownDone, shownBytes atomic.Uint64
	failed, losses                atomic.Uint64
	up                            atomic.Int64
}

func (c *railCount) show() {
	c.shownDone.Store(c.done)
	c.shownBytes.Store(c.bytes)
}

// Stats gives the numbers of each rail, in the order of Options.Rails.
func (e *Engine) Stats() []RailStats {
	all := make([]RailStats, len(e.rails))
	for i, r := range e.rails {
		done, failed := r.count.shownDone.Load(), r.count.failed.Load()
		posted := r.count.posted.Load() // last: what came back was posted before
		all[i] = RailStats{
			Device: r.info.Device, Posted: posted, Done: done, Failed: failed, Flight: max(0, int(posted-done-failed)),
			Bytes: r.count.shownBytes.Load(), Up: int(r.count.up.Load()), Losses: r.count.losses.Load(),
		}
	}
	return all
}
