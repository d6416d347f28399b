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

// bufs is the number of local buffers where an entry has it: none for no bytes.
func bufs(s Slice) uint64 {
	if s.Length == 0 {
		return 0
	}
	return 1 << 48
}

// transfer adds a READ or WRITE of one local buffer.
func (b *Batch) transfer(to *Dest, local Slice, remote RemoteSlice, id, head uint64, imm uint32) {
	ah := to.ah.word.Load()
	n := b.n
	if n >= b.max || local.LKey > wire.LKeyMask || uint64(local.Length) > remote.Left || local.Length > b.rdma || ah&closedAH != 0 {
		b.noTransfer(to, local, remote, id, head, imm)
		return
	}
	b.n = n + 1
	e := b.at(n)
	e[0] = id&0xffff | head | to.qpn | bufs(local)
	e[1] = uint64(imm) | ah
	e[2] = to.qkey
	e[3] = id &^ 0xffff
	e[4] = uint64(local.Length) | uint64(remote.RKey)<<32
	e[5] = remote.Addr
	e[6] = uint64(local.Length) | uint64(local.LKey)<<32
	e[7] = local.Addr
	if b.size > mmio.Block {
		*b.at2(e) = txWords{}
	}
}

// noTransfer is what transfer does with the library, or with what is not right.
func (b *Batch) noTransfer(to *Dest, local Slice, remote RemoteSlice, id, head uint64, imm uint32) {
	if b.q == nil {
		r := request{op: OpWrite, to: to, local: local, remote: remote, imm: imm, hasImm: head&wordImm != 0, id: id}
		if head&^wordImm == wordRead {
			r.op = OpRead
		}
		b.add(r)
		return
	}
	switch {
	case local.LKey > wire.LKeyMask || uint64(local.Length) > remote.Left || local.Length > b.rdma:
		b.outside(local, remote)
	default:
		b.entry(head, to, imm, id) // which tells
	}
}

func (b *Batch) outside(local Slice, remote RemoteSlice) {
	switch {
	case local.LKey > wire.LKeyMask:
		b.fail(ErrRange, "the local slice is not in its region, or the region is closed; nothing was posted")
	case local.Length > b.rdma:
		b.fail(ErrRange, "%d bytes, the device moves %d a request (max_rdma_size); nothing was posted", local.Length, b.rdma)
	default:
		b.fail(ErrRange, "%d bytes, the remote region has %d from there on; nothing was posted", local.Length, remote.Left)
	}
}

// Write adds an RDMA WRITE of the local slice to the remote place.
func (b *Batch) Write(to *Dest, local Slice, remote RemoteSlice, id uint64) {
	b.transfer(to, local, remote, id, wordWrite, 0)
}

// WriteImm adds an RDMA WRITE that also hands the peer the immediate, taking a
// receive of its unless its endpoint is Unsolicited. With an empty slice it
// writes nothing; the device still checks the remote key.
func (b *Batch) WriteImm(to *Dest, local Slice, remote RemoteSlice, imm uint32, id uint64) {
	b.transfer(to, local, remote, id, wordWrite|wordImm, imm)
}

// Read adds an RDMA READ of the remote place into the local slice, whose region
// needs LocalWrite.
func (b *Batch) Read(to *Dest, local Slice, remote RemoteSlice, id uint64) {
	b.transfer(to, local, remote, id, wordRead, 0)
}

// Send adds a SEND of the local slice, at most Attr.MTU bytes, into a receive of
// the peer.
func (b *Batch) Send(to *Dest, local Slice, id uint64) { b.send(to, local, id, wordSend, 0) }

// SendImm adds a SEND with an immediate.
func (b *Batch) SendImm(to *Dest, local Slice, imm uint32, id uint64) {
	b.send(to, local, id, wordSend|wordImm, imm)
}

func (b *Batch) send(to *Dest, local Slice, id, head uint64, imm uint32) {
	if b.q == nil {
		b.add(request{op: OpSend, to: to, local: local, imm: imm, hasImm: head&wordImm != 0, id: id})
		return
	}
	if local.LKey > wire.LKeyMask {
		b.outside(local, RemoteSlice{})
	}
	e := b.entry(head|bufs(local), to, imm, id)
	e[4] = uint64(local.Length) | uint64(local.LKey)<<32
	e[5] = local.Addr
	e[6], e[7] = 0, 0
}

// SendV adds a SEND that gathers up to MaxSendSGE local slices.
func (b *Batch) SendV(to *Dest, locals []Slice, id uint64) {
	if len(locals) > b.ep.opts.MaxSendSGE {
		b.fail(ErrRange, "%d buffers, the endpoint was made for %d (MaxSendSGE); nothing was posted", len(locals), b.ep.opts.MaxSendSGE)
		locals = nil
	}
	if b.q == nil {
		b.add(request{op: OpSend, to: to, more: locals, id: id})
		return
	}
	e := b.entry(wordSend|uint64(len(locals))<<48, to, 0, id)
	e[4], e[5], e[6], e[7] = 0, 0, 0, 0
	for i, s := range locals {
		if s.LKey > wire.LKeyMask {
			b.outside(s, RemoteSlice{})
		}
		e[4+2*i] = uint64(s.Length) | uint64(s.LKey)<<32
		e[5+2*i] = s.Addr
	}
}

// SendInline adds a SEND of up to MaxInline bytes that the request carries
// itself: they are copied now.
func (b *Batch) SendInline(to *Dest, data []byte, id uint64) {
	data = b.carries(data)
	if b.q == nil {
		b.add(request{op: OpSend, to: to, inline: data, id: id})
		return
	}
	e := b.entry(wordSend|wordInline|uint64(len(data))<<48, to, 0, id)
	b.put(e, 32, data)
}

// WriteInline adds an RDMA WRITE of up to MaxInline bytes that the request
// carries itself. The endpoint must be made with InlineWrite.
func (b *Batch) WriteInline(to *Dest, data []byte, remote RemoteSlice, id uint64) {
	data = b.carries(data)
	if !b.ep.opts.InlineWrite {
		b.fail(ErrUnsupported, "make the endpoint with InlineWrite; nothing was posted")
		data = nil
	}
	if uint64(len(data)) > remote.Left {
		b.outside(Slice{Length: uint32(len(data))}, remote)
		data = nil
	}
	if b.q == nil {
		b.add(request{op: OpWrite, to: to, inline: data, remote: remote, id: id})
		return
	}
	e := b.entry(wordWrite|wordInline|uint64(len(data))<<48, to, 0, id)
	e[4] = uint64(len(data)) | uint64(remote.RKey)<<32
	e[5] = remote.Addr
	b.put(e, 48, data)
}

// carries checks inline data.
func (b *Batch) carries(data []byte) []byte {
	if len(data) > b.inline {
		b.fail(ErrRange, "%d bytes inline, the endpoint was made for %d (MaxInline); nothing was posted", len(data), b.inline)
		return nil
	}
	return data
}

// put copies inline data into an entry, and zeroes what follows.
func (b *Batch) put(e *txWords, at int, data []byte) {
	room := unsafe.Slice((*byte)(unsafe.Pointer(e)), b.size)[at:]
	clear(room[copy(room, data):])
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
