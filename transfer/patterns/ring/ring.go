package ring

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
)

// Options say how a ring works. They are the same at all nodes.
type Options struct {
	Chunk int // elements; default 65536, which is 256 KiB
	// Silence is how long a neighbour may give nothing while this node waits for
	// it; default 1 minute. It bounds how much later than others a node may begin
	// an operation.
	Silence time.Duration
}

// Ring is a node's place in a ring. It does one operation at a time.
type Ring struct {
	e          *engine.Engine
	rank, size int
	chunk      int
	silence    time.Duration
	prev, next *engine.Peer

	in, out *memory.Block  // slots: written by the node before; to be written to the next
	slots   *engine.Target // of the next
	plans   *engine.Target // of the node before
	plan    *memory.Block  // written by the next node: what it is ready for

	operations  uint64
	sent, taken uint64 // chunks, by way of slots
	writes      [slots]*engine.Transfer
	given       [slots]*engine.Transfer // credits
	segments    [slots][1]engine.Segment
	err         error // of the operation that was the last
	spent       Spent
	direct      direct
}

// Spent is what a node's time in operations went into.
type Spent struct {
	Wait time.Duration // for chunks, for credits, and until what was sent had arrived
	Copy time.Duration // between vectors and slots, or memory outside of the process and the sums
	Sum  time.Duration // adding
}

// Spent is since Join.
func (r *Ring) Spent() Spent { return r.spent }

// slots is how many a node has.
const slots = 4

// The numbers of notices: by slot, of operations without slots, and by chunk there.
const (
	arrived engine.Number = 1
	credit  engine.Number = arrived + slots
	ready   engine.Number = credit + slots
	ended   engine.Number = ready + 1
	placed  engine.Number = ended + 1
)

const (
	slotsName = "ring/slots"
	plansName = "ring/plans"
)

// Errors that errors.Is finds.
var (
	// ErrMismatch: the nodes do not do the same.
	ErrMismatch = errors.New("the nodes of the ring do not agree")
	// ErrSilent: a neighbour gave nothing for Options.Silence.
	ErrSilent = errors.New("the neighbour is silent")
)

// Join takes a place in a ring of size nodes: rank, from 0 on, between the node
// before and the next one, which join meanwhile. In a ring of two both are the same
// peer, in a ring of one there is none. The peers belong to the ring from then on:
// it leaves them when it ends.
func Join(ctx context.Context, e *engine.Engine, prev, next *engine.Peer, rank, size int, o Options) (*Ring, error) {
	if o.Chunk == 0 {
		o.Chunk = 64 << 10
	}
	if o.Silence == 0 {
		o.Silence = time.Minute
	}
	switch {
	case size < 1 || rank < 0 || rank >= size:
		return nil, fmt.Errorf("ring: place %d of %d", rank, size)
	case o.Chunk < 1 || o.Chunk > 1<<28:
		return nil, fmt.Errorf("ring: chunks of %d elements", o.Chunk)
	case size > 1 && (prev == nil || next == nil) || size == 2 && prev != next:
		return nil, fmt.Errorf("ring: place %d of %d has other neighbours than these", rank, size)
	}
	r := &Ring{e: e, rank: rank, size: size, chunk: o.Chunk, silence: o.Silence, prev: prev, next: next}
	if size == 1 {
		return r, nil
	}
	if err := r.join(ctx, e); err != nil {
		return nil, errors.Join(fmt.Errorf("ring: place %d of %d: %w", rank, size, err), r.leave())
	}
	return r, nil
}

func (r *Ring) join(ctx context.Context, e *engine.Engine) (err error) {
	for _, b := range []struct {
		block **memory.Block
		bytes int
	}{{&r.in, slots * r.slotBytes()}, {&r.out, slots*r.slotBytes() + slotHeader}, {&r.plan, slotHeader}} {
		if *b.block, err = memory.Allocate(e, b.bytes); err != nil {
			return err
		}
	}
	err = errors.Join(r.prev.Grant(slotsName, r.in.Region, engine.Write), r.next.Grant(plansName, r.plan.Region, engine.Write))
	if err == nil {
		r.slots, err = r.next.Target(ctx, slotsName)
	}
	if err == nil {
		r.plans, err = r.prev.Target(ctx, plansName)
	}
	if err == nil && r.slots.Length() != uint64(len(r.in.Bytes)) {
		err = fmt.Errorf("%w: slots have %d bytes at the next node and %d at this one", ErrMismatch, r.slots.Length(), len(r.in.Bytes))
	}
	return err
}

