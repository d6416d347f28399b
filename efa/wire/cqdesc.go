package wire

// CQECommon begins every completion, as a value (struct efa_io_cdesc_common). See
// CQE for the data path's form.
type CQECommon struct {
	ReqID  uint16
	Status CompStatus
	Flags  CQEFlags
	QP     uint16
}

const SizeCQECommon = 6

func (c *CQECommon) Encode(b []byte) {
	_ = b[SizeCQECommon-1]
	le.PutUint16(b, c.ReqID)
	b[2] = byte(c.Status)
	b[3] = byte(c.Flags)
	le.PutUint16(b[4:], c.QP)
}

func (c *CQECommon) Decode(b []byte) {
	_ = b[SizeCQECommon-1]
	c.ReqID = le.Uint16(b)
	c.Status = CompStatus(b[2])
	c.Flags = CQEFlags(b[3])
	c.QP = le.Uint16(b[4:])
}

// TxCQE is a send queue's completion as a value (struct efa_io_tx_cdesc).
type TxCQE struct {
	CQECommon
	ReqIDHigh uint64 // bits 63:16 of a 64-bit request id, in place: the low 16 are 0
}

const SizeTxCQE = 16

func (c *TxCQE) Encode(b []byte) {
	_ = b[SizeTxCQE-1]
	c.CQECommon.Encode(b)
	le.PutUint16(b[6:], uint16(c.ReqIDHigh>>16))
	le.PutUint32(b[8:], uint32(c.ReqIDHigh>>32))
	le.PutUint32(b[12:], 0)
}

func (c *TxCQE) Decode(b []byte) {
	_ = b[SizeTxCQE-1]
	c.CQECommon.Decode(b)
	c.ReqIDHigh = uint64(le.Uint16(b[6:]))<<16 | uint64(le.Uint32(b[8:]))<<32
}

// RxCQE is a receive queue's completion as a value (struct efa_io_rx_cdesc).
type RxCQE struct {
	CQECommon
	Length uint16 // bits 15:0
	AH     uint16 // UnknownAH if none names the sender
	SrcQP  uint16
	Imm    uint32
}

const SizeRxCQE = 16

func (c *RxCQE) Encode(b []byte) {
	_ = b[SizeRxCQE-1]
	c.CQECommon.Encode(b)
	le.PutUint16(b[6:], c.Length)
	le.PutUint16(b[8:], c.AH)
	le.PutUint16(b[10:], c.SrcQP)
	le.PutUint32(b[12:], c.Imm)
}

func (c *RxCQE) Decode(b []byte) {
	_ = b[SizeRxCQE-1]
	c.CQECommon.Decode(b)
	c.Length = le.Uint16(b[6:])
	c.AH = le.Uint16(b[8:])
	c.SrcQP = le.Uint16(b[10:])
	c.Imm = le.Uint32(b[12:])
}

// RxCQEEx is a receive queue's completion of 32 bytes as a value (struct
// efa_io_rx_cdesc_ex).
type RxCQEEx struct {
	RxCQE
	// Ext is the sender's address or, for a write with immediate, begins with
	// bits 31:16 of the length (struct efa_io_rx_cdesc_rdma_write).
	Ext GID
}

const SizeRxCQEEx = 32

func (c *RxCQEEx) Encode(b []byte) {
	_ = b[SizeRxCQEEx-1]
	c.RxCQE.Encode(b)
	*(*GID)(b[16:]) = c.Ext
}

func (c *RxCQEEx) Decode(b []byte) {
	_ = b[SizeRxCQEEx-1]
	c.RxCQE.Decode(b)
	c.Ext = *(*GID)(b[16:])
}

// LengthHi gives Ext as bits 31:16 of the length.
func (c *RxCQEEx) LengthHi() uint16 { return le.Uint16(c.Ext[:]) }

// SetLengthHi makes Ext bits 31:16 of the length.
func (c *RxCQEEx) SetLengthHi(hi uint16) {
	c.Ext = GID{}
	le.PutUint16(c.Ext[:], hi)
}
