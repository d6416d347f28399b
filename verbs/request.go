package verbs

/*

 */
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// WR is one request of a batch, to be qualified before the next is added.
type WR struct{ wr sendWR }

// add starts a request of the given number of scatter entries.
func (b *Batch) add(op Opcode, id uint64, entries int) (*sendWR, []sge) {
	if b.n >= len(b.wrs)-1 || b.used+entries > len(b.sges) {
		if b.err == nil {
			b.err = ErrQueueFull
		}
		return &b.wrs[len(b.wrs)-1], nil
	}
	if b.qp.lacks(op) && b.err == nil {
		b.err = errNoSuchOp
	}
	if entries > 1 {
		b.gathers = true
	}
	w := &b.wrs[b.n]
	b.n++
	list := b.sges[b.used : b.used+entries]
	b.used += entries
	w.id = id
	w.sges = unsafe.SliceData(list)
	w.numSGE = int32(entries)
	w.opcode = uint32(op)
	w.flags = uint32(Signaled)
	w.imm = 0 // of the slot's last use; some providers refuse one that means nothing
	return w, list
}

// errNoSuchOp: the operation is not among those the queue pair was made for.
// Calling it all the same would follow a null pointer in the provider.
var errNoSuchOp = fmt.Errorf("operation not asked for: %w", ErrUnsupported)

// lacks tells whether the queue pair cannot do an operation: an extended one
// does what it was made for, a classic one what a struct ibv_send_wr can say.
func (q *QP) lacks(op Opcode) bool {
	if q.ex == nil {
		return op == Flush || op == AtomicWrite
	}
	return int(op) >= len(opOf) || q.opts.Extended&opOf[op] == 0
}

func (b *Batch) fill(list []sge, at int, s Slice) uint64 {
	if s.bad && b.err == nil {
		b.err = ErrRange
	}
	if list != nil {
		list[at] = sge{addr: s.Addr, length: s.Length, lkey: s.LKey}
	}
	return uint64(s.Length)
}

// one starts a request of one slice, or of none where the slice is empty.
func (b *Batch) one(op Opcode, local Slice, id uint64) *sendWR {
	if local.Length == 0 && !local.bad {
		w, _ := b.add(op, id, 0)
		return w
	}
	w, list := b.add(op, id, 1)
	b.fill(list, 0, local)
	return w
}

func (b *Batch) rdma(op Opcode, local Slice, remote RemoteSlice, id uint64) *WR {
	w := b.one(op, local, id)
	if uint64(local.Length) > remote.Left && b.err == nil {
		b.err = ErrRange
	}
	w.u0, w.u1 = remote.Addr, uint64(remote.RKey)
	return wr(w)
}

func wr(w *sendWR) *WR { return (*WR)(unsafe.Pointer(w)) }

// Write adds an RDMA WRITE of the local slice to the remote place.
func (b *Batch) Write(local Slice, remote RemoteSlice, id uint64) *WR {
	return b.rdma(Write, local, remote, id)
}

// WriteImm adds an RDMA WRITE that also consumes a receive of the peer and
// hands it the immediate.
func (b *Batch) WriteImm(local Slice, remote RemoteSlice, imm uint32, id uint64) *WR {
	w := b.rdma(WriteImm, local, remote, id)
	w.wr.imm = bigEndian(imm)
	return w
}

// WriteV adds an RDMA WRITE that gathers several local slices.
func (b *Batch) WriteV(locals []Slice, remote RemoteSlice, id uint64) *WR {
	return b.gather(Write, locals, remote, id)
}

// ReadV adds an RDMA READ that scatters into several local slices.
func (b *Batch) ReadV(locals []Slice, remote RemoteSlice, id uint64) *WR {
	return b.gather(Read, locals, remote, id)
}

func (b *Batch) gather(op Opcode, locals []Slice, remote RemoteSlice, id uint64) *WR {
	w, list := b.add(op, id, len(locals))
	var total uint64
	for i, s := range locals {
		total += b.fill(list, i, s)
	}
	if total > remote.Left && b.err == nil {
		b.err = ErrRange
	}
	w.u0, w.u1 = remote.Addr, uint64(remote.RKey)
	return wr(w)
}

// Read adds an RDMA READ of the remote place into the local slice.
func (b *Batch) Read(local Slice, remote RemoteSlice, id uint64) *WR {
	return b.rdma(Read, local, remote, id)
}

// Send adds a SEND of the local slice into a receive of the peer.
func (b *Batch) Send(local Slice, id uint64) *WR { return wr(b.one(Send, local, id)) }

// SendV adds a SEND that gathers several local slices.
func (b *Batch) SendV(locals []Slice, id uint64) *WR {
	return b.gather(Send, locals, RemoteSlice{Left: math.MaxUint64}, id)
}

// SendImm adds a SEND with an immediate.
func (b *Batch) SendImm(local Slice, imm uint32, id uint64) *WR {
	w := b.one(SendImm, local, id)
	w.imm = bigEndian(imm)
	return wr(w)
}

// SendInv adds a SEND that invalidates an rkey of the peer.
func (b *Batch) SendInv(local Slice, rkey uint32, id uint64) *WR {
	w := b.one(SendInv, local, id)
	w.imm = rkey
	return wr(w)
}

// CompareSwap adds an atomic on 8 bytes of the peer, whose old value arrives
// in the local slice, in host order.
func (b *Batch) CompareSwap(local Slice, remote RemoteSlice, compare, swap, id uint64) *WR {
	return b.atomic(CompareSwap, local, remote, compare, swap, id)
}

