package ladder

import (
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// rung is one way to drive the NICs.
type rung struct {
	name    string
	nics    int
	workers int
	warm    bool
	pinned  bool
	batch   int // pages of an operation
	engine  engine.Options
}

// fixed is how many requests are on their way where the queue's depth is not
// asked for.
const fixed = 8

// rungs are the ladder's, each with what those below have, as
// ../../../shared/facts has them of the second seed; the first and the last are
// the engine's own.
func rungs(o Options) []rung {
	at := rung{nics: 1, workers: 1, batch: 1, engine: engine.Options{Queue: 1, Batch: 1, Eager: true, OneLock: true, Depth: fixed}}
	var all []rung
	step := func(name string, change func(*rung)) {
		change(&at)
		at.name = name
		all = append(all, at)
	}
	step("one NIC, no queue above its own", func(*rung) {})
	step("one NIC, operation queue", func(r *rung) { r.engine.Queue = 1 << 14 })
	if o.NICs > 1 {
		step("all NICs, one worker", func(r *rung) { r.nics = o.NICs })
	}
	step("connections warmed up first", func(r *rung) { r.warm = true })
	if o.Workers > 1 {
		step("a worker for each group of NICs", func(r *rung) { r.workers = o.Workers })
	}
	step("workers pinned to CPUs", func(r *rung) { r.pinned = true })
	step("state sharded by worker", func(r *rung) { r.engine.OneLock = false })
	step("several operations per submission", func(r *rung) { r.batch, r.engine.Batch = 64, 16 })
	step("post after polling (lazy)", func(r *rung) { r.engine.Eager = false })
	step("credits from real queue depth", func(r *rung) { r.engine.Depth = 0 })
	return all
}
