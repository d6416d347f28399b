package wire

// QPType is a queue pair's transport (enum efa_admin_qp_type).
type QPType uint8

const (
	QPTypeUD  QPType = 1
	QPTypeSRD QPType = 2
)

func (t QPType) String() string { return name([]string{1: "UD", "SRD"}, int(t), "QP type") }

// QPState is a queue pair's state (enum efa_admin_qp_state).
type QPState uint32

const (
	QPStateReset QPState = 0
	QPStateInit  QPState = 1
	QPStateRTR   QPState = 2
	QPStateRTS   QPState = 3
	QPStateSQD   QPState = 4
	QPStateSQE   QPState = 5
	QPStateError QPState = 6
)

func (s QPState) String() string {
	return name([]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, int(s), "QP state")
}

// CreateQPFlags are the flags of CREATE_QP.
type CreateQPFlags uint8

const (
	QPSQVirt               CreateQPFlags = 1 << 0 // the send ring's address is an IOVA of SQLKey
	QPRQVirt               CreateQPFlags = 1 << 1 // the receive ring's address is an IOVA of RQLKey
	QPUnsolicitedWriteRecv CreateQPFlags = 1 << 2 // a write with immediate consumes no receive
	QPSQReqID64            CreateQPFlags = 1 << 3 // sends carry 64-bit request ids
)

// CreateQP is the command CREATE_QP (struct efa_admin_create_qp_cmd). The ring
// sizes are in bytes, the depths in entries; an entry has size/depth bytes.
type CreateQP struct {
	PD         uint16
	Type       QPType
	Flags      CreateQPFlags
	SQBaseAddr uint64 // not used when the send ring is in the device (LLQ)
	RQBaseAddr uint64
	SendCQ     uint32
	RecvCQ     uint32
	SQLKey     uint32
	RQLKey     uint32
	// struct efa_admin_qp_alloc_size
	SQRingSize   uint32
	SQDepth      uint32
	RQRingSize   uint32
	RQDepth      uint32
	UAR          uint16
	ServiceLevel uint8
}

const SizeCreateQP = 60

func (c *CreateQP) Encode(b []byte) {
	_ = b[SizeCreateQP-1]
	le.PutUint16(b, c.PD)
	b[2] = byte(c.Type)
	b[3] = byte(c.Flags)
	le.PutUint64(b[4:], c.SQBaseAddr)
	le.PutUint64(b[12:], c.RQBaseAddr)
	le.PutUint32(b[20:], c.SendCQ)
	le.PutUint32(b[24:], c.RecvCQ)
	le.PutUint32(b[28:], c.SQLKey)
	le.PutUint32(b[32:], c.RQLKey)
	le.PutUint32(b[36:], c.SQRingSize)
	le.PutUint32(b[40:], c.SQDepth)
	le.PutUint32(b[44:], c.RQRingSize)
	le.PutUint32(b[48:], c.RQDepth)
	le.PutUint16(b[52:], c.UAR)
	b[54] = c.ServiceLevel
	b[55] = 0
	le.PutUint32(b[56:], 0)
}

func (c *CreateQP) Decode(b []byte) {
	_ = b[SizeCreateQP-1]
	c.PD = le.Uint16(b)
	c.Type = QPType(b[2])
	c.Flags = CreateQPFlags(b[3])
	c.SQBaseAddr = le.Uint64(b[4:])
	c.RQBaseAddr = le.Uint64(b[12:])
	c.SendCQ = le.Uint32(b[20:])
	c.RecvCQ = le.Uint32(b[24:])
	c.SQLKey = le.Uint32(b[28:])
	c.RQLKey = le.Uint32(b[32:])
	c.SQRingSize = le.Uint32(b[36:])
	c.SQDepth = le.Uint32(b[40:])
	c.RQRingSize = le.Uint32(b[44:])
	c.RQDepth = le.Uint32(b[48:])
	c.UAR = le.Uint16(b[52:])
	c.ServiceLevel = b[54]
}

// CreateQPResp answers CREATE_QP (struct efa_admin_create_qp_resp).
type CreateQPResp struct {
	Handle    uint32 // what later commands name the queue pair by
	QPNum     uint16
	SendSubCQ uint16
	RecvSubCQ uint16
	SQDB      uint32 // byte offset in the doorbell BAR
	RQDB      uint32 // byte offset in the doorbell BAR
	LLQ       uint32 // byte offset of the send ring in BAR 2
}

const SizeCreateQPResp = 24