// Close leaves the ring. It waits until the next node has taken what was sent to it,
// or is gone, or the context ends. It may be called again.
func (r *Ring) Close(ctx context.Context) error {
	if r.size == 1 {
		return nil
	}
	if r.err == nil {
		r.err = engine.ErrClosed
		ctx, cancel := context.WithTimeoutCause(ctx, r.silence, r.silent())
		defer cancel()
		for k := r.sent - min(r.sent, slots); k < r.sent; k++ {
			// An error says that the node is gone, or will be.
			_ = r.next.Counter(credit+slot(k)).Wait(ctx, k/slots+1)
		}
	}
	return r.leave()
}

// leave leaves the neighbours, which see it, and frees the slots.
func (r *Ring) leave() error {
	errs := make([]error, 2)
	var both sync.WaitGroup
	both.Go(func() { errs[0] = r.prev.Close() })
	both.Go(func() { errs[1] = r.next.Close() })
	both.Wait()
	return errors.Join(errors.Join(errs...), r.in.Close(), r.out.Close(), r.plan.Close(), r.direct.scratch.Close(), r.direct.work.Close())
}

// Part is where part p of a vector of n elements begins and ends.
func (r *Ring) Part(p, n int) (from, to int) {
	return p * n / r.size, (p + 1) * n / r.size
}

// ReduceScatter adds up the vectors of all nodes. Then x has the sum of the part
// whose number is this node's rank; its other parts are of no use.
func (r *Ring) ReduceScatter(ctx context.Context, x []float32) error {
	return r.staged(ctx, reduceScatter, inside(x))
}

// AllGather gives the part whose number is this node's rank to all others, and
// brings theirs.
func (r *Ring) AllGather(ctx context.Context, x []float32) error {
	return r.staged(ctx, allGather, inside(x))
}

// AllReduce adds up the vectors of all nodes. Then x has the sum.
func (r *Ring) AllReduce(ctx context.Context, x []float32) error {
	return r.staged(ctx, allReduce, inside(x))
}

// do does an operation. If it fails, the ring has ended for this node and, since it
// leaves, for the others.
func (r *Ring) do(ctx context.Context, kind kind, n int, f func(context.Context, *operation) error) error {
	if r.err != nil {
		return fmt.Errorf("ring: %v: the ring has ended: %w", kind, r.err)
	}
	if r.size == 1 {
		return nil
	}
	r.operations++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &operation{kind: kind, number: r.operations, n: n}
	o.alarm = time.AfterFunc(math.MaxInt64, func() { cancel(r.silent()) }) // set while a neighbour is waited for
	defer o.alarm.Stop()
	if err := f(ctx, o); err != nil {
		r.err = fmt.Errorf("ring: place %d of %d: %v of %d elements: %w", r.rank, r.size, kind, n, err)
		return errors.Join(r.err, r.leave())
	}
	return nil
}

func (r *Ring) silent() error { return fmt.Errorf("%w for %v", ErrSilent, r.silence) }

// wait waits for notices of a neighbour, so long as it may be silent.
func (r *Ring) wait(ctx context.Context, o *operation, c *engine.Counter, n uint64) error {
	if c == nil {
		return errors.New("the engine counts no more numbers of this neighbour: raise engine.Options.Counters")
	}
	if c.Count() >= n {
		return nil
	}
	return r.patiently(o, func() error { return c.Wait(ctx, n) })
}

// patiently calls what waits for a neighbour, and ends the operation's context once
// that is silent for too long.
func (r *Ring) patiently(o *operation, f func() error) error {
	begun := time.Now()
	o.alarm.Reset(r.silence)
	err := f()
	o.alarm.Stop()
	r.spent.Wait += time.Since(begun)
	return err
}

// finish waits for the end of a transfer that was begun, and takes it back.
func (r *Ring) finish(ctx context.Context, o *operation, t **engine.Transfer) error {
	if *t == nil {
		return nil
	}
	if !(*t).Ended() {
		if err := r.patiently(o, func() error { return (*t).Wait(ctx) }); err != nil {
			return err
		}
	}
	if err := (*t).Err(); err != nil {
		return err
	}
	(*t).Release()
	*t = nil
	return nil
}
