package verbs

import (
	"fmt"
	"math/bits"
)

// Status is how a work request ended (enum ibv_wc_status).
type Status uint32

const (
	StatusSuccess Status = iota
	StatusLocalLength
	StatusLocalQPOperation
	StatusLocalEECOperation
	StatusLocalProtection
	StatusFlushed
	StatusMWBind
	StatusBadResponse
	StatusLocalAccess
	StatusRemoteInvalidRequest
	StatusRemoteAccess
	StatusRemoteOperation
	StatusRetryExceeded
	StatusRNRRetryExceeded
	StatusLocalRDDViolation
	StatusRemoteInvalidRDRequest
	StatusRemoteAbort
	StatusInvalidEECN
	StatusInvalidEECState
	StatusFatal
	StatusResponseTimeout
	StatusGeneral
	StatusTagMatching
	StatusTagMatchingRendezvous
)

// statusText gives the verbs' own name and what it usually means; the names
// are how these are searched for.
var statusText = [...]string{
	"success",
	"LOC_LEN_ERR: message longer than the buffers, or than the port allows",
	"LOC_QP_OP_ERR: the queue pair cannot do that operation",
	"LOC_EEC_OP_ERR",
	"LOC_PROT_ERR: a local key or range does not belong to a region of this domain",
	"WR_FLUSH_ERR: not done, the queue pair was in error already; the first error tells why",
	"MW_BIND_ERR: the window could not be bound",
	"BAD_RESP_ERR: an answer that makes no sense",
	"LOC_ACCESS_ERR: the local region does not allow that access",
	"REM_INV_REQ_ERR: the peer refused the request: no room for its length, or not allowed on its queue pair",
	"REM_ACCESS_ERR: the peer's key, range or permission is wrong",
	"REM_OP_ERR: the peer could not complete the request",
	"RETRY_EXC_ERR: the peer does not answer: it is gone, or its queue pair is not ready",
	"RNR_RETRY_EXC_ERR: the peer posted no receive in time",
	"LOC_RDD_VIOL_ERR",
	"REM_INV_RD_REQ_ERR",
	"REM_ABORT_ERR: the peer aborted the operation",
	"INV_EECN_ERR",
	"INV_EEC_STATE_ERR",
	"FATAL_ERR: the device failed",
	"RESP_TIMEOUT_ERR: the peer does not answer",
	"GENERAL_ERR",
	"TM_ERR",
	"TM_RNDV_INCOMPLETE",
}

func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// CompletionOpcode is what ended (enum ibv_wc_opcode).
type CompletionOpcode uint32

const (
	CompletedSend          CompletionOpcode = 0
	CompletedWrite         CompletionOpcode = 1
	CompletedRead          CompletionOpcode = 2
	CompletedCompareSwap   CompletionOpcode = 3
	CompletedFetchAdd      CompletionOpcode = 4
	CompletedBindMW        CompletionOpcode = 5
	CompletedLocalInv      CompletionOpcode = 6
	CompletedTSO           CompletionOpcode = 7
	CompletedFlush         CompletionOpcode = 8
	CompletedAtomicWrite   CompletionOpcode = 9
	CompletedRecv          CompletionOpcode = 128
	CompletedRecvWriteImm  CompletionOpcode = 129
	CompletedDriverSpecial CompletionOpcode = 135
)

// CompletionFlags qualify a completion (enum ibv_wc_flags).
type CompletionFlags uint32

const (
	WithGRH     CompletionFlags = 1 << 0 // UD: 40 bytes of header precede the data
	WithImm     CompletionFlags = 1 << 1
	IPChecksum  CompletionFlags = 1 << 2
	Invalidated CompletionFlags = 1 << 3 // the peer invalidated an rkey of ours
)

// Completion is one ended work request (struct ibv_wc). After an error only
// ID, Status, QPN and VendorErr hold.
type Completion struct {
	ID           uint64
	Status       Status
	Opcode       CompletionOpcode
	VendorErr    uint32
	Bytes        uint32 // received, or read; not set for sends and writes
	imm          uint32
	QPN          uint32
	SrcQP        uint32 // UD
	Flags        CompletionFlags
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	_            [2]byte
}

// Imm is the immediate that came with the message, in host order.
func (c *Completion) Imm() (uint32, bool) {
	return bigEndian(c.imm), c.Flags&WithImm != 0
}

// InvalidatedRKey is the rkey that the peer's message invalidated.
func (c *Completion) InvalidatedRKey() (uint32, bool) {
	return c.imm, c.Flags&Invalidated != 0
}

// bigEndian converts between host and network order, on hosts that are
// little-endian as amd64 and arm64 are.
func bigEndian(v uint32) uint32 { return bits.ReverseBytes32(v) }

// Err is nil for success, else a *CompletionError.
func (c *Completion) Err() error {
	if c.Status == StatusSuccess {
		return nil
	}
	return &CompletionError{ID: c.ID, Status: c.Status, QPN: c.QPN, VendorErr: c.VendorErr}
}

// CompletionError is a work request that ended in error.
type CompletionError struct {
	ID        uint64
	Status    Status
	QPN       uint32
	VendorErr uint32
}

func (e *CompletionError) Error() string {
	s := fmt.Sprintf("work request %d on qp %d: %v", e.ID, e.QPN, e.Status)
	if e.VendorErr != 0 {
		s += fmt.Sprintf(" (vendor error %#x)", e.VendorErr)
	}
	return s
}