func (r *CreateQPResp) Encode(b []byte) {
	_ = b[SizeCreateQPResp-1]
	le.PutUint32(b, r.Handle)
	le.PutUint16(b[4:], r.QPNum)
	le.PutUint16(b[6:], 0)
	le.PutUint16(b[8:], r.SendSubCQ)
	le.PutUint16(b[10:], r.RecvSubCQ)
	le.PutUint32(b[12:], r.SQDB)
	le.PutUint32(b[16:], r.RQDB)
	le.PutUint32(b[20:], r.LLQ)
}

func (r *CreateQPResp) Decode(b []byte) {
	_ = b[SizeCreateQPResp-1]
	r.Handle = le.Uint32(b)
	r.QPNum = le.Uint16(b[4:])
	r.SendSubCQ = le.Uint16(b[8:])
	r.RecvSubCQ = le.Uint16(b[10:])
	r.SQDB = le.Uint32(b[12:])
	r.RQDB = le.Uint32(b[16:])
	r.LLQ = le.Uint32(b[20:])
}

// ModifyMask says which fields of ModifyQP count.
type ModifyMask uint32

const (
	ModifyState                ModifyMask = 1 << 0
	ModifyCurState             ModifyMask = 1 << 1
	ModifyQKey                 ModifyMask = 1 << 2
	ModifySQPSN                ModifyMask = 1 << 3
	ModifySQDrainedAsyncNotify ModifyMask = 1 << 4
	ModifyRNRRetry             ModifyMask = 1 << 5
)

// ModifyQP is the command MODIFY_QP (struct efa_admin_modify_qp_cmd). Its
// response has no payload.
type ModifyQP struct {
	Mask                 ModifyMask
	Handle               uint32
	State                QPState
	CurState             QPState // the state to start from
	QKey                 uint32
	SQPSN                uint32
	SQDrainedAsyncNotify uint8
	RNRRetry             uint8 // SRD only; 7 retries for ever
}

const SizeModifyQP = 28

func (c *ModifyQP) Encode(b []byte) {
	_ = b[SizeModifyQP-1]
	le.PutUint32(b, uint32(c.Mask))
	le.PutUint32(b[4:], c.Handle)
	le.PutUint32(b[8:], uint32(c.State))
	le.PutUint32(b[12:], uint32(c.CurState))
	le.PutUint32(b[16:], c.QKey)
	le.PutUint32(b[20:], c.SQPSN)
	b[24] = c.SQDrainedAsyncNotify
	b[25] = c.RNRRetry
	le.PutUint16(b[26:], 0)
}

func (c *ModifyQP) Decode(b []byte) {
	_ = b[SizeModifyQP-1]
	c.Mask = ModifyMask(le.Uint32(b))
	c.Handle = le.Uint32(b[4:])
	c.State = QPState(le.Uint32(b[8:]))
	c.CurState = QPState(le.Uint32(b[12:]))
	c.QKey = le.Uint32(b[16:])
	c.SQPSN = le.Uint32(b[20:])
	c.SQDrainedAsyncNotify = b[24]
	c.RNRRetry = b[25]
}

// QueryQP is the command QUERY_QP (struct efa_admin_query_qp_cmd).
type QueryQP struct{ Handle uint32 }

const SizeQueryQP = 4

func (c *QueryQP) Encode(b []byte) { le.PutUint32(b, c.Handle) }
func (c *QueryQP) Decode(b []byte) { c.Handle = le.Uint32(b) }

// QueryQPResp answers QUERY_QP (struct efa_admin_query_qp_resp).
type QueryQPResp struct {
	State      QPState
	QKey       uint32
	SQPSN      uint32
	SQDraining uint8
	RNRRetry   uint8
}

const SizeQueryQPResp = 16

func (r *QueryQPResp) Encode(b []byte) {
	_ = b[SizeQueryQPResp-1]
	le.PutUint32(b, uint32(r.State))
	le.PutUint32(b[4:], r.QKey)
	le.PutUint32(b[8:], r.SQPSN)
	b[12] = r.SQDraining
	b[13] = r.RNRRetry
	le.PutUint16(b[14:], 0)
}

func (r *QueryQPResp) Decode(b []byte) {
	_ = b[SizeQueryQPResp-1]
	r.State = QPState(le.Uint32(b))
	r.QKey = le.Uint32(b[4:])
	r.SQPSN = le.Uint32(b[8:])
	r.SQDraining = b[12]
	r.RNRRetry = b[13]
}

// DestroyQP is the command DESTROY_QP (struct efa_admin_destroy_qp_cmd). Its
// response has no payload.
type DestroyQP struct{ Handle uint32 }

const SizeDestroyQP = 4

func (c *DestroyQP) Encode(b []byte) { le.PutUint32(b, c.Handle) }
func (c *DestroyQP) Decode(b []byte) { c.Handle = le.Uint32(b) }
