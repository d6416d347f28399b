package engine

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
)

// register registers with a rail, or finds that it has been done.
func (r *Region) register(i int) (*transfer.Region, error) {
	if r.source != nil && !r.told {
		return r.source.get(i)
	}
	one, err := r.fresh(i)
	if err != nil {
		return nil, err
	}
	return one, r.owned(i, one)
}

// owned notes a registration that is the region's alone.
func (r *Region) owned(i int, one *transfer.Region) error {
	at := one.Descriptor().Addr
	if r.own.empty() {
		r.addr = at
	} else if at != r.addr {
		return errors.Join(fmt.Errorf("its first byte is at %#x, with other rails at %#x: a description has one address", at, r.addr), one.Close())
	}
	r.own.add(i)
	return nil
}

// ownAll sees to it that no other region has the registrations of this one: before
// a peer is told their keys.
func (r *Region) ownAll() error {
	r.e.life.RLock()
	defer r.e.life.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.e.isClosed() {
		return ErrClosed
	}
	r.told = true
	missing := r.have.load().without(r.own)
	var err error
	missing.each(func(i int) bool {
		was := r.on[i].Load()
		if r.source.own(i) {
			err = r.owned(i, was)
			return err == nil
		}
		var one *transfer.Region
		if one, err = r.register(i); err != nil {
			err = fmt.Errorf("register with rail %d, %s, for a peer: %w", i, r.e.rails[i].info.Device, err)
			return false
		}
		r.on[i].Store(one)
		r.before = append(r.before, was) // transfers on their way use it
		return true
	})
	if r.export != nil {
		err = errors.Join(err, r.export.Registered())
	}
	return err
}
