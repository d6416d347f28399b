package wire

// EQEvents says which events an event queue reports.
type EQEvents uint32

const EQCompletionEvents EQEvents = 1 << 0

// CreateEQ is the command CREATE_EQ (struct efa_admin_create_eq_cmd).
type CreateEQ struct {
	Depth      uint16 // entries, a power of two
	MSIXVector uint8
	EntryWords uint8 // 5 bits, in units of 4 bytes: SizeEQE / 4
	BaseAddr   uint64
	Events     EQEvents
}

const SizeCreateEQ = 20

func (c *CreateEQ) Encode(b []byte) {
	_ = b[SizeCreateEQ-1]
	le.PutUint16(b, c.Depth)
	b[2] = c.MSIXVector
	b[3] = c.EntryWords & 0x1f
	le.PutUint64(b[4:], c.BaseAddr)
	le.PutUint32(b[12:], uint32(c.Events))
	le.PutUint32(b[16:], 0)
}

func (c *CreateEQ) Decode(b []byte) {
	_ = b[SizeCreateEQ-1]
	c.Depth = le.Uint16(b)
	c.MSIXVector = b[2]
	c.EntryWords = b[3] & 0x1f
	c.BaseAddr = le.Uint64(b[4:])
	c.Events = EQEvents(le.Uint32(b[12:]))
}

// CreateEQResp answers CREATE_EQ (struct efa_admin_create_eq_resp).
type CreateEQResp struct{ EQN uint16 }

const SizeCreateEQResp = 4

func (r *CreateEQResp) Encode(b []byte) { le.PutUint32(b, uint32(r.EQN)) }
func (r *CreateEQResp) Decode(b []byte) {
	_ = b[SizeCreateEQResp-1]
	r.EQN = le.Uint16(b)
}

// DestroyEQ is the command DESTROY_EQ (struct efa_admin_destroy_eq_cmd). Its
// response has no payload.
type DestroyEQ struct{ EQN uint16 }

const SizeDestroyEQ = 4

func (c *DestroyEQ) Encode(b []byte) { le.PutUint32(b, uint32(c.EQN)) }
func (c *DestroyEQ) Decode(b []byte) {
	_ = b[SizeDestroyEQ-1]
	c.EQN = le.Uint16(b)
}

// EQEType is the kind of an event (enum efa_admin_eqe_event_type).
type EQEType uint8

const EQECompletion EQEType = 0

// EQE is an entry of an event queue (struct efa_admin_eqe). Phase begins at 1 and
// flips at each wrap; it lies in the first word, which the device writes last (see
// EQEWord).
type EQE struct {
	Phase bool
	Type  EQEType
	CQN   uint16 // with EQECompletion
}

const SizeEQE = 16

func (e *EQE) Encode(b []byte) {
	_ = b[SizeEQE-1]
	le.PutUint32(b, EQEWord(e.Phase, e.Type))
	le.PutUint32(b[4:], 0)
	le.PutUint32(b[8:], uint32(e.CQN))
	le.PutUint32(b[12:], 0)
}

func (e *EQE) Decode(b []byte) {
	_ = b[SizeEQE-1]
	w := le.Uint32(b)
	e.Phase = w&1 != 0
	e.Type = EQEType(w >> 1)
	e.CQN = le.Uint16(b[8:])
}

// EQEWord gives an event's first word.
func EQEWord(phase bool, t EQEType) uint32 { return bit(phase, 0) | uint32(t)<<1 }
