package kvcache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
)

// Decode is the side that has pages filled.
type Decode struct {
	peer  *engine.Peer
	shape Shape

	requests, ends *memory.Block  // to be written to the peer; written by it
	remote         *engine.Target // the peer's requests
	lanes          chan *lane     // those that are free

	watching sync.WaitGroup // for the ends of requests

	mu     sync.Mutex
	last   uint64 // identity of a request
	busy   map[uint32]bool
	closed bool
}

// lane is what this side knows of a lane: how many notices there were in each
// direction when its last request had ended.
type lane struct {
	index         int
	cancels       uint64 // given
	told, endings uint64 // counted
}

// NewDecode begins to work with a prefill node, which calls NewPrefill meanwhile.
// The cache is this node's; the peer may write into it until it is left.
func NewDecode(ctx context.Context, e *engine.Engine, p *engine.Peer, cache *engine.Region, s Shape) (*Decode, error) {
	d, err := newDecode(ctx, e, p, cache, s)
	if err != nil {
		return nil, fmt.Errorf("kvcache: decode with %s: %w", p.Name(), err)
	}
	return d, nil
}

func newDecode(ctx context.Context, e *engine.Engine, p *engine.Peer, cache *engine.Region, s Shape) (*Decode, error) {
	if err := errors.Join(s.check(cache), s.counters(p)); err != nil {
		return nil, err
	}
	d := &Decode{peer: p, shape: s, lanes: make(chan *lane, s.Lanes), busy: make(map[uint32]bool)}
	for i := range s.Lanes {
		d.lanes <- &lane{index: i}
	}
	var err error
	if d.requests, err = memory.Allocate(e, s.Lanes*s.requestBytes()); err != nil {
		return nil, err
	}
	if d.ends, err = memory.Allocate(e, s.Lanes*endBytes); err == nil {
		err = errors.Join(p.Grant(cacheName, cache, engine.Write), p.Grant(endsName, d.ends.Region, engine.Write))
	}
	if err == nil {
		d.remote, err = p.Target(ctx, requestsName)
	}
	if err == nil && d.remote.Length() != uint64(len(d.requests.Bytes)) {
		err = fmt.Errorf("its records have %d bytes and this node's %d: lanes and pages of a request must be the same", d.remote.Length(), len(d.requests.Bytes))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close leaves the peer: requests that have not ended fail, and no page of theirs
// is written any more.
func (d *Decode) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	err := d.peer.Close()
	d.watching.Wait()
	return errors.Join(err, d.requests.Close(), d.ends.Close())
}

// Start asks for a request whose pages, in every layer, are those given. They
// belong to the request until it has ended. It waits for a free lane.
func (d *Decode) Start(ctx context.Context, pages []uint32) (*Request, error) {
	if len(pages) == 0 || len(pages) > d.shape.MaxPages {
		return nil, fmt.Errorf("kvcache: a request of %d pages; it has 1 to %d", len(pages), d.shape.MaxPages)
	}
	id, err := d.occupy(pages)
	if err != nil {
		return nil, err
	}
	r := &Request{d: d, id: id, pages: append([]uint32(nil), pages...)}
	r.over, r.finish = context.WithCancel(context.Background())
	if err := r.begin(ctx); err != nil {
		d.free(r.pages)
		d.watching.Done()
		return nil, fmt.Errorf("kvcache: ask %s: %w", d.peer.Name(), err)
	}
	go r.watch()
	return r, nil
}

// occupy takes pages for a request, all or none, and gives its identity.
func (d *Decode) occupy(pages []uint32) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, fmt.Errorf("kvcache: %w", engine.ErrClosed)
	}
	for i, p := range pages {
		var err error
		switch {
		case int64(p) >= int64(d.shape.Pages):
			err = fmt.Errorf("kvcache: page %d of %d", p, d.shape.Pages)
		case d.busy[p]:
			err = fmt.Errorf("kvcache: page %d belongs to a request that has not ended: %w", p, ErrBusy)
		}
		if err != nil {
			for _, p := range pages[:i] {
				delete(d.busy, p)
			}
			return 0, err
		}
		d.busy[p] = true
	}
	d.watching.Add(1)
	d.last++
	return d.last, nil
}

func (d *Decode) free(pages []uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range pages {
		delete(d.busy, p)
	}
}
