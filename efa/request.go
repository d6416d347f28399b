package efa

import (
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/internal/mmio"
	"github.com/peerdirect/peerdirect/efa/wire"
)

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
