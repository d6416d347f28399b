package engine

import "sync/atomic"

// peerAt is a peer as one worker sees it. It belongs to the worker.
type peerAt struct {
	p      *Peer
	w      *worker
	links  []*link    // by the worker's rails; nil where the peer has no such rail
	offers []*message // of a new generation, that wait until all of the last is back
	others bool       // other workers have rails to the peer, too
	pick   int        // whose turn it is
	inTurn bool

	jobs     queue[*job]       // that have something to post, first come first served
	notices  []slot            // to be posted
	asking   map[uint32]*asked // by immediate
	active   int               // jobs that have not ended
	done     uint64            // requests carried out
	ups      atomic.Int32      // links that are up; other workers look
	err      error             // why the peer is gone
	released bool
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
func (a *peerAt) idle() bool { return a.jobs.len() == 0 && len(a.notices) == 0 }

// stage hands up to n requests to the rails and tells how many.
func (a *peerAt) stage(n int) (took int) {
	if a.others && a.ups.Load() == 0 {
		a.handOver()
	}
	for took < n && len(a.notices) > 0 {
		s := &a.notices[0]
		l := a.free(true)
		if l == nil {
			break // no receive at the peer
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
		a.notices = append(a.notices[:0], a.notices[1:]...)
	}
	for took < n && a.jobs.len() > 0 {
		j := a.jobs.first()
		// Whoever cancels or withdraws tells the worker, too.
		if j.more() && (!a.w.cancels.Load() || !j.stopped()) {
			if j.single && j.stageNotified() {
				took++
			}
			for took < n && j.more() {
				l := a.free(false)
				if l == nil {
					return took
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

// free is a link that has room for a request, in turn.
func (a *peerAt) free(credit bool) *link {
	n := len(a.links)
	for i := range n {
		at := a.pick + i
		if at >= n {
			at -= n
		}
		l := a.links[at]
		if l == nil || !l.room() || credit && l.credits == 0 {
			continue
		}
		if a.pick = at + 1; a.pick == n {
			a.pick = 0
		}
		return l
	}
	return nil
}

// dropStopped ends the jobs that were cancelled, or whose region was withdrawn.
func (a *peerAt) dropStopped() {
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
