package efa

import (
	"context"
	"fmt"
	"sync/atomic"
)

// CQOptions size a completion queue and say what its completions carry.
type CQOptions struct {
	// Depth is the number of completions, which must hold all requests of the
	// endpoints that use the queue at once; default 1024. The device may
	// round up.
	Depth int
	// Notify makes Wait possible. It costs a write to the device at each Poll
	// that found something.
	Notify bool
	Vector int // completion vector, below Attr.Vectors
	// SGID has receives tell the sender's GID where no address handle is known
	// (EFADV_WC_EX_WITH_SGID). It takes CapCQWithSGID. A queue tells this or
	// the upper half of the length of a write with immediate; the device
	// decides by the operation.
	SGID bool
	// Unsolicited has completions tell of writes that took no receive on the
	// library's path (EFADV_WC_EX_WITH_IS_UNSOLICITED); the direct path always
	// tells. It takes CapUnsolicitedWrite.
	Unsolicited bool
	// Memory is the queue's memory, if it is to be a dma-buf
	// (EFADV_CQ_INIT_FLAGS_EXT_MEM_DMABUF). It takes CapCQWithDMABuf.
	Memory *CQMemory
}

// CQMemory is a dma-buf for a completion queue, contiguous for the device. It
// stays until the queue is closed. 32 bytes an entry for each sub-CQ, zeroed.
type CQMemory struct {
	FD     int
	Offset uint64
	Mapped []byte // the same bytes, mapped; its length is the queue's
}

// CQ is a completion queue. One goroutine polls it, or waits for it, at a time.
type CQ struct {
	object
	dev      *Device
	ctl      queue
	ring     *cqRing // nil: the library polls
	opts     CQOptions
	reserved int // requests of the endpoints that use it; guarded by life
	shut     atomic.Bool
	armed    bool // an event was asked for and has not been taken
	// early is what Wait found while it asked the library, for the next Poll.
	early  []Completion
	buffer [16]Completion
}

// CreateCQ makes a completion queue.
func (d *Device) CreateCQ(o CQOptions) (*CQ, error) {
	if o.Depth == 0 {
		o.Depth = 1024
	}
	for _, x := range []struct {
		asked bool
		takes Caps
	}{{o.SGID, CapCQWithSGID}, {o.Unsolicited, CapUnsolicitedWrite}, {o.Memory != nil, CapCQWithDMABuf}} {
		if x.asked && d.a.Caps&x.takes == 0 {
			return nil, &Error{Op: "create cq", Object: d.dev, Err: ErrUnsupported, Detail: fmt.Sprintf("it takes %v, the device or its driver has %v", x.takes, d.a.Caps)}
		}
	}
	q := &CQ{dev: d, opts: o}
	if err := q.attach("create cq", "cq", &d.object); err != nil {
		return nil, err
	}
	var err error
	if q.ctl, err = d.ctl.createCQ(o); err != nil {
		q.detach()
		return nil, err
	}
	if m := q.ctl.ring(); m != nil {
		q.ring = newCQRing(m, o.SGID)
	}
	q.rename("%d", cqNumber.Add(1))
	return q, nil
}

// cqNumber names queues in errors: the device's own numbers are not told by
// the library.
var cqNumber atomic.Uint32

// Depth is the number of completions the queue holds.
func (q *CQ) Depth() int { return q.ctl.depth() }

// Stray is the number of completions that belonged to no open endpoint, and were
// dropped.
func (q *CQ) Stray() uint64 {
	if q.ring == nil {
		return 0
	}
	return q.ring.stray.Load()
}

// Poll takes up to len(out) completions and gives how many there were. It does
// not allocate and does not wait.
func (q *CQ) Poll(out []Completion) (int, error) { return q.take(out) }

// pollElse is Poll without a ring.
func (q *CQ) pollElse(out []Completion) (int, error) {
	switch {
	case q.shut.Load():
		return 0, &Error{Op: "poll", Object: q.describe(), Err: ErrClosed}
	case len(q.early) > 0:
		n := copy(out, q.early)
		q.early = q.early[n:]
		return n, nil
	case len(out) == 0:
		return 0, nil
	}
	return q.ctl.poll(out)
}

// Wait returns when Poll has something to give, or the context ends. It takes
// CQOptions.Notify.
func (q *CQ) Wait(ctx context.Context) error {
	if q.shut.Load() {
		return &Error{Op: "wait", Object: q.describe(), Err: ErrClosed}
	}
	if !q.opts.Notify {
		return &Error{Op: "wait", Object: q.describe(), Err: ErrUnsupported, Detail: "the queue raises no events: make it with Notify"}
	}
	for {
		ready, err := q.arm()
		if ready || err != nil {
			return err
		}
		if err := q.ctl.wait(ctx); err != nil {
			return fmt.Errorf("wait on %s: %w", q.describe(), err)
		}
		q.armed = false
		if q.ring != nil {
			q.ring.sn++
		}
	}
}

// arm asks for an event, once, and then looks whether a completion is there:
// what came before may raise none.
func (q *CQ) arm() (ready bool, err error) {
	if q.ring != nil {
		if q.ring.ready() {
			return true, nil
		}
		if !q.armed {
			q.ring.consumed(1)
			q.armed = true
		}
		return q.ring.ready(), nil
	}
	if len(q.early) > 0 {
		return true, nil
	}
	if !q.armed {
		if err := q.ctl.arm(); err != nil {
			return false, err
		}
		q.armed = true
	}
	n, err := q.ctl.poll(q.buffer[:])
	q.early = q.buffer[:n]
	return n > 0, err
}

// reserve keeps room for an endpoint's requests, so that the queue cannot
// overflow.
func (q *CQ) reserve(n int) error {
	q.life.Lock()
	defer q.life.Unlock()
	if have := q.ctl.depth() - q.reserved; n > have {
		return &Error{Op: "create endpoint", Object: q.describe(), Err: ErrQueueFull,
			Detail: fmt.Sprintf("the endpoint may have %d requests in flight, and the completion queue has room for %d: make it deeper", n, have)}
	}
	q.reserved += n
	return nil
}

func (q *CQ) release(n int) {
	q.life.Lock()
	q.reserved -= n
	q.life.Unlock()
}

func (q *CQ) describe() string { return q.dev.describe(q.name()) }

// Close destroys the queue. It is ErrBusy while endpoints use it. A goroutine
// that waits gets ErrClosed.
func (q *CQ) Close() error {
	return q.close("destroy cq", func() error {
		q.shut.Store(true)
		if err := q.ctl.close(); err != nil {
			q.shut.Store(false)
			return err
		}
		return nil
	})
}
