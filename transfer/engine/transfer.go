package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/transfer"
)

// Errors that errors.Is finds.
var (
	// ErrClosed: the engine, the peer or the region was closed by this side.
	ErrClosed = fs.ErrClosed
	// ErrCancelled: the transfer was cancelled. What it had placed stays.
	ErrCancelled = errors.New("cancelled")
	// ErrRange: bytes outside of a region.
	ErrRange = transfer.ErrRange
	// ErrLost: the peer is gone.
	ErrLost = errors.New("the peer is lost")
	// ErrRights: the region was not granted for this.
	ErrRights = errors.New("not granted")
)

// Transfer is an operation on its way. Its end is told once, to everyone who
// asks.
type Transfer struct {
	bytes  uint64
	moved  atomic.Uint64
	left   atomic.Int32 // jobs that have not ended
	moving atomic.Int32 // those that have bytes to move
	ended  atomic.Bool
	cancel atomic.Bool
	target *Target
	owner  owner // who is told of the end, last; nil: nobody
	work   work
	jobs   []job
	own    [1]job // for a transfer that has no more

	mu   sync.Mutex
	err  error
	done chan struct{}
	then []func(error)

	lanes railSet   // the rails that its jobs begin with, if not all
	at    []*peerAt // room for the workers of these
}

// owner is what a transfer is a part of.
type owner interface{ partEnded() }

// transfers are those that were released.
var transfers = sync.Pool{New: func() any { return new(Transfer) }}

// Release gives a transfer that has ended to those that will be begun, so that
// they allocate nothing. Nobody may use it any more.
func (t *Transfer) Release() {
	t.mu.Lock()
	t.bytes, t.target, t.owner, t.jobs, t.work = 0, nil, nil, nil, work{}
	t.own[0] = job{}
	t.err, t.done, t.then = nil, nil, nil
	t.moved.Store(0)
	t.ended.Store(false)
	t.cancel.Store(false)
	t.mu.Unlock()
	transfers.Put(t)
}

// Progress is how many bytes were placed, of how many.
func (t *Transfer) Progress() (moved, of uint64) { return t.moved.Load(), t.bytes }

// Ended tells whether the transfer has ended. Err is its error then.
func (t *Transfer) Ended() bool { return t.ended.Load() }

// Err is why the transfer failed: nil while it has not ended and where it was
// done.
func (t *Transfer) Err() error {
	if !t.ended.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Done is closed when the transfer has ended: from then on nothing of it lands,
// and its local memory is free.
func (t *Transfer) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.done = make(chan struct{})
		if t.ended.Load() {
			close(t.done)
		}
	}
	return t.done
}

// Wait returns when the transfer has ended, with its error. If the context ends
// before, the transfer goes on: Cancel ends it.
func (t *Transfer) Wait(ctx context.Context) error {
	select {
	case <-t.Done():
		return t.Err()
	case <-ctx.Done():
		moved, of := t.Progress()
		return fmt.Errorf("%d of %d bytes are placed: %w", moved, of, context.Cause(ctx))
	}
}

// Then has f called with the transfer's error once it has ended, by a worker,
// whose transfers wait meanwhile: it must not block. It is called at once if the
// transfer has ended.
func (t *Transfer) Then(f func(error)) {
	t.mu.Lock()
	if !t.ended.Load() {
		t.then = append(t.then, f)
		t.mu.Unlock()
		return
	}
	err := t.err
	t.mu.Unlock()
	f(err)
}

// Cancel posts nothing more of the transfer. It ends with ErrCancelled when what
// is on its way has completed or its rail is fenced: from then on nothing of it
// lands. One that has its bytes placed, but its notice not posted, gives none. One
// that had nothing left to post ends as done.
func (t *Transfer) Cancel() {
	if t.cancel.Swap(true) {
		return
	}
	for _, a := range t.target.p.at {
		a.w.cancels.Store(true)
		a.w.poke()
	}
}

// fail notes the first error.
func (t *Transfer) fail(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.mu.Unlock()
}

// failed is the first error so far.
func (t *Transfer) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// finish ends one job.
func (t *Transfer) finish() {
	if t.left.Add(-1) > 0 {
		return
	}
	t.mu.Lock()
	t.ended.Store(true)
	if t.done != nil {
		close(t.done)
	}
	err, then, target, owner := t.err, t.then, t.target, t.owner
	t.then = nil
	target.leave()
	t.mu.Unlock()
	for _, f := range then {
		f(err)
	}
	if owner != nil {
		owner.partEnded()
	}
}
