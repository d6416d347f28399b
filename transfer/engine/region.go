package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
)

// Region is memory that is registered with every rail of the engine. Pieces of
// it are named by their offset.
type Region struct {
	e      *Engine
	length uint64
	on     []*transfer.Region // by rail
	export *transfer.Export

	mu     sync.Mutex
	closed bool
}

// Register makes memory of the process reachable. It is mapped or C memory
// (verbs.NewBuffer), and stays until the region is closed.
func (e *Engine) Register(mem []byte) (*Region, error) {
	return e.register(uint64(len(mem)), nil, func(r Rail) (*transfer.Region, error) { return r.Register(mem) })
}

// RegisterMemory makes memory of an exporter reachable by its dma-buf: length
// bytes from offset on.
func (e *Engine) RegisterMemory(m dmabuf.Memory, offset, length uint64) (*Region, error) {
	x := transfer.NewExport(m, offset, length)
	r, err := e.register(length, x, func(r Rail) (*transfer.Region, error) { return r.RegisterExport(x) })
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	if err := x.Registered(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (e *Engine) register(length uint64, x *transfer.Export, on func(Rail) (*transfer.Region, error)) (*Region, error) {
	if length == 0 {
		return nil, fmt.Errorf("register: no bytes")
	}
	r := &Region{e: e, length: length, export: x}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	for i, rail := range e.rails {
		one, err := on(rail.rail)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("register with rail %d, %s: %w", i, rail.info.Device, err), r.deregister())
		}
		r.on = append(r.on, one)
		if at, first := one.Descriptor().Addr, r.on[0].Descriptor().Addr; at != first {
			return nil, errors.Join(fmt.Errorf("register with rail %d, %s: its first byte is at %#x, with rail 0 at %#x: a description has one address",
				i, rail.info.Device, at, first), r.deregister())
		}
	}
	e.regions[r] = struct{}{}
	return r, nil
}

// Length is the region's size in bytes.
func (r *Region) Length() uint64 { return r.length }

// remote describes the region to a peer.
func (r *Region) remote(rights Rights) Remote {
	m := Remote{Incarnation: r.e.incarnation, Rights: rights}
	m.d.Addr, m.d.Length = r.on[0].Descriptor().Addr, r.length
	for _, one := range r.on {
		m.d.Keys = append(m.d.Keys, one.Descriptor().Keys[0])
	}
	return m
}

func (r *Region) deregister() error {
	var errs []error
	for _, one := range r.on {
		errs = append(errs, one.Close())
	}
	if r.export != nil {
		errs = append(errs, r.export.Close())
	}
	return errors.Join(errs...)
}

// Close deregisters the memory: from then on no peer reaches it, whatever it was
// granted. Transfers of this engine that use it must have ended. It may be called
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
