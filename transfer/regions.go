package transfer

import (
	"errors"
	"sync"
)

// regions are those of a rail that are open, to be closed with it.
type regions struct {
	mu sync.Mutex
	of map[*Region]struct{}
}

// add keeps a region until it is closed.
func (s *regions) add(r *Region) *Region {
	deregister := r.close
	r.close = func() error {
		if err := deregister(); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.of, r)
		s.mu.Unlock()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[*Region]struct{})
	}
	s.of[r] = struct{}{}
	return r
}

// close closes all of them; those that fail stay.
func (s *regions) close() error {
	s.mu.Lock()
	var left []*Region
	for r := range s.of {
		left = append(left, r)
	}
	s.mu.Unlock()
	var errs []error
	for _, r := range left {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
