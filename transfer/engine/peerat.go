package engine

import (
	"slices"
	"sync/atomic"
)

// peerAt is a peer as one worker sees it. It belongs to the worker.
type peerAt struct {
	p      *Peer
	w      *worker
	links  []*link    // by the worker's rails; nil where the peer has no such rail
	offers []*message // of a new generation, that wait until all of the last is back
	others bool       // other workers have rails to the peer, too
	pick   int        // whose turn it is
	inTurn bool

	waiting bool // some jobs are parked

	jobs     queue[*job]       // that have something to post, first come first served
	notices  []slot            // to be posted
	asking   map[uint32]*asked // by immediate
	active   int               // jobs that have not ended
	done     uint64            // requests carried out
	ups      atomic.Int32      // links that are up; other workers look
	err      error             // why the peer is gone
	released bool

	rails   railSet // the worker's that the peer has as well
	suspect railSet // those that failed and have carried nothing since

	parked   []*job // for whose memory no rail is up; waiting tells that there are any
	expiring bool   // they will fail if it stays so
	round    uint32 // of expiring
}

// turn puts the peer among those that have something to post.
func (a *peerAt) turn() {
	if !a.inTurn {
		a.inTurn = true
		a.w.turns = append(a.w.turns, a)
	}
}

// enqueue takes a job over.
func (a *peerAt) enqueue(j *job) {
	a.active++
	if a.err != nil {
		j.fail(a.err)
	}
	if j.stopped(); !j.more() {
		j.settle()
		return
	}
	a.push(j)
}

// push puts a job among those that have something to post.
func (a *peerAt) push(j *job) {
	if !j.queued {
		j.queued = true
		a.jobs.push(j)
	}
	a.turn()
}

// idle tells whether there is nothing to post.
func (a *peerAt) idle() bool { return a.jobs.len() == 0 && len(a.notices) == 0 && !a.waiting }

// stage hands up to n requests to the rails and tells how many.
func (a *peerAt) stage(n int) (took int) {
	if a.others && a.ups.Load() == 0 {
		a.handOver()
	}
	if len(a.notices) > 0 {
		took = a.stageNotices(n)
	}
	passed := 0 // jobs whose rails are full
jobs:
	for took < n && a.jobs.len() > 0 {
		j := a.jobs.first()
		// Whoever cancels or withdraws tells the worker, too.
		if j.more() && (!a.w.cancels.Load() || !j.stopped()) {
			if j.single && j.stageNotified() {
				took++
			}
			for took < n && j.more() {
				l := a.free(j.lanes, false)
				if l == nil || j.stray {
					if l == nil && j.lanes == nil {
						return took
					}
					// How far to look is bounded by jobs that something on its way wakes.
					if passed += a.blocked(j); passed > 0 && (passed >= min(a.w.e.o.Batch, a.jobs.len()) || a.full()) {
						return took
					}
					continue jobs
				}
				if j.stage(l) {
					took++
				}
			}
			if j.more() {
				return took
			}
		}
		a.jobs.pop()
		j.queued = false
		j.settle()
	}
	return took
}

// blocked finds out what is to be done with the first job, which no link took or
// under which a rail failed. It tells how many were passed over, 0 or 1, that wait
// for their rails where others may have room.
func (a *peerAt) blocked(j *job) int {
	stray := j.stray
	j.stray = false
	if j.lanes == nil {
		return 0
	}
	switch w, to := a.reroute(j, 0); w {
	case wayRoom:
		if !stray {
			a.jobs.pop()
			a.jobs.push(j)
			return 1
		}
	case wayThere:
		a.jobs.pop()
		j.queued = false
		a.give(to, j, func() { to.enqueue(j) })
	case wayNone:
		a.jobs.pop()
		a.park(j) // it stays queued
	}
	return 0
}

// dropNotice takes one from the queue. Of a long queue the first leaves without
// the others being moved; a short one stays where its memory begins, so that it
// needs no other.
func (a *peerAt) dropNotice(i int) {
	if i == 0 && len(a.notices) > 128 {
		a.notices[0] = slot{}
		a.notices = a.notices[1:]
		return
	}
	a.notices = slices.Delete(a.notices, i, i+1)
}

// stageNotices is stage for notices, and messages.
func (a *peerAt) stageNotices(n int) (took int) {
	for i := 0; took < n && i < len(a.notices); {
		s := &a.notices[i]
		var lanes *railSet
		if s.withBytes() {
			lanes = s.job.lanes
		}
		stray := lanes != nil && s.job.stray
		var l *link
		if !stray {
			l = a.free(lanes, true)
		}
		if l == nil && lanes == nil {
			break // no receive at the peer
		}
		if l == nil {
			s.job.stray = false
			switch w, to := a.reroute(s.job, 1); w {
			case wayHere:
			case wayThere:
				a.handNotice(to, *s)
				a.dropNotice(i)
			case wayNone:
				a.await(s.job)
				i++
			case wayRoom:
				if !stray {
					i++
				}
			}
			continue
		}
		if !s.sequence() {
			// Too many of the number are on their way: another worker's, perhaps,
			// whose completions wake nobody here.
			a.w.starved = true
			break
		}
		s.job.held--
		l.credits--
		l.stage(*s)
		took++
		a.dropNotice(i)
	}
	return took
}

// dropStopped ends the jobs that were cancelled, or whose region was withdrawn.
func (a *peerAt) dropStopped() {
	a.resume()
	a.jobs.keep(func(j *job) bool {
		if !j.stopped() {
			return true
		}
		j.queued = false
		j.settle()
		return false
	})
	a.dropNotices(nil)
}

// lose ends the peer for this worker: nothing of it lands any more, and what it
// was to get fails.
func (a *peerAt) lose(err error) {
	if a.err != nil {
		return
	}
	a.err = err
	for _, l := range a.links {
		for ; l != nil; l = l.before {
			l.close()
			l.settle()
		}
	}
	a.dropNotices(err)
	a.dropAsked(err)
	a.resume()
	a.jobs.keep(func(j *job) bool {
		j.queued = false
		j.fail(err)
		j.settle()
		return false
	})
	a.finished()
}

// finished tells the peer that this worker has nothing of it any more.
func (a *peerAt) finished() {
	if a.err == nil || a.released || a.active > 0 {
		return
	}
	for _, l := range a.links {
		for ; l != nil; l = l.before {
			if l.state != linkDown || l.flight > 0 {
				return
			}
		}
	}
	a.released = true
	a.p.workerDone()
}
