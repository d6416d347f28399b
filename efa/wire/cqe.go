package wire

// CQE is an entry of a completion queue of 16-byte entries, and the first half of
// one of 32 (struct efa_io_tx_cdesc and efa_io_rx_cdesc).
type CQE [16]byte

// WideCQE is an entry of a completion queue of 32-byte entries (struct
// efa_io_rx_cdesc_ex; a send's has nothing in the second half).
type WideCQE [32]byte

// Base gives the first half.
func (e *WideCQE) Base() *CQE { return (*CQE)(e[:16]) }

// CQEWord is a completion's first four bytes. They hold the phase, so the device
// writes them last, as one store, and a poller loads them as one, atomically,
// before it reads the rest.
type CQEWord uint32

// CQEFlags are the flags in a completion's first word.
type CQEFlags uint8

const (
	CQEPhase       CQEFlags = 1 << 0 // begins at 1 and flips at each wrap of the sub-CQ
	CQEQueueMask   CQEFlags = 3 << 1 // QueueType
	CQEHasImm      CQEFlags = 1 << 3 // receive completions only
	CQEOpMask      CQEFlags = 7 << 4 // IOOp
	CQEUnsolicited CQEFlags = 1 << 7 // belongs to no receive: a write with immediate
)

// MakeCQEFlags packs the flags.
func MakeCQEFlags(phase bool, q QueueType, op IOOp, hasImm, unsolicited bool) CQEFlags {
	return CQEFlags(bit(phase, 0) | uint32(q&3)<<1 | bit(hasImm, 3) | uint32(op&7)<<4 | bit(unsolicited, 7))
}

// Phase gives the phase bit, see [CQEPhase].
func (f CQEFlags) Phase() bool { return f&CQEPhase != 0 }

// Queue gives the type of the queue that the request was on.
func (f CQEFlags) Queue() QueueType { return QueueType(f >> 1 & 3) }

// HasImm tells whether an immediate came with a receive.
func (f CQEFlags) HasImm() bool { return f&CQEHasImm != 0 }

// Op gives the operation.
func (f CQEFlags) Op() IOOp { return IOOp(f >> 4 & 7) }

// Unsolicited tells of a write with immediate that took no receive.
func (f CQEFlags) Unsolicited() bool { return f&CQEUnsolicited != 0 }

// MakeCQEWord packs a first word. reqID is the low half of a 64-bit id.
func MakeCQEWord(reqID uint16, s CompStatus, f CQEFlags) CQEWord {
	return CQEWord(uint32(reqID) | uint32(s)<<16 | uint32(f)<<24)
}

// ReqID gives the low half of the request id.
func (w CQEWord) ReqID() uint16 { return uint16(w) }

// Status gives how the request ended.
func (w CQEWord) Status() CompStatus { return CompStatus(w >> 16) }

// Flags gives the flags.
func (w CQEWord) Flags() CQEFlags { return CQEFlags(w >> 24) }

// Phase gives the phase bit, see [CQEPhase].
func (w CQEWord) Phase() bool { return w&(1<<24) != 0 }

// Word gives the first word by an ordinary load. To poll a queue that a device
// writes, load it atomically instead and make a CQEWord of it.
func (e *CQE) Word() CQEWord { return CQEWord(le.Uint32(e[0:])) }

// SetWord writes the first word by an ordinary store.
func (e *CQE) SetWord(w CQEWord) { le.PutUint32(e[0:], uint32(w)) }

// SetSend writes all but the first word of a send queue's completion: its queue
// pair and bits 63:16 of a 64-bit request id (0 with 16-bit ids).
func (e *CQE) SetSend(qp uint16, reqIDHigh uint64) {
	le.PutUint32(e[4:], uint32(qp)|uint32(reqIDHigh>>16)<<16)
	le.PutUint64(e[8:], reqIDHigh>>32)
}

// SetRecv writes all but the first word of a receive queue's completion: its queue
// pair, the low half of the length, and who sent what.
func (e *CQE) SetRecv(qp, length, ah, srcQP uint16, imm uint32) {
	le.PutUint32(e[4:], uint32(qp)|uint32(length)<<16)
	le.PutUint64(e[8:], uint64(ah)|uint64(srcQP)<<16|uint64(imm)<<32)
}

// Phase gives the phase bit, see [CQEPhase].
func (e *CQE) Phase() bool { return e[3]&1 != 0 }

// ReqID gives the low half of the request id.
func (e *CQE) ReqID() uint16 { return le.Uint16(e[0:]) }

// Status gives how the request ended.
func (e *CQE) Status() CompStatus { return CompStatus(e[2]) }

// Flags gives the flags.
func (e *CQE) Flags() CQEFlags { return CQEFlags(e[3]) }

// QP gives the queue pair whose request it was.
func (e *CQE) QP() uint16 { return le.Uint16(e[4:]) }

// ReqID64 gives the 64-bit request id of a send completion.
func (e *CQE) ReqID64() uint64 {
	return uint64(le.Uint16(e[0:])) | le.Uint64(e[4:])&^0xffff
}

// QPAndReqID64 gives the queue pair, and the 64-bit request id that a send
// completion with the first word w would have, by one load: for loops that need
// both.
func (e *CQE) QPAndReqID64(w CQEWord) (qp uint16, id uint64) {
	v := le.Uint64(e[4:])
	return uint16(v), uint64(w.ReqID()) | v&^0xffff
}

// Length16 gives the low half of a receive completion's length: all of it, except
// for a write with immediate (see WideCQE.Length).
func (e *CQE) Length16() uint16 { return le.Uint16(e[6:]) }

// AH gives a receive completion's sender, or UnknownAH.
func (e *CQE) AH() uint16 { return le.Uint16(e[8:]) }

// SrcQP gives the queue pair that a receive completion's message came from.
func (e *CQE) SrcQP() uint16 { return le.Uint16(e[10:]) }

// Imm gives a receive completion's immediate data, with CQEHasImm.
func (e *CQE) Imm() uint32 { return le.Uint32(e[12:]) }

// SetLengthHi writes the second half for a write with immediate: bits 31:16 of the
// length.
func (e *WideCQE) SetLengthHi(hi uint16) {
	le.PutUint64(e[16:], uint64(hi))
	le.PutUint64(e[24:], 0)
}

// SetSrcAddr writes the second half for a sender that no address handle names.
func (e *WideCQE) SetSrcAddr(gid *GID) { *(*GID)(e[16:]) = *gid }

// LengthHi gives bits 31:16 of the length of a write with immediate.
func (e *WideCQE) LengthHi() uint16 { return le.Uint16(e[16:]) }

// SrcAddr gives the sender's address, where AH is UnknownAH and the queue has
// CQSetSrcAddr.
func (e *WideCQE) SrcAddr() *GID { return (*GID)(e[16:]) }

// Length gives the length of what came, in bytes, of a receive completion.
func (e *WideCQE) Length() uint32 {
	n := uint32(e.Base().Length16())
	if e.Base().Flags().Op() == IORDMAWrite {
		n |= uint32(e.LengthHi()) << 16
	}
	return n
}
