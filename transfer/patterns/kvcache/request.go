package kvcache

import (
	"context"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Request is some pages that the prefill node fills. It may be used by several
// goroutines.
type Request struct {
	d      *Decode
	id     uint64
	pages  []uint32
	lane   *lane
	asking *engine.Transfer
	base   uint64 // layers that were told of in the lane before

	mu        sync.Mutex
	cancelled bool // the notice was given
	ended     bool // none is given from now on

	over   context.Context // ends when the request has; the rest is set then
	finish context.CancelFunc
	err    error // how it ended
	lost   error // the peer's end, if it was that
	told   int   // layers that are there
}

// ID is what the prefill node knows the request by.
func (r *Request) ID() uint64 { return r.id }

// Layer waits until the layers 0 to n are in place.
func (r *Request) Layer(ctx context.Context, n int) error {
	if n < 0 || n >= r.d.shape.Layers {
		return fmt.Errorf("kvcache: layer %d of %d", n, r.d.shape.Layers)
	}
	// Nothing is told after the end: who waits for a layer is to wake then.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.over, cancel)()
	err := r.d.peer.Counter(r.d.shape.first(r.lane.index)).Wait(ctx, r.base+uint64(n)+1)
	select {
	case <-r.over.Done():
		if r.told > n {
			return nil
		}
		return r.err
	default:
		return err
	}
}

// Wait waits until all layers are in place and the request has ended.
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.over.Done():
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("kvcache: request %d: %w", r.id, context.Cause(ctx))
	}
}

// Cancel ends the request if it has not ended. When it has returned, no page of
// the request is written any more: they are free for another. A request that was
// done before stays done. If the context ends before the prefill node has
// confirmed, this node leaves it, and all its requests fail; that is the error.
func (r *Request) Cancel(ctx context.Context) error {
	err := r.cancel(ctx)
	if err == nil {
		select {
		case <-r.over.Done():
			return r.lost
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	r.d.peer.Close()
	<-r.over.Done()
	return fmt.Errorf("kvcache: %s did not confirm that request %d has ended, and was left: %w", r.d.peer.Name(), r.id, err)
}

// cancel gives the notice of cancellation, once.
func (r *Request) cancel(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancelled || r.ended {
		return nil
	}
	r.cancelled = true
	r.lane.cancels++
	_, err := r.d.peer.Write(ctx, engine.Move{Local: r.d.requests.Region, Remote: r.d.remote, Notify: engine.Counts(r.d.shape.second(r.lane.index))})
	return err
}

// begin takes a lane and asks.
func (r *Request) begin(ctx context.Context) error {
	select {
	case r.lane = <-r.d.lanes:
	case <-ctx.Done():
		return fmt.Errorf("all %d lanes are busy: %w", r.d.shape.Lanes, context.Cause(ctx))
	case <-r.d.peer.Fenced():
		return r.d.peer.Err()
	}
	err := r.ask(ctx)
	if err != nil {
		r.d.lanes <- r.lane
	}
	return err
}

// ask writes the request's record to the prefill node.
func (r *Request) ask(ctx context.Context) error {
	s := r.d.shape
	r.base = r.lane.told
	q := request{id: r.id, cancels: r.lane.cancels, layers: uint32(s.Layers), all: uint32(s.Pages), pageSize: s.PageSize, pages: r.pages}
	at := r.lane.index * s.requestBytes()
	n := len(q.append(r.d.requests.Bytes[at:at]))
	var err error
	r.asking, err = r.d.peer.Write(ctx, engine.Move{Local: r.d.requests.Region, Remote: r.d.remote,
		Segments: []engine.Segment{{Local: uint64(at), Remote: uint64(at), Length: uint64(n)}}, Notify: engine.Counts(s.first(r.lane.index))})
	return err
}

// watch waits for the request's end, gives back what it had and tells.
func (r *Request) watch() {
	defer r.d.watching.Done()
	e, err := r.hear()
	if err != nil {
		// What the peer does is not known any more: once it is left, the pages
		// are nobody's. It may be gone already.
		r.d.peer.Close()
		r.lost = fmt.Errorf("kvcache: request %d: %w", r.id, err)
		r.err = r.lost
		r.told = r.have()
		r.d.free(r.pages)
		r.finish()
		return
	}
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.told = int(e.told)
	r.lane.endings++
	r.lane.told += uint64(e.told)
	switch e.how {
	case endedCancelled:
		r.err = fmt.Errorf("kvcache: request %d: %w", r.id, engine.ErrCancelled)
	case endedFailed:
		r.err = fmt.Errorf("kvcache: request %d: %w: %q", r.id, ErrFailed, e.detail) // the peer's text
	}
	r.d.free(r.pages)
	r.finish()
	r.d.lanes <- r.lane
}

// hear waits until the prefill node has said that the request has ended, and until
// everything of it has come. Its error ends the pair.
func (r *Request) hear() (e end, err error) {
	d, l, ctx := r.d, r.lane, context.Background()
	if err := d.peer.Counter(d.shape.second(l.index)).Wait(ctx, l.endings+1); err != nil {
		return e, err
	}
	e.parse(d.ends.Bytes[l.index*endBytes:][:endBytes])
	all := uint32(d.shape.Layers)
	if e.id != r.id || e.told > all || e.how == endedDone && e.told != all || e.how < endedDone || e.how > endedFailed {
		return e, fmt.Errorf("%w: it says that request %d ended as %d with %d of %d layers", errProtocol, e.id, e.how, e.told, all)
	}
	if err := d.peer.Counter(d.shape.first(l.index)).Wait(ctx, l.told+uint64(e.told)); err != nil {
		return e, err
	}
	return e, r.asking.Wait(ctx)
}

// have is how many layers are there.
func (r *Request) have() int {
	return int(r.d.peer.Counter(r.d.shape.first(r.lane.index)).Count() - r.base)
}
