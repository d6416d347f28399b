package engine

// handOver gives what none of this worker's rails can carry to a worker that has
// a rail to the peer, one that has not just failed if there is any: else two such
// workers would give it to each other. What waits for a fence stays until that came.
func (a *peerAt) handOver() {
	var to *peerAt
	good := a.p.goodRails.load()
	for _, other := range a.p.at {
		if other.rails.meets(&good) {
			to = other
			break
		}
		if to == nil && other.ups.Load() > 0 {
			to = other
		}
	}
	if to == nil {
		return
	}
	a.jobs.keep(func(j *job) bool {
		if j.flight > 0 || j.held > 0 || j.lanes != nil { // those go by rails of their own
			return true
		}
		j.queued = false
		a.give(to, j, func() { to.enqueue(j) })
		return false
	})
	notices := a.notices[:0]
	for _, s := range a.notices {
		if s.withBytes() && s.job.lanes != nil {
			notices = append(notices, s)
			continue
		}
		a.handNotice(to, s)
	}
	clear(a.notices[len(notices):])
	a.notices = notices
}

// handNotice gives another worker what waits among the notices.
func (a *peerAt) handNotice(to *peerAt, s slot) {
	a.give(to, s.job, func() {
		to.active++
		to.notices = append(to.notices, s)
		if to.err != nil {
			to.dropNotices(to.err)
			return
		}
		to.turn()
		to.w.cancels.Store(true) // it may have been cancelled on its way
	})
}

// give hands a job to another worker. Until that has it, it counts here, so that
// the peer is not fenced between.
func (a *peerAt) give(to *peerAt, j *job, take func()) {
	to.w.do(func() {
		j.at, j.w = to, to.w
		take()
		a.w.do(func() {
			a.active--
			a.finished()
		})
	})
}

// dropNotices ends transfers that wait for their notice to be posted: all, with
// err, or those that were cancelled, or whose region was withdrawn. Of one that
// failed with its rail before it is not known whether it counted; it comes no more.
func (a *peerAt) dropNotices(err error) {
	notices := a.notices
	a.notices = nil
	left := notices[:0]
	for _, s := range notices {
		why := err
		if why == nil {
			why = s.job.halted()
		}
		if why == nil {
			left = append(left, s)
			continue
		}
		s.over()
		s.job.held--
		s.job.fail(why)
		s.job.settle()
	}
	clear(notices[len(left):])
	a.notices = append(left, a.notices...)
}
