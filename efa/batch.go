package efa

import (
	"fmt"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/internal/mmio"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// Batch collects send requests and posts them together. It is made once and
// used again and again; adding and posting allocate nothing. A batch belongs to
// the goroutine that posts.
//
// A request that cannot be right (a slice outside its region, an operation that
// the endpoint lacks) makes Post fail with everything unposted.
type Batch struct {
	ep  *Endpoint
	q   *workQueue // nil: lib has the requests
	lib libBatch

	// stage holds the entries as they will be on the device, with 64-bit ids
	// and phase 0; Post gives them the queue's ids and its phase. After the
	// last comes a place for refused requests.
	stage  unsafe.Pointer
	size   uintptr // bytes of an entry; 0 for the library
	n      int
	max    int // requests that stage holds; 0 for the library
	inline int
	rdma   uint32 // most bytes of a READ or WRITE
	err    error
	detail string
	keep   []byte
}

// txWords is a transmit entry of 64 bytes in words. Entries are written so, and
// not through wire.TxEntry, because the compiler splits some of its stores: the
// copy to the device, which loads words, would have to wait for the parts.
type txWords [8]uint64

const (
	wordFlags  = uint64(wire.TxAlways) << 16
	wordImm    = uint64(wire.TxHasImm) << 16
	wordInline = uint64(wire.TxInline) << 16
	wordPhase  = uint64(wire.TxPhase) << 16
	wordSend   = wordFlags | uint64(wire.IOSend)<<16
	wordRead   = wordFlags | uint64(wire.IORDMARead)<<16
	wordWrite  = wordFlags | uint64(wire.IORDMAWrite)<<16
	wordHint   = uint64(wire.HintBurstPPSSensitive) << 48 // of the second word
)

// Batch makes a batch of up to the send queue's size.
func (ep *Endpoint) Batch() *Batch {
	b := &Batch{ep: ep, q: ep.send, inline: ep.opts.MaxInline, rdma: ep.dev.a.MaxRDMA}
	if b.q == nil {
		b.lib = ep.ctl.sendBatch()
		return b
	}
	b.max, b.size = ep.sends, uintptr(ep.blocks)*mmio.Block
	b.keep = aligned((b.max+1)*int(b.size), mmio.Block)
	b.stage = unsafe.Pointer(&b.keep[0])
	return b
}

// aligned is zeroed memory from a multiple of align on.
func aligned(n, align int) []byte {
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & uintptr(align-1))
	return b[off : off+n : off+n]
}

// Len is the number of requests in the batch.
func (b *Batch) Len() int { return b.n }

// Reset empties the batch without posting it.
func (b *Batch) Reset() {
	b.n, b.err, b.detail = 0, nil, ""
	if b.lib != nil {
		b.lib.reset()
	}
}

// Close frees the batch. The endpoint may be closed before.
func (b *Batch) Close() {
	b.Reset()
	if b.lib != nil {
		b.lib.close()
	}
}

func (b *Batch) fail(err error, format string, args ...any) {
	if b.err == nil {
		b.err, b.detail = err, fmt.Sprintf(format, args...)
	}
}

// at is the place of entry i.
func (b *Batch) at(i int) *txWords {
	return (*txWords)(unsafe.Add(b.stage, uintptr(i)*b.size))
}

// entry starts a request: it gives the place of the next one with all but the
// length and the buffers set. head has the operation.
func (b *Batch) entry(head uint64, to *Dest, imm uint32, id uint64) *txWords {
	i := b.n
	if i == b.max {
		b.fail(ErrQueueFull, "a batch holds %d requests; nothing was posted", b.max)
	} else {
		b.n++
	}
	ah := to.ah.word.Load()
	if ah&closedAH != 0 {
		b.fail(ErrClosed, "the address handle of %v is closed; nothing was posted", to.ah.gid)
	}
	e := b.at(i)
	e[0] = id&0xffff | head | to.qpn
	e[1] = uint64(imm) | ah&^closedAH
	e[2] = to.qkey
	e[3] = id &^ 0xffff
	if b.size > mmio.Block {
		*b.at2(e) = txWords{}
	}
	return e
}

// at2 is the second half of a wide entry.
func (b *Batch) at2(e *txWords) *txWords {
	return (*txWords)(unsafe.Add(unsafe.Pointer(e), mmio.Block))
}

// Hint tells the device to treat the request added last as one of a burst
// (EFADV_WR_PROCESSING_HINT_BURST_PPS_SENSITIVE). It is a hint: on the library's
// path it is left out.
func (b *Batch) Hint() {
	if b.n > 0 && b.q != nil && b.ep.opts.Hints {
		b.at(b.n - 1)[1] |= wordHint
	}
}

// add hands a request to the library's batch.
func (b *Batch) add(r request) {
	switch {
	case r.to.ah.word.Load()&closedAH != 0:
		b.fail(ErrClosed, "the address handle of %v is closed; nothing was posted", r.to.ah.gid)
	case r.op != OpSend && r.inline == nil && (r.local.LKey > wire.LKeyMask || uint64(r.local.Length) > r.remote.Left || r.local.Length > b.rdma):
		b.outside(r.local, r.remote)
	case r.local.LKey > wire.LKeyMask:
		b.outside(r.local, RemoteSlice{})
	case b.n == b.ep.sends:
		b.fail(ErrQueueFull, "a batch holds %d requests; nothing was posted", b.ep.sends)
	}
	if b.err != nil {
		return
	}
	if err := b.lib.add(r); err != nil {
		b.fail(err, "nothing was posted")
		return
	}
	b.n++
}

// Post hands the whole batch to the device and empties it. It is all or nothing:
// a *PostError says why not.
func (b *Batch) Post() error {
	n := b.n
	if b.err != nil || b.q == nil {
		return b.postElse(n)
	}
	q := b.q
	if q.stopped.Load() != running || !q.fits(uint32(n)) {
		b.n = 0
		return b.ep.refused("post", q, ErrQueueFull, "")
	}
	b.n = 0
	if n == 0 {
		return nil
	}
	b.number(q, uint32(n))
	q.push(b.stage, uint32(n), b.ep.blocks)
	return nil
}

// number gives n staged entries the queue's ids and phases, which begin at 0 and
// flip with every round of the ring.
func (b *Batch) number(q *workQueue, n uint32) {
	first, last := q.head>>q.shift&1, (q.head+n-1)>>q.shift&1
	if q.wide {
		q.posted += n
		if first|last == 0 {
			return
		}
	}
	for i := range n {
		e := b.at(int(i))
		phase := uint64((q.head+i)>>q.shift&1) * wordPhase
		if q.wide {
			e[0] |= phase
			continue
		}
		id := e[0]&0xffff | e[3]
		e[0] = e[0]&^0xffff | uint64(q.take(id)) | phase
		e[3] = 0
	}
}

// postElse posts through the library, or refuses.
func (b *Batch) postElse(n int) error {
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
	return b.ep.refused("post", b.q, err, detail)
}