// FetchAdd adds an atomic addition to 8 bytes of the peer, whose old value
// arrives in the local slice, in host order.
func (b *Batch) FetchAdd(local Slice, remote RemoteSlice, add, id uint64) *WR {
	return b.atomic(FetchAdd, local, remote, add, 0, id)
}

func (b *Batch) atomic(op Opcode, local Slice, remote RemoteSlice, compareAdd, swap, id uint64) *WR {
	w := b.one(op, local, id)
	if remote.Left < 8 && b.err == nil {
		b.err = ErrRange
	}
	w.u0, w.u1, w.u2, w.u3 = remote.Addr, compareAdd, swap, uint64(remote.RKey)
	return wr(w)
}

// LocalInv adds the invalidation of an rkey of this side.
func (b *Batch) LocalInv(rkey uint32, id uint64) *WR {
	w, _ := b.add(LocalInv, id, 0)
	w.imm = rkey
	return wr(w)
}

// BindMW adds the binding of a type 2 window to a range of a region, under a
// new rkey: NextRKey of the window's last one. The window's RKey is the new
// one from here on; peers may use it once the request has completed. A length
// of 0 binds to nothing. Bind a window at most once in a batch.
func (b *Batch) BindMW(w *MW, rkey uint32, mr *MR, offset, length uint64, access Access, id uint64) *WR {
	r, _ := b.add(BindMW, id, 0)
	if (length > 0 && !mr.holds(offset, length) || w.mw == nil) && b.err == nil {
		b.err = ErrRange
		return wr(r)
	}
	b.binds = true
	r.mw, r.mwRKey = unsafe.Pointer(w.mw), rkey
	r.mr, r.mwAddr, r.mwLen, r.mwAcc = nil, 0, length, uint32(access)
	if length > 0 {
		r.mr, r.mwAddr = unsafe.Pointer(mr.mr), mr.iova+offset
	}
	w.rkey.Store(rkey)
	return wr(r)
}

// Placement is how far a flush pushes data (enum ibv_placement_type).
type Placement uint8

const (
	PlaceGlobal     Placement = 1 << 0 // seen by everything on the peer
	PlacePersistent Placement = 1 << 1 // survives the peer's power failure
)

// Flush adds the flush of length bytes of a remote place, or of its whole
// region: earlier writes to it are placed when it completes. The queue pair
// must be made with Extended OpFlush, the region with the access of the same
// name.
func (b *Batch) Flush(remote RemoteSlice, length uint32, whole bool, p Placement, id uint64) *WR {
	w, _ := b.add(Flush, id, 0)
	if uint64(length) > remote.Left && b.err == nil {
		b.err = ErrRange
	}
	level := uint64(0)
	if whole {
		level = 1
	}
	w.u0, w.u1, w.u2, w.u3 = remote.Addr, uint64(remote.RKey), uint64(length), uint64(p)|level<<8
	return wr(w)
}

// AtomicWrite adds a write of 8 bytes that is seen whole or not at all. The
// queue pair must be made with Extended OpAtomicWrite.
func (b *Batch) AtomicWrite(value uint64, remote RemoteSlice, id uint64) *WR {
	w, _ := b.add(AtomicWrite, id, 0)
	if remote.Left < 8 && b.err == nil {
		b.err = ErrRange
	}
	w.u0, w.u1, w.u2 = remote.Addr, uint64(remote.RKey), value
	return wr(w)
}

// SendTSO adds a packet that the device cuts into segments of mss bytes, each
// under a copy of the header. header is C or mapped memory that stays until
// the request completes.
func (b *Batch) SendTSO(header []byte, mss uint16, locals []Slice, id uint64) *WR {
	w, list := b.add(TSO, id, len(locals))
	for i, s := range locals {
		b.fill(list, i, s)
	}
	w.mw = unsafe.Pointer(unsafe.SliceData(header))
	w.mwRKey = uint32(len(header)) | uint32(mss)<<16
	return wr(w)
}

// To names the peer of a datagram.
func (w *WR) To(ah *AH, qpn, qkey uint32) *WR {
	w.wr.u0 = uint64(uintptr(unsafe.Pointer(ah.ah)))
	w.wr.u1 = uint64(qpn) | uint64(qkey)<<32
	return w
}

// ToPeer names the peer of any request of a driver's own type of queue pair
// (TypeDriver), RDMA requests included: the handle lies where a struct
// ibv_send_wr would have a window, which such queue pairs do not bind.
func (w *WR) ToPeer(ah *AH, qpn, qkey uint32) *WR {
	w.wr.mw, w.wr.mwRKey, w.wr.srqn = unsafe.Pointer(ah.ah), qpn, qkey
	if op := Opcode(w.wr.opcode); op == Send || op == SendImm {
		w.To(ah, qpn, qkey) // where ibv_post_send looks for it
	}
	return w
}

// ToSRQ names the peer's shared receive queue, for XRC.
func (w *WR) ToSRQ(srqn uint32) *WR {
	w.wr.srqn = srqn
	return w
}

// Flags adds flags to the request, which is Signaled from the start.
func (w *WR) Flags(f SendFlags) *WR {
	w.wr.flags |= uint32(f)
	return w
}

// Unsignaled asks for no completion unless the request fails.
func (w *WR) Unsignaled() *WR {
	w.wr.flags &^= uint32(Signaled)
	return w
}
