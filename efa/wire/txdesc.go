package wire

// TxMeta is the control part of a transmit entry as a value (struct
// efa_io_tx_meta_desc). See TxEntry for the data path's form.
type TxMeta struct {
	ReqID   uint64    // 16 bits unless the queue has 64-bit ids
	Control TxControl // ctrl1 and ctrl2
	DestQP  uint16
	Length  uint16 // buffers, or bytes with TxInline
	Imm     uint32
	AH      uint16
	Hints   ProcessingHints // 2 bits
	QKey    uint32
}

const SizeTxMeta = 32

func (m *TxMeta) Encode(b []byte) {
	_ = b[SizeTxMeta-1]
	le.PutUint16(b, uint16(m.ReqID))
	le.PutUint16(b[2:], uint16(m.Control))
	le.PutUint16(b[4:], m.DestQP)
	le.PutUint16(b[6:], m.Length)
	le.PutUint32(b[8:], m.Imm)
	le.PutUint16(b[12:], m.AH)
	le.PutUint16(b[14:], uint16(m.Hints&3))
	le.PutUint64(b[16:], uint64(m.QKey))
	le.PutUint64(b[24:], m.ReqID&^0xffff)
}

func (m *TxMeta) Decode(b []byte) {
	_ = b[SizeTxMeta-1]
	m.ReqID = uint64(le.Uint16(b)) | le.Uint64(b[24:])&^0xffff
	m.Control = TxControl(le.Uint16(b[2:]))
	m.DestQP = le.Uint16(b[4:])
	m.Length = le.Uint16(b[6:])
	m.Imm = le.Uint32(b[8:])
	m.AH = le.Uint16(b[12:])
	m.Hints = ProcessingHints(b[14] & 3)
	m.QKey = le.Uint32(b[16:])
}

// TxBuf is a local buffer of a transmit entry (struct efa_io_tx_buf_desc).
type TxBuf struct {
	Length uint32 // bytes
	LKey   uint32 // 24 bits
	Addr   uint64
}

const SizeTxBuf = 16

func (d *TxBuf) Encode(b []byte) {
	_ = b[SizeTxBuf-1]
	le.PutUint32(b, d.Length)
	le.PutUint32(b[4:], d.LKey&LKeyMask)
	le.PutUint64(b[8:], d.Addr)
}

func (d *TxBuf) Decode(b []byte) {
	_ = b[SizeTxBuf-1]
	d.Length = le.Uint32(b)
	d.LKey = le.Uint32(b[4:]) & LKeyMask
	d.Addr = le.Uint64(b[8:])
}

// RemoteBuf is the remote buffer of a read or write (struct
// efa_io_remote_mem_addr).
type RemoteBuf struct {
	Length uint32 // bytes
	RKey   uint32
	Addr   uint64
}

const SizeRemoteBuf = 16

func (d *RemoteBuf) Encode(b []byte) {
	_ = b[SizeRemoteBuf-1]
	le.PutUint32(b, d.Length)
	le.PutUint32(b[4:], d.RKey)
	le.PutUint64(b[8:], d.Addr)
}

func (d *RemoteBuf) Decode(b []byte) {
	_ = b[SizeRemoteBuf-1]
	d.Length = le.Uint32(b)
	d.RKey = le.Uint32(b[4:])
	d.Addr = le.Uint64(b[8:])
}

// RDMAReq is the data part of a read or write (struct efa_io_rdma_req).
type RDMAReq struct {
	Remote RemoteBuf
	Local  TxBuf
}

const SizeRDMAReq = 32

func (d *RDMAReq) Encode(b []byte) {
	_ = b[SizeRDMAReq-1]
	d.Remote.Encode(b)
	d.Local.Encode(b[16:])
}

func (d *RDMAReq) Decode(b []byte) {
	_ = b[SizeRDMAReq-1]
	d.Remote.Decode(b)
	d.Local.Decode(b[16:])
}

// FastRegMR is the data part of a fast registration (struct
// efa_io_fast_mr_reg_req). No user of verbs can post one; kernels can from 7.3.
type FastRegMR struct {
	LKey      uint32 // the region's key from now on
	Access    Access
	PageShift uint8   // 5 bits; a page has 1<<PageShift bytes
	PBLMode   PBLMode // 2 bits
	IOVA      uint64
	Length    uint64 // bytes
	PBL       uint64 // the page's address, or with PBLDirect that of their list
}

const SizeFastRegMR = 32

func (d *FastRegMR) Encode(b []byte) {
	_ = b[SizeFastRegMR-1]
	le.PutUint32(b, d.LKey)
	b[4] = byte(d.Access)
	b[5] = d.PageShift&0x1f | byte(d.PBLMode&3)<<5
	le.PutUint16(b[6:], 0)
	le.PutUint64(b[8:], d.IOVA)
	le.PutUint64(b[16:], d.Length)
	le.PutUint64(b[24:], d.PBL)
}

func (d *FastRegMR) Decode(b []byte) {
	_ = b[SizeFastRegMR-1]
	d.LKey = le.Uint32(b)
	d.Access = Access(b[4])
	d.PageShift = b[5] & 0x1f
	d.PBLMode = PBLMode(b[5] >> 5 & 3)
	d.IOVA = le.Uint64(b[8:])
	d.Length = le.Uint64(b[16:])
	d.PBL = le.Uint64(b[24:])
}

// FastInvMR is the data part of a fast invalidation (struct
// efa_io_fast_mr_inv_req).
type FastInvMR struct{ LKey uint32 }

const SizeFastInvMR = 32

func (d *FastInvMR) Encode(b []byte) {
	_ = b[SizeFastInvMR-1]
	clear(b[4:SizeFastInvMR])
	le.PutUint32(b, d.LKey)
}

func (d *FastInvMR) Decode(b []byte) {
	_ = b[SizeFastInvMR-1]
	d.LKey = le.Uint32(b)
}
