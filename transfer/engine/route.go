package engine

import "errors"

// A transfer goes by rails that both memories are near to, as long as one of them
// is up. Else it goes by any on which both are registered; and if none of these is
// up, the memory is registered on others (see widen.go).

// route is the rails by which a transfer goes now; none if there is none. They may
// be down for the moment, if all are.
func (p *Peer) route(r *Region, t *Target) railSet {
	have := r.have.load().and(t.have.load())
	near := r.near.and(t.near)
	if near.empty() {
		return have
	}
	good := p.goodRails.load()
	if have.meets(&good) && !near.meets(&good) {
		return have // with those near ones that are up: it shows whether they carry
	}
	return near
}

// lanes gives a new transfer its rails: nil is all of the peer's. Memory that has no
// rail in common with the peer's is registered where that is, now.
func (p *Peer) lanes(r *Region, t *Target, own *railSet) (*railSet, error) {
	if r.everywhere && t.everywhere {
		return nil, nil
	}
	*own = p.route(r, t)
	if *own == p.all {
		return nil, nil
	}
	if !own.empty() {
		return own, nil
	}
	theirs := t.have.load()
	if theirs.empty() {
		return own, nil // the workers ask the peer
	}
	if others := theirs.without(r.refused.load()); !others.empty() {
		theirs = others
	}
	if err := p.widenHere(r, p.best(r.near, theirs)); err != nil {
		good := p.goodRails.load()
		if others := good.without(t.have.load()); others.empty() || errors.Is(err, ErrClosed) {
			return nil, err
		}
		p.trouble(err)
		return own, nil // the peer may have its memory reached by others
	}
	*own = p.route(r, t)
	return own, nil
}

// best is those of some rails that memory shall be registered with besides: as many
// as are near to it, and the next after these: NICs are numbered by their place.
func (p *Peer) best(near, of railSet) railSet {
	return of.few(max(1, near.count()), near.last())
}

// workersOf appends the peer as those workers see it that drive some rails.
func (p *Peer) workersOf(lanes *railSet, room []*peerAt) []*peerAt {
	for _, a := range p.at {
		if a.rails.meets(lanes) {
			room = append(room, a)
		}
	}
	return room
}

// free is a link that has room for a request, in turn; of those lanes, nil being
// any.
func (a *peerAt) free(lanes *railSet, credit bool) *link {
	at := a.pick
	for range a.links {
		l := a.links[at]
		if at++; at == len(a.links) {
			at = 0
		}
		if l != nil && l.room() && (!credit || l.credits > 0) && (lanes == nil || lanes.has(l.r.index)) {
			a.pick = at
			return l
		}
	}
	return nil
}

// full tells whether no link has room.
func (a *peerAt) full() bool {
	for _, l := range a.links {
		if l != nil && l.room() {
			return false
		}
	}
	return true
}

// way is what a request that no link took waits for.
type way uint8

const (
	wayRoom  way = iota // room on its rails, or for what is on its way of the job
	wayHere             // nothing: it has other rails here now
	wayThere            // another worker, which has rails for it
	wayNone             // a rail that comes, or that the memory is registered with
)

// reroute looks why no link took a request of a job that has so many aside. to is
// the other worker's.
func (a *peerAt) reroute(j *job, held int) (w way, to *peerAt) {
	good := a.p.goodRails.load()
	here := good.and(a.rails)
	if j.lanes.meets(&here) {
		j.waits = false
		return wayRoom, nil
	}
	lanes := a.p.route(j.region, j.target)
	now := lanes.and(good)
	if now.empty() {
		if a.p.widen(j.region, j.target) {
			return wayNone, nil
		}
		lanes = j.region.have.load().and(j.target.have.load())
		now = lanes.and(a.p.upRails.load()) // not empty but by a race, which unpark ends
	}
	if now.empty() {
		return wayNone, nil
	}
	j.waits = false
	switch {
	case now.meets(&a.rails):
		if *j.lanes == lanes {
			return wayRoom, nil
		}
		j.lanes = &lanes // its own from now on
		return wayHere, nil
	case j.flight > 0 || j.held > held:
		return wayRoom, nil
	}
	for _, other := range a.p.at {
		if now.meets(&other.rails) {
			to = other
			break
		}
	}
	j.lanes = &lanes
	return wayThere, to
}

// proved notes that a rail carries again, which had failed.
func (l *link) proved() {
	l.suspect = false
	l.at.suspect.remove(l.r.index)
	if l.state == linkUp {
		l.at.p.goodRails.add(l.r.index)
		l.at.p.unpark()
	}
}

// park puts a job aside until a rail comes, or its memory is registered with one
// that is up. It does not wait for ever.
func (a *peerAt) park(j *job) {
	a.parked, a.waiting = append(a.parked, j), true
	a.await(j)
}

// await has the job fail if it finds no way in time.
func (a *peerAt) await(j *job) {
	if !j.waits {
		j.waits, j.since = true, a.round
		a.expire()
	}
}

// expire has jobs fail that nobody has found a rail for in Options.RailTime.
func (a *peerAt) expire() {
	if a.expiring {
		return
	}
	a.expiring = true
	a.round++
	round := a.round
	a.p.after(a.p.e.o.RailTime, func() {
		a.w.do(func() {
			a.expiring = false
			a.resume() // some may be back among the jobs already
			for _, j := range a.jobs.list[a.jobs.head:] {
				a.overdue(j, round)
			}
			for _, s := range a.notices {
				a.overdue(s.job, round)
			}
			a.dropStopped() // the failed among them
		})
	})
}

// overdue has a job fail that waited for a whole round, and one that waits less for
// another.
func (a *peerAt) overdue(j *job, round uint32) {
	switch {
	case !j.waits:
	case j.since < round && !j.region.busy.Load(): // registering has its end
		j.waits = false
		j.t.fail(a.p.noRail(j))
		j.t.Cancel()
	default:
		a.expire()
	}
}

// resume takes back what was put aside.
func (a *peerAt) resume() {
	if !a.waiting {
		return
	}
	for _, j := range a.parked {
		a.jobs.push(j)
	}
	clear(a.parked)
	a.parked, a.waiting = a.parked[:0], false
	a.turn()
}

// unpark has the workers look again for a way for what they put aside. What finds
// none has waited since it was put aside first.
func (p *Peer) unpark() {
	for _, a := range p.at {
		a.w.do(a.resume)
	}
}
