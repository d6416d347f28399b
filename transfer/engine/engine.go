package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/peerdirect/peerdirect/transfer"
)

// Engine moves memory over the rails of one node, to and from peers.
type Engine struct {
	o           Options
	incarnation uint64
	workers     []*worker
	rails       []*rail
	ctx         context.Context // ends with Close
	cancel      context.CancelFunc

	mu      sync.Mutex
	peers   map[*Peer]struct{}
	met     uint32 // peers so far: each begins with another worker than the one before
	regions map[*Region]struct{}
	closed  bool
	cache   *cache         // nil if nothing is kept
	life    sync.RWMutex   // memory is being registered: rails stay open
	ending  sync.WaitGroup // what peers still have running

	closing  sync.Mutex // one Close at a time
	scratch  scratch    // to warm up with
	barriers barriers
	lock     sync.Mutex // of Options.OneLock
}

// New opens the rails and starts the workers.
func New(o Options) (*Engine, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	if len(o.Name) > maxName || !printable(o.Name) {
		return nil, &OptionError{Option: "name", Err: fmt.Errorf("%q: it has %d bytes at most, of text that can be printed", o.Name, maxName)}
	}
	e := &Engine{o: o, peers: make(map[*Peer]struct{}), regions: make(map[*Region]struct{})}
	var b [8]byte
	rand.Read(b[:])
	e.incarnation = binary.BigEndian.Uint64(b[:])
	e.ctx, e.cancel = context.WithCancel(context.Background())
	for i, spec := range o.Workers {
		w := &worker{e: e, index: i, spec: spec, queue: make(chan *job, o.Queue), ended: make(chan struct{})}
		e.workers = append(e.workers, w)
	}
	open := e.start
	if o.Manual != nil {
		open = e.openManual
	}
	if err := open(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.rails = make([]*rail, len(o.Rails))
	for _, w := range e.workers {
		for _, r := range w.rails {
			e.rails[r.index] = r
		}
	}
	err := e.alone()
	if err == nil {
		e.cache, err = newCache(e)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// alone refuses several rails where one is iWARP: there only the order of one queue
// pair tells that what a notice counts is in place.
func (e *Engine) alone() error {
	for _, r := range e.rails {
		if r.info.Transport == transfer.IWARP && len(e.rails) > 1 {
			return &OptionError{Option: "rails", Err: fmt.Errorf("%s is iWARP, which acknowledges nothing, and can only be used alone: name one device", r.info.Device)}
		}
	}
	return nil
}

// start starts the workers and waits until each has opened its rails.
func (e *Engine) start() error {
	opened := make(chan error, len(e.workers))
	for _, w := range e.workers {
		go w.loop(opened)
	}
	var errs []error
	for range e.workers {
		errs = append(errs, <-opened)
	}
	return errors.Join(errs...)
}

// open opens the worker's rails, on its thread.
func (w *worker) open() error {
	for i, spec := range w.e.o.Rails {
		if spec.Worker != w.index {
			continue
		}
		r, err := spec.Open()
		if err != nil {
			return fmt.Errorf("open rail %d: %w", i, err)
		}
		w.add(r, i)
	}
	return nil
}

// Rails describes the engine's rails.
func (e *Engine) Rails() []transfer.Info {
	infos := make([]transfer.Info, len(e.rails))
	for i, r := range e.rails {
		infos[i] = r.info
	}
	return infos
}

// Incarnation tells this run of the engine from all others.
func (e *Engine) Incarnation() uint64 { return e.incarnation }

// Peers are those that are joined now.
func (e *Engine) Peers() []*Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*Peer
	for p := range e.peers {
		all = append(all, p)
	}
	return all
}

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

func (e *Engine) forget(p *Peer) {
	e.mu.Lock()
	delete(e.peers, p)
	e.mu.Unlock()
}

// Close leaves every peer and frees everything, regions included. Transfers that
// have not ended fail with ErrClosed. It may be called again.
func (e *Engine) Close() error {
	e.closing.Lock()
	defer e.closing.Unlock()
	e.life.Lock()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.life.Unlock()
	for _, p := range e.Peers() {
		p.end(fmt.Errorf("%w: the engine was closed", ErrClosed))
	}
	if e.o.Manual != nil {
		e.drain()
	}
	e.ending.Wait()
	e.cancel()
	var errs []error
	for _, w := range e.workers {
		w.stop.Store(true)
		w.poke()
		<-w.ended
		for _, r := range w.rails {
			errs = append(errs, r.rail.Close())
		}
		w.failQueued()
	}
	e.mu.Lock()
	regions := e.regions
	e.regions = nil
	e.mu.Unlock()
	for r := range regions {
		errs = append(errs, r.Close())
	}
	return errors.Join(append(errs, e.cache.close(), e.scratch.close())...)
}
