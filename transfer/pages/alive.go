package pages

import (
	"sync"
	"time"
)

// beat is how often a side tells the other of work that the other does not see.
func (s *session) beat() time.Duration { return min(time.Second, s.n.o.Timeout/4) }

// keep has neither side take the other for silent while this one is busy with
// something else than the peer, until kept: filling and comparing pages, registering
// their memory, waiting for other receivers. That may take longer than the timeout.
func (s *session) keep() {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(s.beat())
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.alive()
				s.send(letter{kind: kindAlive}) // one that is gone is found out by who waits for it
			case <-done:
				return
			case <-s.ctx.Done():
				return
			}
		}
	})
	s.rest = func() {
		close(done)
		telling.Wait()
	}
}

// kept ends what keep began, if it has.
func (s *session) kept() {
	if s.rest != nil {
		s.rest()
		s.rest = nil
	}
}

// progress tells the peer, now and then, that pages move which it does not see: they
// are read out of its memory.
func (s *session) progress() error {
	if time.Since(s.beaten) < s.beat() {
		return nil
	}
	s.beaten = time.Now()
	return s.send(letter{kind: kindAlive})
}
