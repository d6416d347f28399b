package transfer

import (
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
)

// opcodeOf is what an operation is to tracers. That a notice without immediate is a
// message is the transport's affair.
func opcodeOf(op *Op) uint32 {
	switch op.Kind {
	case OpWrite:
		return uint32(verbs.Write)
	case OpSend:
		return uint32(verbs.Send)
	case OpRead:
		return uint32(verbs.Read)
	}
	return uint32(verbs.WriteImm)
}

// verbsStatus says a status of EFA's in the words of libibverbs, which tracers know.
func verbsStatus(s efa.Status) uint32 {
	of := verbs.StatusGeneral
	switch s {
	case efa.StatusOK:
		of = verbs.StatusSuccess
	case efa.StatusFlushed:
		of = verbs.StatusFlushed
	case efa.StatusQPInternal, efa.StatusUnsupportedOp, efa.StatusInvalidAH:
		of = verbs.StatusLocalQPOperation
	case efa.StatusInvalidLKey:
		of = verbs.StatusLocalProtection
	case efa.StatusBadLength:
		of = verbs.StatusLocalLength
	case efa.StatusRemoteAddress:
		of = verbs.StatusRemoteAccess
	case efa.StatusRemoteAbort:
		of = verbs.StatusRemoteAbort
	case efa.StatusRemoteNotReady:
		of = verbs.StatusRNRRetryExceeded
	case efa.StatusRemoteBadQPN, efa.StatusRemoteBadLength, efa.StatusFeatureMismatch:
		of = verbs.StatusRemoteInvalidRequest
	case efa.StatusRemoteBadStatus:
		of = verbs.StatusBadResponse
	case efa.StatusUnresponsive, efa.StatusUnreachable, efa.StatusUnknownPeer:
		of = verbs.StatusRetryExceeded
	}
	return uint32(of)
}
