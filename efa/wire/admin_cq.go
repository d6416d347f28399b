package wire

// CQCaps1 are the first flags of CREATE_CQ (cq_caps_1).
type CQCaps1 uint8

const (
	CQInterruptMode CQCaps1 = 1 << 5 // completions raise events
	CQVirt          CQCaps1 = 1 << 6 // the ring's address is an IOVA of LKey
)

// CQFlags are the flags beside the entry size in cq_caps_2.
type CQFlags uint8

const (
	CQSetSrcAddr CQFlags = 1 << 5 // completions from unknown senders carry the source GID; wants 8-word entries
	CQReqID64    CQFlags = 1 << 6 // send completions carry 64-bit request ids
)

// CreateCQ is the command CREATE_CQ (struct efa_admin_create_cq_cmd). The ring
// holds NumSubCQs rings of SubCQDepth entries one after the other.
type CreateCQ struct {
	Caps       CQCaps1
	EntryWords uint8   // 5 bits, in units of 4 bytes: 4 or 8
	Flags      CQFlags // bits 7:5 of cq_caps_2
	SubCQDepth uint16  // entries, a power of two
	EQN        uint16  // with CQInterruptMode
	BaseAddr   uint64
	LKey       uint32
	NumSubCQs  uint16
	UAR        uint16
}

const SizeCreateCQ = 24

func (c *CreateCQ) Encode(b []byte) {
	_ = b[SizeCreateCQ-1]
	b[0] = byte(c.Caps)
	b[1] = c.EntryWords&0x1f | byte(c.Flags)&0xe0
	le.PutUint16(b[2:], c.SubCQDepth)
	le.PutUint16(b[4:], c.EQN)
	le.PutUint16(b[6:], 0)
	le.PutUint64(b[8:], c.BaseAddr)
	le.PutUint32(b[16:], c.LKey)
	le.PutUint16(b[20:], c.NumSubCQs)
	le.PutUint16(b[22:], c.UAR)
}

func (c *CreateCQ) Decode(b []byte) {
	_ = b[SizeCreateCQ-1]
	c.Caps = CQCaps1(b[0])
	c.EntryWords = b[1] & 0x1f
	c.Flags = CQFlags(b[1] & 0xe0)
	c.SubCQDepth = le.Uint16(b[2:])
	c.EQN = le.Uint16(b[4:])
	c.BaseAddr = le.Uint64(b[8:])
	c.LKey = le.Uint32(b[16:])
	c.NumSubCQs = le.Uint16(b[20:])
	c.UAR = le.Uint16(b[22:])
}

// CQRespFlags are the flags of CreateCQResp.
type CQRespFlags uint32

const CQDBValid CQRespFlags = 1 << 0 // DB is a doorbell; always with CQInterruptMode

// CreateCQResp answers CREATE_CQ (struct efa_admin_create_cq_resp).
type CreateCQResp struct {
	CQ         uint16 // index, what CREATE_QP names the queue by
	SubCQDepth uint16 // entries it really has
	DB         uint32 // byte offset in the doorbell BAR
	Flags      CQRespFlags
}

const SizeCreateCQResp = 12

func (r *CreateCQResp) Encode(b []byte) {
	_ = b[SizeCreateCQResp-1]
	le.PutUint16(b, r.CQ)
	le.PutUint16(b[2:], r.SubCQDepth)
	le.PutUint32(b[4:], r.DB)
	le.PutUint32(b[8:], uint32(r.Flags))
}

func (r *CreateCQResp) Decode(b []byte) {
	_ = b[SizeCreateCQResp-1]
	r.CQ = le.Uint16(b)
	r.SubCQDepth = le.Uint16(b[2:])
	r.DB = le.Uint32(b[4:])
	r.Flags = CQRespFlags(le.Uint32(b[8:]))
}

// DestroyCQ is the command DESTROY_CQ (struct efa_admin_destroy_cq_cmd). Its
// response has no payload.
type DestroyCQ struct{ CQ uint16 }

const SizeDestroyCQ = 4

func (c *DestroyCQ) Encode(b []byte) { le.PutUint32(b, uint32(c.CQ)) }
func (c *DestroyCQ) Decode(b []byte) {
	_ = b[SizeDestroyCQ-1]
	c.CQ = le.Uint16(b)
}
