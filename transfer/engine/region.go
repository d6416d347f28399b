package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
)

// Region is memory that is registered with rails of the engine: with those that
// are near to it (see Options.Near), and later with others if it must be reached
// while none of these is up. Pieces of it are named by their offset.
type Region struct {
	// Workers look at these while more are registered. They are by rail; nil where
	// the memory is not registered.
	on   []atomic.Pointer[transfer.Region]
	have sharedSet // where it is

	e          *Engine
	length     uint64
	everywhere bool // near is all rails
	near       railSet

	busy    atomic.Bool // it is being registered with more rails, for some peer
	refused sharedSet   // those that did not take it lately

	mu     sync.Mutex
	closed bool
	fresh  func(rail int) (*transfer.Region, error) // registers anew
	source *source                                  // where it may be registered already; nil if the cache knows nothing of it
	export *transfer.Export                         // nil of memory of this process
	addr   uint64                                   // of the first byte, as every rail has it of which own is true
	own    railSet                                  // those whose registration is this region's alone
	told   bool                                     // peers know the keys, so all are to be so
	before []*transfer.Region                       // what own ones took the place of
	retry  func()                                   // stops what has those that refused asked again; nil if none has
}

// Register makes memory of the process reachable, by all rails. It is mapped or C
// memory (verbs.NewBuffer), and stays until the region is closed.
func (e *Engine) Register(mem []byte) (*Region, error) { return e.RegisterAt(mem, Place{}) }

// RegisterAt makes memory of the process reachable, by the rails that are near to
// its place.
func (e *Engine) RegisterAt(mem []byte, at Place) (*Region, error) {
	r := e.newRegion(uint64(len(mem)))
	r.fresh = func(rail int) (*transfer.Region, error) { return e.rails[rail].rail.Register(mem) }
	r.source = e.cache.ofHost(mem)
	return r.begin(at)
}

// registerOwn is Register of the engine's own memory, which is never kept.
func (e *Engine) registerOwn(mem []byte) (*Region, error) {
	r := e.newRegion(uint64(len(mem)))
	r.fresh = func(rail int) (*transfer.Region, error) { return e.rails[rail].rail.Register(mem) }
	return r.begin(Place{})
}

// RegisterMemory makes memory of an exporter reachable by its dma-buf: length
// bytes from offset on, by the rails that are near to the exporter's device.
func (e *Engine) RegisterMemory(m dmabuf.Memory, offset, length uint64) (*Region, error) {
	return e.RegisterMemoryAt(m, offset, length, Place{Exporter: m.Exporter()})
}

// RegisterMemoryAt is RegisterMemory of memory whose place the caller knows: that
// of an exporter which does not tell (a descriptor that came from elsewhere).
func (e *Engine) RegisterMemoryAt(m dmabuf.Memory, offset, length uint64, at Place) (*Region, error) {
	r := e.newRegion(length)
	r.export = transfer.NewExport(m, offset, length)
	r.fresh = func(rail int) (*transfer.Region, error) { return e.rails[rail].rail.RegisterExport(r.export) }
	var err error
	if r.source, err = e.cache.ofMemory(m, offset, length); err != nil {
		return nil, err
	}
	return r.begin(at)
}

func (e *Engine) newRegion(length uint64) *Region {
	return &Region{e: e, length: length, on: make([]atomic.Pointer[transfer.Region], len(e.rails))}
}

// begin registers with the near rails.
func (r *Region) begin(at Place) (*Region, error) {
	e := r.e
	if r.length == 0 {
		return nil, errors.New("register: no bytes")
	}
	near, err := e.near(at)
	if err != nil {
		return nil, err
	}
	r.near, r.everywhere = near, near == firstRails(len(e.rails))
	e.life.RLock() // until it is done, the rails stay open
	defer e.life.RUnlock()
	if err := r.widen(near, true); err != nil {
		return nil, errors.Join(err, r.deregister())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.regions[r] = struct{}{}
	return r, nil
}

// near asks which rails are near to memory.
func (e *Engine) near(at Place) (s railSet, err error) {
	var list []int
	if e.o.Near != nil && at != (Place{}) {
		list = e.o.Near(at)
	}
	for _, i := range list {
		if i < 0 || i >= len(e.rails) {
			return s, &OptionError{Option: "near", Err: fmt.Errorf("rail %d is near to %v; there are %d rails", i, at, len(e.rails))}
		}
		s.add(i)
	}
	if s.empty() {
		s = firstRails(len(e.rails))
	}
	return s, nil
}

// widen registers with those of some rails with which the region is not registered
// yet: if it must be all, until one refuses. Engine.Close must not come meanwhile.
func (r *Region) widen(to railSet, all bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.e.isClosed() {
		return ErrClosed
	}
	to = to.without(r.have.load())
	var errs []error
	to.each(func(i int) bool {
		err := r.widenTo(i)
		if err == nil {
			return true
		}
		errs = append(errs, err)
		if !all {
			r.refuse(i)
		}
		return !all
	})
	if r.export != nil {
		errs = append(errs, r.export.Registered())
	}
	return errors.Join(errs...)
}

// refuse notes that a rail did not take the region. What it lacked may come, so it
// is asked again after a time. The lock is held.
func (r *Region) refuse(i int) {
	r.refused.add(i)
	if r.retry == nil {
		r.retry = r.e.later(r.e.o.CoolDown, func() {
			r.mu.Lock()
			r.refused.store(railSet{})
			r.retry = nil
			r.mu.Unlock()
			r.e.unpark()
		})
	}
}

func (r *Region) widenTo(i int) error {
	one, err := r.register(i)
	if err != nil {
		rail := r.e.rails[i]
		return fmt.Errorf("register with rail %d, %s: %w", i, rail.info.Device, err)
	}
	r.on[i].Store(one)
	r.have.add(i) // who sees it finds the other
	return nil
}

// Length is the region's size in bytes.
func (r *Region) Length() uint64 { return r.length }

// Rails are the numbers of the rails with which the memory is registered now.
func (r *Region) Rails() (rails []int) {
	have := r.have.load()
	have.each(func(i int) bool { rails = append(rails, i); return true })
	return rails
}

// remote describes the region to a peer, with the keys of the rails with which it
// is registered.
func (r *Region) remote(rights Rights) Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := Remote{Incarnation: r.e.incarnation, Rights: rights, rails: r.have.load()}
	m.d = transfer.Descriptor{Addr: r.addr, Length: r.length, Keys: make([]uint32, len(r.on))}
	m.rails.each(func(i int) bool {
		m.d.Keys[i] = r.on[i].Load().Descriptor().Keys[0]
		return true
	})
	return m
}

func (r *Region) deregister() error {
	if r.retry != nil {
		r.retry()
		r.retry = nil
		r.refused.store(railSet{}) // where closing fails, the region goes on
	}
	var errs []error
	for i := range r.on {
		if one := r.on[i].Load(); one != nil {
			errs = append(errs, one.Close())
		}
	}
	for _, one := range r.before {
		errs = append(errs, one.Close())
	}
	if r.export != nil {
		errs = append(errs, r.export.Close())
	}
	return errors.Join(errs...)
}

// Close ends the region: from then on no peer reaches the memory, whatever it was
// granted. A registration whose keys were told to a peer ends with it; one that only
// this side has used may stay in the engine's cache. Transfers of this engine that use it must have ended. It may be called
// again.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	if err := r.deregister(); err != nil {
		return err
	}
	r.closed = true
	r.e.mu.Lock()
	delete(r.e.regions, r)
	r.e.mu.Unlock()
	return nil
}
