package efa

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// RecvBatch collects receives and posts them together, as Batch does sends. It
// belongs to the goroutine that posts receives.
type RecvBatch struct {
	ep  *Endpoint
	q   *workQueue // nil: lib has the receives
	lib libRecvBatch

	stage   []wire.RxEntry // one a buffer, without ids
	ids     []uint64       // one a receive
	n       int            // receives
	entries int
	err     error
	detail  string
}

// RecvBatch makes a batch of receives of up to the receive queue's size.
func (ep *Endpoint) RecvBatch() *RecvBatch {
	b := &RecvBatch{ep: ep, q: ep.recv}
	if b.q == nil {
		b.lib = ep.ctl.recvBatch()
		return b
	}
	b.stage = make([]wire.RxEntry, ep.recvs*ep.opts.MaxRecvSGE)
	b.ids = make([]uint64, ep.recvs)
	return b
}

// Len is the number of receives in the batch.
func (b *RecvBatch) Len() int { return b.n }

// Reset empties the batch without posting it.
func (b *RecvBatch) Reset() {
	b.n, b.entries, b.err, b.detail = 0, 0, nil, ""
	if b.lib != nil {
		b.lib.reset()
	}
}

// Close frees the batch. The endpoint may be closed before.
func (b *RecvBatch) Close() {
	b.Reset()
	if b.lib != nil {
		b.lib.close()
	}
}

func (b *RecvBatch) fail(err error, format string, args ...any) {
	if b.err == nil {
		b.err, b.detail = err, fmt.Sprintf(format, args...)
	}
}

// Recv adds a receive into one slice, whose region needs LocalWrite. What a write
// with immediate takes is not written to, but must be there: libefa posts
// nothing for an empty slice, so one is refused.
func (b *RecvBatch) Recv(into Slice, id uint64) {
	if into.LKey > wire.LKeyMask || into.Length == 0 {
		b.fail(ErrRange, "the slice is empty or not in its region; nothing was posted")
		return
	}
	if b.n == b.ep.recvs {
		b.full()
		return
	}
	if b.q == nil {
		b.n++
		b.lib.add(into, nil, id)
		return
	}
	b.ids[b.n] = id
	b.n++
	b.put(into, wire.RxFirst|wire.RxLast)
}

// RecvV adds a receive that scatters into up to MaxRecvSGE slices.
func (b *RecvBatch) RecvV(into []Slice, id uint64) {
	if len(into) == 0 || len(into) > b.ep.opts.MaxRecvSGE {
		b.fail(ErrRange, "%d buffers, the endpoint was made for 1 to %d (MaxRecvSGE); nothing was posted", len(into), b.ep.opts.MaxRecvSGE)
		return
	}
	for _, s := range into {
		if s.LKey > wire.LKeyMask || s.Length == 0 {
			b.fail(ErrRange, "a slice is empty or not in its region; nothing was posted")
			return
		}
	}
	if b.n == b.ep.recvs {
		b.full()
		return
	}
	if b.q == nil {
		b.n++
		b.lib.add(Slice{}, into, id)
		return
	}
	b.ids[b.n] = id
	b.n++
	for i, s := range into {
		var f wire.RxFlags
		if i == 0 {
			f |= wire.RxFirst
		}
		if i == len(into)-1 {
			f |= wire.RxLast
		}
		b.put(s, f)
	}
}

func (b *RecvBatch) full() {
	b.fail(ErrQueueFull, "a batch holds %d receives; nothing was posted", b.ep.recvs)
}

// put stages an entry. More than 65535 bytes cannot be said, and no message has
// them.
func (b *RecvBatch) put(s Slice, f wire.RxFlags) {
	b.stage[b.entries].Set(0, s.Addr, uint16(min(s.Length, math.MaxUint16)), s.LKey, f)
	b.entries++
}

// Post hands the whole batch to the device and empties it, all or nothing.
func (b *RecvBatch) Post() error {
	n := b.n
	if b.err != nil || b.q == nil {
		return b.postElse(n)
	}
	entries := b.entries
	b.n, b.entries = 0, 0
	q := b.q
	if q.stopped.Load() != running || !q.fits(uint32(n)) {
		return b.ep.refused("post receive", q, ErrQueueFull, "")
	}
	if n == 0 {
		return nil
	}
	next := 0
	for i := range entries {
		e := &b.stage[i]
		slot := (*[2]uint64)(unsafe.Add(q.ring, uintptr(q.head&q.mask)*16))
		words := (*[2]uint64)(unsafe.Pointer(e))
		slot[0], slot[1] = words[0], words[1]
		if e.First() {
			slot[1] |= uint64(q.take(b.ids[next]))
			next++
		}
		q.head++
	}
	q.ringTo(q.head & 0xffff)
	return nil
}

// postElse posts through the library, or refuses.
func (b *RecvBatch) postElse(n int) error {
	err, detail := b.err, b.detail
	if err == nil && !b.ep.shut.Load() {
		b.n = 0
		if n == 0 {
			return nil
		}
		return b.lib.post()
	}
	b.Reset()
	if err == nil {
		err = ErrClosed
	}
	return b.ep.refused("post receive", b.q, err, detail)
}
