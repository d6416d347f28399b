package efa

import "fmt"

// Status is how a work request ended (enum efa_io_comp_status of rdma-core 65's
// efa_io_defs.h).
type Status uint8

const (
	StatusOK              Status = 0
	StatusFlushed         Status = 1
	StatusQPInternal      Status = 2
	StatusUnsupportedOp   Status = 3
	StatusInvalidAH       Status = 4
	StatusInvalidLKey     Status = 5
	StatusBadLength       Status = 6
	StatusRemoteAddress   Status = 7
	StatusRemoteAbort     Status = 8
	StatusRemoteBadQPN    Status = 9
	StatusRemoteNotReady  Status = 10
	StatusRemoteBadLength Status = 11
	StatusRemoteBadStatus Status = 12
	StatusUnresponsive    Status = 13
	StatusUnknownPeer     Status = 14
	StatusUnreachable     Status = 15
	StatusFeatureMismatch Status = 18
)

// statusText gives the header's own name, which is how these are searched for,
// and what it usually means.
var statusText = [...]string{
	StatusOK:              "success",
	StatusFlushed:         "FLUSHED: not done, the endpoint went to the error state or is being closed",
	StatusQPInternal:      "LOCAL_ERROR_QP_INTERNAL_ERROR: the device failed the queue pair",
	StatusUnsupportedOp:   "LOCAL_ERROR_UNSUPPORTED_OP: the device or the endpoint's type lacks the operation",
	StatusInvalidAH:       "LOCAL_ERROR_INVALID_AH: the address handle is gone, or of another domain",
	StatusInvalidLKey:     "LOCAL_ERROR_INVALID_LKEY: a local key or range does not belong to a region of this domain",
	StatusBadLength:       "LOCAL_ERROR_BAD_LENGTH: more bytes than a message (the MTU) or an RDMA request may have",
	StatusRemoteAddress:   "REMOTE_ERROR_BAD_ADDRESS: the peer's key, range or permission is wrong",
	StatusRemoteAbort:     "REMOTE_ERROR_ABORT: the peer gave up the operation",
	StatusRemoteBadQPN:    "REMOTE_ERROR_BAD_DEST_QPN: the peer has no such endpoint, it is in error, or the Q_Key differs",
	StatusRemoteNotReady:  "REMOTE_ERROR_RNR: the peer posted no receive in time",
	StatusRemoteBadLength: "REMOTE_ERROR_BAD_LENGTH: the peer's receive is shorter than the message",
	StatusRemoteBadStatus: "REMOTE_ERROR_BAD_STATUS: an answer that makes no sense",
	StatusUnresponsive:    "LOCAL_ERROR_UNRESP_REMOTE: the peer answered before and does no more",
	StatusUnknownPeer:     "REMOTE_ERROR_UNKNOWN_PEER: the peer has no address handle of this device, which RDMA needs",
	StatusUnreachable:     "LOCAL_ERROR_UNREACH_REMOTE: the peer never answered",
	StatusFeatureMismatch: "REMOTE_ERROR_FEATURE_MISMATCH: the peer's device lacks what the operation needs",
}

func (s Status) String() string {
	if int(s) < len(statusText) && statusText[s] != "" {
		return statusText[s]
	}
	return fmt.Sprintf("status %d, which rdma-core 65 does not know", uint8(s))
}

// Op is what ended: the queue's type in the upper and the operation in the lower
// half, as a completion's flags have them (enum efa_io_queue_type and
// efa_io_send_op_type).
type Op uint8

const (
	OpSend      Op = 0x10
	OpRead      Op = 0x11
	OpWrite     Op = 0x12
	OpRecv      Op = 0x20
	OpRecvWrite Op = 0x22 // a peer's write with immediate
)

func (o Op) String() string {
	switch o {
	case OpSend:
		return "send"
	case OpRead:
		return "read"
	case OpWrite:
		return "write"
	case OpRecv:
		return "receive"
	case OpRecvWrite:
		return "receive of a write"
	}
	return fmt.Sprintf("operation %#x", uint8(o))
}

// Flags qualify a completion.
type Flags uint8

const (
	WithImm     Flags = 1 << 3 // Imm counts
	Unsolicited Flags = 1 << 7 // a write with immediate that took no receive; ID is 0
)

// UnknownAH is the address handle of a message whose sender this device has
// none of.
const UnknownAH = 0xffff

// Completion is one ended work request. After an error only ID, QPN, Status and
// Op hold. On the library's path a read, and whatever failed, is an OpSend: the
// library does not tell.
type Completion struct {
	ID     uint64 // as it was posted
	Bytes  uint32 // received; 0 for what was sent, written or read
	Imm    uint32 // with WithImm
	QPN    uint16 // of this side
	SrcQPN uint16 // of the peer, for receives
	AH     uint16 // number of this side's handle of the peer, for receives; see UnknownAH
	Status Status
	Op     Op
	Flags  Flags
	SGID   GID // the sender's where AH is UnknownAH, of queues made with CQOptions.SGID
}

// Err is nil for success, else a *CompletionError.
func (c *Completion) Err() error {
	if c.Status == StatusOK {
		return nil
	}
	return &CompletionError{ID: c.ID, Op: c.Op, Status: c.Status, QPN: c.QPN}
}

// CompletionError is a work request that ended in error.
type CompletionError struct {
	ID     uint64
	Op     Op
	Status Status
	QPN    uint16
}

func (e *CompletionError) Error() string {
	return fmt.Sprintf("%v, work request %d on qp %d: %v", e.Op, e.ID, e.QPN, e.Status)
}

// Unwrap is ErrFlushed for a request that was never carried out because its
// endpoint failed, and nil else.
func (e *CompletionError) Unwrap() error {
	if e.Status == StatusFlushed {
		return ErrFlushed
	}
	return nil
}
