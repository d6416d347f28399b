package wire

// CounterEvents are what a queue pair's counter can count.
type CounterEvents uint32

const (
	CountSend        CounterEvents = 1 << 0
	CountSendErr     CounterEvents = 1 << 1
	CountRecv        CounterEvents = 1 << 2
	CountRecvErr     CounterEvents = 1 << 3
	CountRead        CounterEvents = 1 << 4
	CountReadErr     CounterEvents = 1 << 5
	CountWrite       CounterEvents = 1 << 6
	CountWriteErr    CounterEvents = 1 << 7
	CountRemoteRead  CounterEvents = 1 << 8
	CountRemoteWrite CounterEvents = 1 << 9
)

// CreateEventCounter is the command CREATE_EVENT_COUNTER: the device keeps a
// 64-bit count at an address (struct efa_admin_create_event_counter_cmd).
type CreateEventCounter struct {
	UAR  uint16
	Addr uint64
}

const SizeCreateEventCounter = 12

func (c *CreateEventCounter) Encode(b []byte) {
	_ = b[SizeCreateEventCounter-1]
	le.PutUint32(b, uint32(c.UAR))
	le.PutUint64(b[4:], c.Addr)
}

func (c *CreateEventCounter) Decode(b []byte) {
	_ = b[SizeCreateEventCounter-1]
	c.UAR = le.Uint16(b)
	c.Addr = le.Uint64(b[4:])
}

// CreateEventCounterResp answers CREATE_EVENT_COUNTER (struct
// efa_admin_create_event_counter_resp).
type CreateEventCounterResp struct{ Handle uint32 }

const SizeCreateEventCounterResp = 8

func (r *CreateEventCounterResp) Encode(b []byte) { le.PutUint64(b, uint64(r.Handle)) }
func (r *CreateEventCounterResp) Decode(b []byte) {
	_ = b[SizeCreateEventCounterResp-1]
	r.Handle = le.Uint32(b)
}

// DestroyEventCounter is the command DESTROY_EVENT_COUNTER (struct
// efa_admin_destroy_event_counter_cmd). Its response has no payload.
type DestroyEventCounter struct{ Handle uint32 }

const SizeDestroyEventCounter = 4

func (c *DestroyEventCounter) Encode(b []byte) { le.PutUint32(b, c.Handle) }
func (c *DestroyEventCounter) Decode(b []byte) { c.Handle = le.Uint32(b) }

// CounterAttachType says what a counter is attached to (enum
// efa_admin_event_counter_attach_type).
type CounterAttachType uint8

const CounterAttachQPEvents CounterAttachType = 0

// AttachEventCounter is the command ATTACH_EVENT_COUNTER and also
// DETACH_EVENT_COUNTER (struct efa_admin_attach_detach_event_counter_cmd). The
// responses have no payload.
type AttachEventCounter struct {
	Handle uint32
	Type   CounterAttachType
	// struct efa_admin_event_counter_attach_qp_events
	QPHandle uint32
	Events   CounterEvents
}

const SizeAttachEventCounter = 16

func (c *AttachEventCounter) Encode(b []byte) {
	_ = b[SizeAttachEventCounter-1]
	le.PutUint32(b, c.Handle)
	le.PutUint32(b[4:], uint32(c.Type))
	le.PutUint32(b[8:], c.QPHandle)
	le.PutUint32(b[12:], uint32(c.Events))
}

func (c *AttachEventCounter) Decode(b []byte) {
	_ = b[SizeAttachEventCounter-1]
	c.Handle = le.Uint32(b)
	c.Type = CounterAttachType(b[4])
	c.QPHandle = le.Uint32(b[8:])
	c.Events = CounterEvents(le.Uint32(b[12:]))
}

// CounterOp is what MODIFY_EVENT_COUNTER does (enum
// efa_admin_event_counter_modify_ops).
type CounterOp uint8

const (
	CounterSet CounterOp = 0
	CounterAdd CounterOp = 1
)

// ModifyEventCounter is the command MODIFY_EVENT_COUNTER (struct
// efa_admin_modify_event_counter_cmd). Its response has no payload.
type ModifyEventCounter struct {
	Handle    uint32
	Operation CounterOp
	Value     uint64
}

const SizeModifyEventCounter = 20

func (c *ModifyEventCounter) Encode(b []byte) {
	_ = b[SizeModifyEventCounter-1]
	le.PutUint32(b, c.Handle)
	le.PutUint64(b[4:], uint64(c.Operation))
	le.PutUint64(b[12:], c.Value)
}

func (c *ModifyEventCounter) Decode(b []byte) {
	_ = b[SizeModifyEventCounter-1]
	c.Handle = le.Uint32(b)
	c.Operation = CounterOp(b[4])
	c.Value = le.Uint64(b[12:])
}
