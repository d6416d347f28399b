package verbs

import (
	"fmt"
	"unsafe"
)

// QPType is a queue pair's service (enum ibv_qp_type).
type QPType uint32

const (
	TypeRC        QPType = 2
	TypeUC        QPType = 3
	TypeUD        QPType = 4
	TypeRawPacket QPType = 8
	TypeXRCSend   QPType = 9
	TypeXRCRecv   QPType = 10
	TypeDriver    QPType = 0xff
)

func (t QPType) String() string {
	switch t {
	case TypeRC:
		return "RC"
	case TypeUC:
		return "UC"
	case TypeUD:
		return "UD"
	case TypeRawPacket:
		return "RAW_PACKET"
	case TypeXRCSend:
		return "XRC_SEND"
	case TypeXRCRecv:
		return "XRC_RECV"
	case TypeDriver:
		return "DRIVER"
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// QPOptions describe a queue pair to be made. Zero fields take the default in
// the comment.
type QPOptions struct {
	Type QPType // default TypeRC

	CQ     *CQ  // completions of both queues, unless RecvCQ is set
	RecvCQ *CQ  // completions of receives
	SRQ    *SRQ // receives come from here instead of an own queue

	MaxSend    int // requests in flight; default 128
	MaxRecv    int // default 128, 0 with an SRQ
	MaxSendSGE int // buffers a request; default 1
	MaxRecvSGE int // default 1
	MaxInline  int // bytes copied at posting time; default 0

	SignalAll bool // every send completes, whatever its flags

	// Extended asks for the ibv_wr_* interface, for the operations named.
	// Batches then post through it; posting looks the same.
	Extended SendOps

	Port   int      // default 1
	GID    GIDEntry // source GID; default Device.BestGID of the port
	PKey   int      // index into the port's P_Key table
	Access Access   // what the peer may do; default RemoteWrite|RemoteRead|RemoteAtomic where the type has them

	XRCD *XRCD // XRC_RECV: the domain, in place of a protection domain's queues

	// The rest is for raw packets and special cases; see ibv_create_qp_ex(3).
	Flags     QPFlags
	MaxTSO    uint16    // bytes of header that a TSO request may carry
	IndTable  *IndTable // receive side scaling: packets go to the table's work queues
	RXHash    RXHash    // how they are spread
	SourceQPN uint32    // sent as the source, with CreateSourceQPN
	// Create makes the queue pair in place of ibv_create_qp_ex, for drivers'
	// own verbs. It gets the struct ibv_context and the filled struct
	// ibv_qp_init_attr_ex, and gives a struct ibv_qp.
	Create func(ctx, attr unsafe.Pointer) (unsafe.Pointer, error)
}

// QPFlags are rare properties of a queue pair (enum ibv_qp_create_flags).
type QPFlags uint32

const (
	CreateBlockMulticastLoopback QPFlags = 1 << 1
	CreateScatterFCS             QPFlags = 1 << 8
	CreateCVLANStripping         QPFlags = 1 << 9
	CreateSourceQPN              QPFlags = 1 << 10
	CreatePCIWriteEndPadding     QPFlags = 1 << 11
)

// SendOps are operations for the ibv_wr_* interface
// (enum ibv_qp_create_send_ops_flags).
type SendOps uint64

func (o SendOps) String() string {
	return bitNames(uint64(o), []bitName{
		{1 << 0, "RDMA_WRITE"}, {1 << 1, "RDMA_WRITE_WITH_IMM"}, {1 << 2, "SEND"}, {1 << 3, "SEND_WITH_IMM"},
		{1 << 4, "RDMA_READ"}, {1 << 5, "ATOMIC_CMP_AND_SWP"}, {1 << 6, "ATOMIC_FETCH_AND_ADD"}, {1 << 7, "LOCAL_INV"},
		{1 << 8, "BIND_MW"}, {1 << 9, "SEND_WITH_INV"}, {1 << 10, "TSO"}, {1 << 11, "FLUSH"}, {1 << 12, "ATOMIC_WRITE"},
	})
}

const (
	OpWrite         SendOps = 1 << 0
	OpWriteImm      SendOps = 1 << 1
	OpSend          SendOps = 1 << 2
	OpSendImm       SendOps = 1 << 3
	OpRead          SendOps = 1 << 4
	OpCompareSwap   SendOps = 1 << 5
	OpFetchAdd      SendOps = 1 << 6
	OpLocalInv      SendOps = 1 << 7
	OpBindMW        SendOps = 1 << 8
	OpSendInv       SendOps = 1 << 9
	OpTSO           SendOps = 1 << 10
	OpFlush         SendOps = 1 << 11
	OpAtomicWrite   SendOps = 1 << 12
	opsReliableData         = OpWrite | OpWriteImm | OpSend | OpSendImm | OpRead | OpCompareSwap | OpFetchAdd
)

// opOf maps a request's opcode to the operation that allows it.
var opOf = [...]SendOps{
	Write: OpWrite, WriteImm: OpWriteImm, Send: OpSend, SendImm: OpSendImm, Read: OpRead,
	CompareSwap: OpCompareSwap, FetchAdd: OpFetchAdd, LocalInv: OpLocalInv, BindMW: OpBindMW,
	SendInv: OpSendInv, TSO: OpTSO, Flush: OpFlush, AtomicWrite: OpAtomicWrite,
}

// OpsUD are the operations that every datagram queue pair has.
const OpsUD = OpSend | OpSendImm

// OpsRC are the operations that every reliable connection has.
const OpsRC = opsReliableData

func (o *QPOptions) defaults() {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	if o.Type == 0 {
		o.Type = TypeRC
	}
	if o.RecvCQ == nil {
		o.RecvCQ = o.CQ
	}
	set(&o.Port, 1)
	set(&o.MaxSend, 128)
	set(&o.MaxSendSGE, 1)
	if o.SRQ == nil {
		set(&o.MaxRecv, 128)
		set(&o.MaxRecvSGE, 1)
	}
	if o.Access == 0 {
		switch o.Type {
		case TypeRC, TypeXRCRecv, TypeXRCSend:
			o.Access = RemoteWrite | RemoteRead | RemoteAtomic
		case TypeUC:
			o.Access = RemoteWrite
		}
	}
}

// extended tells whether the options need ibv_create_qp_ex.
func (o *QPOptions) extended() bool {
	return o.Extended != 0 || o.Type == TypeXRCRecv || o.Type == TypeXRCSend ||
		o.Flags != 0 || o.MaxTSO != 0 || o.IndTable != nil || o.Create != nil
}
