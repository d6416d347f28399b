package mrcache

// Own takes the registration out of the cache for this reference, if it is the only
// one: nobody else gets it any more, and its Release deregisters. It tells whether it
// is so; if others refer to the registration, nothing changes. It is for keys that
// are to be told to somebody who must not keep them.
func (r *Ref) Own() bool {
	e := r.e
	if e == nil {
		return false
	}
	rl := e.rail
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for {
		s := e.state.Load()
		switch {
		case s&refMask != refOne:
			return false
		case s&deadBit != 0:
			return true // it was taken out before
		case e.state.CompareAndSwap(s, s|deadBit):
			rl.unlist(e, CauseOwned)
			return true
		}
	}
}

// Close is Release, but tells if the registration was to be deregistered by it, and
// was not: the reference stays then, and Close may be called again.
func (r *Ref) Close() error {
	e := r.e
	if e == nil {
		return nil
	}
	// Nobody else comes to one that was taken out.
	if s := e.state.Load(); s&deadBit != 0 && s&refMask == refOne {
		if err := e.rail.deregister(e); err != nil {
			return err
		}
	}
	r.Release()
	return nil
}
