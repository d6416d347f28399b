package efa

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/internal/mmio"
)

// workQueue is a send or receive queue driven in its own rings. One goroutine
// posts, one polls the completion queue; what the two share is the count of
// completions and the ids that come free with them.
type workQueue struct {
	// The poster's.
	ring     unsafe.Pointer
	bell     bell
	mask     uint32 // entries - 1
	shift    uint8  // log2 of the entries
	wide     bool   // 64-bit ids: the caller's own, and no table
	limit    uint32 // requests that may be in flight
	maxBatch uint32 // entries between two doorbells
	head     uint32 // entries written since the start
	posted   uint32 // requests
	seen     uint32 // completed, as last read
	stopped  atomic.Uint32

	_ [64]byte

	// The poller's.
	done      uint32        // completions taken
	completed atomic.Uint32 // done, as the poster may see it

	_ [64]byte

	// ids: requests complete out of order, so the device's 16-bit id of a
	// request is an index that was free, with the queue's generation above it.
	// free is a ring of them: taken at posted, given back at done.
	free  []uint16
	wrids []uint64 // the callers' ids, by index
	gen   uint16   // above the index's bits
	keep  any
}

// Reasons why a queue takes no more.
const (
	running = iota
	inError
	closed
)

func newWorkQueue(m *wqMemory, limit int, generation uint32) *workQueue {
	q := &workQueue{
		ring: m.ring, bell: m.bell, mask: uint32(m.count) - 1, shift: uint8(bits.Len(uint(m.count)) - 1),
		wide: m.wideIDs, limit: uint32(min(limit, m.count)), maxBatch: uint32(m.maxBatch), keep: m.keep,
	}
	if q.maxBatch == 0 {
		q.maxBatch = uint32(m.count)
	}
	if !q.wide {
		q.free = make([]uint16, m.count)
		q.wrids = make([]uint64, m.count)
		q.gen = uint16(generation << q.shift)
		for i := range q.free {
			q.free[i] = uint16(i)
		}
	}
	return q
}

// room is how many requests fit now.
func (q *workQueue) room() uint32 {
	q.seen = q.completed.Load()
	return q.limit - (q.posted - q.seen)
}

// fits tells whether n requests fit, and asks what completed only if it must.
func (q *workQueue) fits(n uint32) bool {
	return q.posted-q.seen+n <= q.limit || n <= q.room()
}

// take gives the device's id of the next request. The caller has seen to room.
func (q *workQueue) take(id uint64) uint16 {
	i := q.free[q.posted&q.mask]
	q.posted++
	q.wrids[i&uint16(q.mask)] = id
	return i | q.gen
}

// give takes a completion's id back and gives the caller's; false if the
// completion is not of this queue pair but of one that had its number before.
func (q *workQueue) give(i uint16) (uint64, bool) {
	index := i & uint16(q.mask)
	if i&^uint16(q.mask) != q.gen {
		return 0, false
	}
	q.free[q.done&q.mask] = index
	q.done++
	return q.wrids[index], true
}

// publish tells the poster what completed.
func (q *workQueue) publish() { q.completed.Store(q.done) }

// ringTo rings the doorbell of a receive queue.
func (q *workQueue) ringTo(value uint32) {
	if q.bell.dev != nil {
		q.bell.dev.Ring(q.bell.offset, value)
		return
	}
	mmio.Ring(q.bell.register, value)
}

// stop refuses requests from here on.
func (q *workQueue) stop(why uint32) {
	if q != nil {
		q.stopped.Store(why)
	}
}

// push copies n staged entries of blocks*64 bytes each to the send ring and
// rings, once for each batch that the device takes.
func (q *workQueue) push(stage unsafe.Pointer, n uint32, blocks int) {
	if at := q.head & q.mask; n <= q.maxBatch && n <= q.mask+1-at {
		q.head += n
		mmio.Post(unsafe.Add(q.ring, uintptr(at)*uintptr(blocks)*mmio.Block), stage, int(n)*blocks, q.bell.register, q.head&0xffff)
		if q.bell.dev != nil {
			q.bell.dev.Ring(q.bell.offset, q.head&0xffff)
		}
		return
	}
	q.pushParts(stage, n, blocks)
}

// pushParts pushes more than one batch, or what wraps around the ring.
func (q *workQueue) pushParts(stage unsafe.Pointer, n uint32, blocks int) {
	size := uintptr(blocks) * mmio.Block
	batch := q.maxBatch
	for n > 0 {
		at := q.head & q.mask
		k := min(n, batch, q.mask+1-at)
		dst := unsafe.Add(q.ring, uintptr(at)*size)
		q.head += k
		n -= k
		batch -= k
		if n > 0 && batch > 0 {
			// The ring wraps within a batch.
			mmio.Copy(dst, stage, int(k)*blocks)
			stage = unsafe.Add(stage, uintptr(k)*size)
			continue
		}
		// The doorbell is 16 bits of the count, as libefa writes it.
		mmio.Post(dst, stage, int(k)*blocks, q.bell.register, q.head&0xffff)
		if q.bell.dev != nil {
			q.bell.dev.Ring(q.bell.offset, q.head&0xffff)
		}
		stage = unsafe.Add(stage, uintptr(k)*size)
		batch = q.maxBatch
	}
}
