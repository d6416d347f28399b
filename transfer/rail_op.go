package transfer

import (
	"errors"
	"fmt"
)

// MessageSize is the most that a message holds, in bytes.
const MessageSize = 4096

// MinMessage is the least that a message holds: rails whose transport has no
// immediate data send shorter ones of their own.
const MinMessage = 16

// OpKind is what an operation does.
type OpKind uint8

const (
	// OpWrite writes the local bytes to the remote place.
	OpWrite OpKind = iota + 1
	// OpNotify writes the local bytes, if there are any, and then hands the
	// peer the immediate: whoever polled it finds these bytes in place. That is
	// so of one request, whatever its packets' order (InfiniBand and RoCE raise
	// the immediate with the last packet, behind the data; EFA when all packets
	// have been placed), and of no other request before it. Where the transport has none (iWARP) the rail sends a
	// message of its own, which the peer's rail turns back into a notice.
	OpNotify
	// OpSend sends the local bytes, MinMessage to MessageSize of them.
	OpSend
	// OpRead reads the remote place into the local bytes, at least one. Where it
	// is Done they are there. It takes Info.Reads, of both sides.
	OpRead
)

// maxID bounds Op.ID: rails keep notes of their own in the other bits.
const maxID = 1<<48 - 1

// Op is one operation.
type Op struct {
	Kind   OpKind
	Peer   Peer
	Imm    uint32 // OpNotify
	Local  Local
	Remote Remote // of all but OpSend
	ID     uint64 // comes back with the completion; 48 bits
}

// CompletionKind is what a completion tells.
type CompletionKind uint8

const (
	// Done: the operation ID was carried out. What is posted from now on finds
	// a write's bytes in the peer's memory.
	Done CompletionKind = iota + 1
	// Failed: the operation ID was not carried out, or not known to be. Err
	// is the cause once for each peer, and ErrFlushed for everything that
	// falls with it.
	Failed
	// Lost: the peer is gone and no operation of this side's has told it
	// already. Err is the cause.
	Lost
	// Message: the peer sent Data.
	Message
	// Notice: the peer sent Imm.
	Notice
)

// Completion is what Poll gives.
type Completion struct {
	Kind CompletionKind
	Peer Peer
	Imm  uint32
	ID   uint64
	Data []byte
	Err  error
}

// errNoReads: the transport or the device cannot.
var errNoReads = fmt.Errorf("this rail has no reads: look at Info.Reads: %w", errors.ErrUnsupported)

// Aim sets both places of an operation: length bytes of a region from offset on,
// and the peer's region from there on, by one of its keys. It is for rails of one
// NIC, and costs less than At does on both sides.
func (op *Op) Aim(r *Region, offset uint64, length uint32, to *Descriptor, there uint64, key uint32) {
	l := &op.Local
	l.Addr, l.Length, l.Key = r.addr+offset, length, r.lkeys[0]
	l.bad = offset > r.length || uint64(length) > r.length-offset
	op.Remote.Addr, op.Remote.left, op.Remote.Key = 0, 0, 0
	if there <= to.Length {
		op.Remote.Addr, op.Remote.left, op.Remote.Key = to.Addr+there, to.Length-there, key
	}
}

// check finds what is wrong with an operation before any rail sees it.
func (op *Op) check() error {
	switch {
	case op.ID > maxID:
		return errors.New("operation ID of more than 48 bits")
	case op.Local.bad:
		return ErrRange
	}
	switch op.Kind {
	case OpRead:
		if op.Local.Length == 0 {
			return errors.New("a read has at least one byte")
		}
		fallthrough
	case OpWrite, OpNotify:
		if uint64(op.Local.Length) > op.Remote.left {
			return ErrRange
		}
	case OpSend:
		if op.Local.Length < MinMessage || op.Local.Length > MessageSize {
			return errors.New("a message has 16 to 4096 bytes")
		}
	default:
		return errors.New("unknown kind of operation")
	}
	return nil
}
