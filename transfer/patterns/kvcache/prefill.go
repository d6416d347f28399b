package kvcache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
)

// Prefill is the side that computes.
type Prefill struct {
	peer  *engine.Peer
	shape Shape
	cache *engine.Region

	requests, ends    *memory.Block  // written by the peer; to be written to it
	theirs, theirEnds *engine.Target // its cache and its records
}

// Handler computes requests.
type Handler struct {
	// Compute computes a request's layers and has each sent by Job.Layer. It is
	// called by a goroutine for each lane. It returns soon when the context
	// ends: until then the cancellation is not confirmed.
	Compute func(ctx context.Context, j *Job) error
	// Ended, if there is one, is called when nothing of the job is on its way any
	// more, so that the local pages are free.
	Ended func(j *Job, err error)
}

// NewPrefill begins to work for a decode node, which calls NewDecode meanwhile.
// The cache is this node's, where the layers are sent from.
func NewPrefill(ctx context.Context, e *engine.Engine, p *engine.Peer, cache *engine.Region, s Shape) (*Prefill, error) {
	f, err := newPrefill(ctx, e, p, cache, s)
	if err != nil {
		return nil, fmt.Errorf("kvcache: prefill for %s: %w", p.Name(), err)
	}
	return f, nil
}

func newPrefill(ctx context.Context, e *engine.Engine, p *engine.Peer, cache *engine.Region, s Shape) (*Prefill, error) {
	if err := errors.Join(s.check(cache), s.counters(p)); err != nil {
		return nil, err
	}
	f := &Prefill{peer: p, shape: s, cache: cache}
	var err error
	if f.requests, err = memory.Allocate(e, s.Lanes*s.requestBytes()); err != nil {
		return nil, err
	}
	if f.ends, err = memory.Allocate(e, s.Lanes*endBytes); err == nil {
		err = p.Grant(requestsName, f.requests.Region, engine.Write)
	}
	if err == nil {
		f.theirs, err = p.Target(ctx, cacheName)
	}
	if err == nil {
		f.theirEnds, err = p.Target(ctx, endsName)
	}
	if err == nil && f.theirEnds.Length() != uint64(len(f.ends.Bytes)) {
		err = fmt.Errorf("its records have %d bytes and this node's %d: lanes must be the same", f.theirEnds.Length(), len(f.ends.Bytes))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close leaves the peer and frees the records. Serve must have returned: end its
// context.
func (f *Prefill) Close() error {
	return errors.Join(f.peer.Close(), f.requests.Close(), f.ends.Close())
}

// Serve serves requests until the context ends or the peer is gone, and says which.
// When it returns nothing is on its way any more.
func (f *Prefill) Serve(ctx context.Context, h Handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var lanes sync.WaitGroup
	for i := range f.shape.Lanes {
		lanes.Go(func() { cancel(f.serve(ctx, i, h)) })
	}
	lanes.Wait()
	return fmt.Errorf("kvcache: serve %s: %w", f.peer.Name(), context.Cause(ctx))
}

// serve serves the requests of a lane, one after the other.
func (f *Prefill) serve(ctx context.Context, lane int, h Handler) error {
	for n := uint64(1); ; n++ {
		if err := f.peer.Counter(f.shape.first(lane)).Wait(ctx, n); err != nil {
			return err
		}
		j := &Job{f: f, lane: lane, begun: make(chan *engine.Transfer, f.shape.Layers)}
		err := j.request.parse(f.requests.Bytes[lane*f.shape.requestBytes():], f.shape)
		if err == nil {
			err = j.run(ctx, h)
		}
		if err := f.tell(ctx, j, err); err != nil {
			return err
		}
	}
}

// tell says that a job has ended. It does not matter to it that the context has.
func (f *Prefill) tell(ctx context.Context, j *Job, err error) error {
	e := end{id: j.request.id, told: uint32(j.told), how: endedDone}
	switch {
	case errors.Is(err, engine.ErrCancelled):
		e.how = endedCancelled
	case err != nil:
		e.how, e.detail = endedFailed, err.Error()
	}
	at := j.lane * endBytes
	n := len(e.append(f.ends.Bytes[at:at]))
	t, err := f.peer.Write(context.WithoutCancel(ctx), engine.Move{Local: f.ends.Region, Remote: f.theirEnds,
		Segments: []engine.Segment{{Local: uint64(at), Remote: uint64(at), Length: uint64(n)}}, Notify: engine.Counts(f.shape.second(j.lane))})
	if err != nil {
		return err
	}
	// The record is written anew by the next request.
	return t.Wait(context.WithoutCancel(ctx))
}
