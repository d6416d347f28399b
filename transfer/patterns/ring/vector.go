package ring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
)

// Vector is registered memory of this node that takes part in operations as it is:
// the node before writes into it, and from it goes what the next node gets. See the
// package's documentation for what of an all-reduce is copied all the same.
type Vector struct {
	r      *Ring
	name   string
	region *engine.Region
	next   *engine.Target // the next node's
	host   []float32      // nil: outside
	mem    Memory         // outside
	own    []float32      // of a chunk, what was copied out
}

// direct is what operations on vectors need of a ring.
type direct struct {
	vectors, scratches int
	ready              uint64              // operations that both neighbours were ready for
	came               []uint64            // by number of a chunk: how many operations had it
	flight             []flight            // writes to the next node, by turns
	told               [2]*engine.Transfer // the last plan, the last notice of an end
	scratch            *memory.Block       // the node before writes what is to be added
	scratchNext        *engine.Target
	work               *memory.Block // sums, where the vector is outside
}

// flight is a write that may not have ended.
type flight struct {
	t    *engine.Transfer
	list [1]engine.Segment
}

// How many writes of a vector are under way: enough to keep each rail busy. With more,
// a fair network completes all of them late, and the next node waits for its first.
const (
	railFlight  = 4
	leastFlight = 16
	mostFlight  = 64
)

// maxChunks is how many chunks a vector has at most: each has a number of its own.
const maxChunks = 512

// Vector makes a vector of registered memory, which begins with the elements: bytes
// of this process, or, if host is nil, memory outside of it. All nodes make vectors
// of one length in the same order, and meanwhile do nothing else in the ring.
func (r *Ring) Vector(ctx context.Context, region *engine.Region, host []byte, mem Memory) (*Vector, error) {
	v := &Vector{r: r, region: region, mem: mem, host: floats(host, len(host)/4)}
	switch {
	case host == nil && mem == nil:
		return nil, errors.New("ring: a vector needs memory")
	case host != nil && v.host == nil:
		return nil, fmt.Errorf("ring: a vector needs memory for an element at least, which is 4 bytes; it has %d", len(host))
	}
	if r.err != nil {
		return nil, fmt.Errorf("ring: the ring has ended: %w", r.err)
	}
	if r.size == 1 {
		return v, nil
	}
	v.name = fmt.Sprintf("ring/vector/%d", r.direct.vectors)
	r.direct.vectors++
	target, err := r.meet(ctx, v.name, region)
	if err != nil {
		r.err = fmt.Errorf("ring: place %d of %d: %s: %w", r.rank, r.size, v.name, err)
		return nil, errors.Join(r.err, r.leave())
	}
	v.next = target
	return v, nil
}

// meet lets the node before write into a region, and waits for that of the next one.
func (r *Ring) meet(ctx context.Context, name string, region *engine.Region) (*engine.Target, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.silence, r.silent())
	defer cancel()
	if err := r.prev.Grant(name, region, engine.Write); err != nil {
		return nil, err
	}
	t, err := r.next.Target(ctx, name)
	if err == nil && t.Length() != region.Length() {
		err = fmt.Errorf("%w: %s has %d bytes at the next node and %d at this one", ErrMismatch, name, t.Length(), region.Length())
	}
	return t, err
}

// Close takes the vector out of the ring: the node before does not write into it any
// more. The region is the caller's to close.
func (v *Vector) Close(ctx context.Context) error {
	if v.r.size == 1 || v.r.err != nil {
		return nil // the neighbours were left, and are fenced
	}
	return v.r.prev.Withdraw(ctx, v.name)
}

// AllGather is Ring.AllGather of the first n elements.
func (v *Vector) AllGather(ctx context.Context, n int) error {
	return v.do(ctx, directAllGather, n, v.r.rank, v.r.size-1, 0)
}

// AllReduce is Ring.AllReduce of the first n elements.
func (v *Vector) AllReduce(ctx context.Context, n int) error {
	return v.do(ctx, directAllReduce, n, v.r.rank-1, 2*(v.r.size-1), v.r.size-1)
}

func (v *Vector) do(ctx context.Context, kind kind, n, first, steps, sums int) error {
	if limit := int(v.region.Length() / 4); n < 0 || n > limit || v.host != nil && n > len(v.host) {
		return fmt.Errorf("ring: %v of %d elements; the vector has %d", kind, n, limit)
	}
	return v.r.do(ctx, kind, n, func(ctx context.Context, o *operation) error {
		if sums > 0 {
			if err := v.room(ctx, o, v.region.Length()); err != nil {
				return err
			}
		}
		return v.steps(ctx, o, first, steps, sums)
	})
}

// room makes the scratch large enough.
func (v *Vector) room(ctx context.Context, o *operation, size uint64) error {
	r, d := v.r, &v.r.direct
	if d.scratch == nil || uint64(len(d.scratch.Bytes)) < size {
		if d.scratch != nil {
			if err := r.patiently(o, func() error { return r.prev.Withdraw(ctx, scratchName(d.scratches)) }); err != nil {
				return err
			}
			if err := d.scratch.Close(); err != nil {
				return err
			}
			d.scratch = nil
		}
		d.scratches++
		var err error
		if d.scratch, err = memory.Allocate(r.e, int(size)); err != nil {
			return err
		}
		if d.scratchNext, err = r.meet(ctx, scratchName(d.scratches), d.scratch.Region); err != nil {
			return err
		}
	}
	if v.host != nil || d.work != nil && uint64(len(d.work.Bytes)) >= size {
		return nil
	}
	if err := d.work.Close(); err != nil {
		return err
	}
	work, err := memory.Allocate(r.e, int(size))
	if err == nil {
		d.work = work
	}
	return err
}

func scratchName(n int) string { return fmt.Sprintf("ring/scratch/%d", n) }

// Hop has one node write the first n elements of its vector into the next node's
// while no other moves anything, and gives there how long it took. All nodes call it.
func (v *Vector) Hop(ctx context.Context, from, n int) (took time.Duration, err error) {
	err = v.r.do(ctx, hop, n, func(ctx context.Context, o *operation) error {
		d := &v.r.direct
		if err := v.begin(ctx, o, v.r.chunk); err != nil {
			return err
		}
		if v.r.rank == from {
			begun := time.Now()
			for k, at := 0, 0; at < n; k, at = k+1, at+v.r.chunk {
				f := &d.flight[k%len(d.flight)]
				err := v.r.finish(ctx, o, &f.t)
				if err == nil {
					f.list[0] = engine.Segment{Local: 4 * uint64(at), Remote: 4 * uint64(at), Length: 4 * uint64(min(n-at, v.r.chunk))}
					f.t, err = v.r.next.Write(ctx, engine.Move{Local: v.region, Remote: v.next, Segments: f.list[:]})
				}
				if err != nil {
					return fmt.Errorf("to the next node: %w", err)
				}
			}
			if err := v.landed(ctx, o); err != nil {
				return err
			}
			took = time.Since(begun)
		}
		return v.end(ctx, o)
	})
	return took, err
}
