package wire

// TxEntry is a 64-byte entry of a send queue (struct efa_io_tx_wqe): 32 bytes of
// control, then two buffers, 32 bytes of inline data, or a remote and a local
// buffer. It is filled in memory and then written to the device as a whole, in
// ascending order of addresses.
//
// The setters together write every byte of the entry: Set, SetPeer, SetQKey and
// SetReqIDHigh the control part, and SetBuf(0) and SetBuf(1), or SetRemote and
// SetLocal, or inline data of full length the rest. An entry used again needs only
// what changes.
type TxEntry [64]byte

// WideTxEntry is a 128-byte entry (struct efa_io_tx_wqe_128 of rdma-core 65). Its
// first half is a TxEntry, except that inline data goes on into the second.
// Devices with an inline size above MaxInline, and queue pairs with inline writes,
// have entries of this size.
type WideTxEntry [128]byte

// Entry gives the first half, which has the form of a TxEntry.
func (e *WideTxEntry) Entry() *TxEntry { return (*TxEntry)(e[:64]) }

// Inline gives the room for inline data of a send.
func (e *WideTxEntry) Inline() *[MaxInlineWide]byte { return (*[MaxInlineWide]byte)(e[32:112]) }

// RDMAInline gives the room for inline data of a write, after its remote buffer.
func (e *WideTxEntry) RDMAInline() *[MaxInlineWide]byte { return (*[MaxInlineWide]byte)(e[48:128]) }

// TxControl is both control bytes of a transmit entry (ctrl1 in the low byte,
// ctrl2 in the high one). The low four bits are the operation.
type TxControl uint16

const (
	TxOpMask        TxControl = 0xf
	TxHasImm        TxControl = 1 << 4
	TxInline        TxControl = 1 << 5 // data lies in the entry
	TxMetaExtension TxControl = 1 << 6 // must be zero
	TxMetaDesc      TxControl = 1 << 7 // must be set
	TxPhase         TxControl = 1 << 8
	TxFirst         TxControl = 1 << 10 // must be set
	TxLast          TxControl = 1 << 11 // must be set
	TxCompReq       TxControl = 1 << 12 // post a completion

	// TxAlways is what every entry of Linux and rdma-core has set.
	TxAlways = TxMetaDesc | TxFirst | TxLast | TxCompReq
)

// Op is the operation.
func (c TxControl) Op() IOOp { return IOOp(c & TxOpMask) }

// Phase is the phase bit, which begins at 0 and flips at each wrap of the ring.
func (c TxControl) Phase() bool { return c&TxPhase != 0 }

// Set writes the first eight bytes: the request id (its low half), control, the
// destination queue pair and the length, which is the number of buffers or, with
// TxInline, of bytes.
func (e *TxEntry) Set(reqID uint16, c TxControl, destQP, length uint16) {
	le.PutUint64(e[0:], uint64(reqID)|uint64(c)<<16|uint64(destQP)<<32|uint64(length)<<48)
}

// SetPeer writes the next eight: immediate data, address handle, hints.
func (e *TxEntry) SetPeer(imm uint32, ah uint16, hints ProcessingHints) {
	le.PutUint64(e[8:], uint64(imm)|uint64(ah)<<32|uint64(hints&3)<<48)
}

// SetQKey writes the queue key and the reserved bytes after it.
func (e *TxEntry) SetQKey(qkey uint32) { le.PutUint64(e[16:], uint64(qkey)) }

// SetReqIDHigh writes bits 63:16 of a 64-bit request id; 0 for a queue with 16-bit
// ids.
func (e *TxEntry) SetReqIDHigh(id uint64) { le.PutUint64(e[24:], id&^0xffff) }

// SetBuf writes buffer i (0 or 1) of a send. lkey has 24 bits.
func (e *TxEntry) SetBuf(i int, addr uint64, length, lkey uint32) {
	b := e[32:]
	if i != 0 {
		b = e[48:]
	}
	le.PutUint64(b, uint64(length)|uint64(lkey&LKeyMask)<<32)
	le.PutUint64(b[8:], addr)
}

// SetRemote writes the remote buffer of a read or write.
func (e *TxEntry) SetRemote(addr uint64, length, rkey uint32) {
	le.PutUint64(e[32:], uint64(length)|uint64(rkey)<<32)
	le.PutUint64(e[40:], addr)
}

// SetLocal writes the local buffer of a read or write. lkey has 24 bits.
func (e *TxEntry) SetLocal(addr uint64, length, lkey uint32) {
	le.PutUint64(e[48:], uint64(length)|uint64(lkey&LKeyMask)<<32)
	le.PutUint64(e[56:], addr)
}

// Inline gives the room for inline data of a send.
func (e *TxEntry) Inline() *[MaxInline]byte { return (*[MaxInline]byte)(e[32:64]) }

// ReqID gives the low half of the request id.
func (e *TxEntry) ReqID() uint16 { return le.Uint16(e[0:]) }

// ReqID64 gives the request id of 64 bits.
func (e *TxEntry) ReqID64() uint64 { return uint64(le.Uint16(e[0:])) | le.Uint64(e[24:])&^0xffff }

// Control gives the control bits.
func (e *TxEntry) Control() TxControl { return TxControl(le.Uint16(e[2:])) }

// Op gives the operation.
func (e *TxEntry) Op() IOOp { return IOOp(e[2] & 0xf) }

// DestQP gives the number of the peer's queue pair.
func (e *TxEntry) DestQP() uint16 { return le.Uint16(e[4:]) }

// Length gives the number of buffers, or the bytes of inline data.
func (e *TxEntry) Length() uint16 { return le.Uint16(e[6:]) }

// Imm gives the immediate.
func (e *TxEntry) Imm() uint32 { return le.Uint32(e[8:]) }

// AH gives the number of the address handle.
func (e *TxEntry) AH() uint16 { return le.Uint16(e[12:]) }

// Hints gives the processing hints.
func (e *TxEntry) Hints() ProcessingHints { return ProcessingHints(e[14] & 3) }

// QKey gives the queue key.
func (e *TxEntry) QKey() uint32 { return le.Uint32(e[16:]) }

// Buf gives buffer i (0 or 1) of a send.
func (e *TxEntry) Buf(i int) TxBuf {
	b := e[32:]
	if i != 0 {
		b = e[48:]
	}
	return TxBuf{Length: le.Uint32(b), LKey: le.Uint32(b[4:]) & LKeyMask, Addr: le.Uint64(b[8:])}
}

// Remote gives the remote buffer of a read or write.
func (e *TxEntry) Remote() RemoteBuf {
	return RemoteBuf{Length: le.Uint32(e[32:]), RKey: le.Uint32(e[36:]), Addr: le.Uint64(e[40:])}
}

// Local gives the local buffer of a read or write.
func (e *TxEntry) Local() TxBuf { return e.Buf(1) }
