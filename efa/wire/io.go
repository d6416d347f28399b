package wire

import "fmt"

// Limits of work entries (efa_io_defs.h; MaxInlineWide from rdma-core 65).
const (
	MaxSendBufs   = 2  // EFA_IO_TX_DESC_NUM_BUFS
	MaxRDMABufs   = 1  // EFA_IO_TX_DESC_NUM_RDMA_BUFS
	MaxInline     = 32 // bytes, in a TxEntry
	MaxInlineWide = 80 // bytes, in a WideTxEntry
	ImmDataSize   = 4
	InlinePBLSize = 1 // pages of a FastRegMR
)

// LKeyMask is what of a local key work entries carry.
const LKeyMask = 0xffffff

// UnknownAH in a receive completion says that no address handle names the sender.
const UnknownAH = 0xffff

// IOOp is the operation of a work entry and of its completion (enum
// efa_io_send_op_type).
type IOOp uint8

const (
	IOSend      IOOp = 0
	IORDMARead  IOOp = 1
	IORDMAWrite IOOp = 2
	IOFastReg   IOOp = 3
	IOFastInv   IOOp = 4
)

func (o IOOp) String() string {
	return name([]string{"SEND", "RDMA_READ", "RDMA_WRITE", "FAST_REG", "FAST_INV"}, int(o), "operation")
}

// QueueType is which of a queue pair's queues a completion belongs to (enum
// efa_io_queue_type).
type QueueType uint8

const (
	SendQueue QueueType = 1
	RecvQueue QueueType = 2
)

func (t QueueType) String() string { return name([]string{1: "send", "receive"}, int(t), "queue type") }

// CompStatus is how a work request ended (enum efa_io_comp_status).
type CompStatus uint8

const (
	CompOK                    CompStatus = 0
	CompFlushed               CompStatus = 1
	CompLocalQPInternalError  CompStatus = 2
	CompLocalUnsupportedOp    CompStatus = 3
	CompLocalInvalidAH        CompStatus = 4
	CompLocalInvalidLKey      CompStatus = 5
	CompLocalBadLength        CompStatus = 6
	CompRemoteBadAddress      CompStatus = 7
	CompRemoteAbort           CompStatus = 8
	CompRemoteBadDestQPN      CompStatus = 9
	CompRemoteRNR             CompStatus = 10
	CompRemoteBadLength       CompStatus = 11
	CompRemoteBadStatus       CompStatus = 12
	CompLocalUnresponsive     CompStatus = 13
	CompRemoteUnknownPeer     CompStatus = 14
	CompLocalUnreachable      CompStatus = 15
	CompRemoteFeatureMismatch CompStatus = 18
)

// String says what happened, in words.
func (s CompStatus) String() string {
	if int(s) < len(compNames) && compNames[s] != "" {
		return compNames[s]
	}
	return fmt.Sprintf("completion status %d", uint8(s))
}

var compNames = [...]string{
	CompOK:                    "success",
	CompFlushed:               "flushed: the queue pair is in error or was destroyed",
	CompLocalQPInternalError:  "internal error of the queue pair",
	CompLocalUnsupportedOp:    "operation not supported by the device or queue pair",
	CompLocalInvalidAH:        "invalid address handle",
	CompLocalInvalidLKey:      "local key is not registered, or does not cover the address",
	CompLocalBadLength:        "message too long",
	CompRemoteBadAddress:      "remote key is not registered, or does not cover the remote address",
	CompRemoteAbort:           "remote side reset the connection",
	CompRemoteBadDestQPN:      "remote queue pair does not exist or is in error",
	CompRemoteRNR:             "remote side is not ready: no receive is posted",
	CompRemoteBadLength:       "remote receive is too short for the message",
	CompRemoteBadStatus:       "unexpected status from the remote side",
	CompLocalUnresponsive:     "remote side stopped responding",
	CompRemoteUnknownPeer:     "remote side has no address handle of this device, which RDMA needs",
	CompLocalUnreachable:      "remote side never responded",
	CompRemoteFeatureMismatch: "remote side lacks a feature that this one uses",
}

// ProcessingHints are hints of a transmit entry (enum efa_io_processing_hint).
type ProcessingHints uint8

const HintBurstPPSSensitive ProcessingHints = 1 << 0 // optimise for throughput

// PBLMode says where a FastRegMR has its pages (enum efa_io_frwr_pbl_mode).
type PBLMode uint8

const (
	PBLInline PBLMode = 0
	PBLDirect PBLMode = 1
)
