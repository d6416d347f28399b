package device

import (
	"encoding/binary"
	"fmt"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// What crosses a link: a greeting of each side, then frames of a header of
// linkHeader bytes, little-endian, and n bytes of payload. The format is this
// package's own.
const (
	linkMagic   = "PDEFALNK"
	linkVersion = 1
	linkHeader  = 64 // bytes
	// linkPiece is the most payload of a frame, bytes: a request is carried piece by
	// piece, so that neither side needs memory for all of it.
	linkPiece = 128 << 10
	// linkSlots is how many requests of a device a link carries at once. Each has a
	// place for its frame here and for its answer there, which bounds what is queued.
	linkSlots = 32
	// maxLinkDevices is the most devices that one side of a link may offer.
	maxLinkDevices = 32

	linkGreeting  = 16 // magic 8, version 2, devices 2, MTU 4 (bytes)
	linkMember    = 24 // GID 16, latency 8 (ns)
	maxLinkLatent = int64(10e9)
)

type frameKind uint8

const (
	frameRequest frameKind = iota + 1
	frameReply
)

type frameFlags uint8

const (
	frameImm      frameFlags = 1 << iota // the immediate is valid
	frameLast                            // with this piece the request is complete
	frameNotice                          // of a write whose bytes are placed: only its notice
	frameDatagram                        // UD
	allFrameFlags = frameDatagram<<1 - 1
)

// outcome is what became of a request at the far device.
type outcome uint8

const (
	outcomeAnswered outcome = iota // with a status
	outcomeNotReady                // no receive was posted
	outcomeSilence                 // the device is gone, stopped, or made silent by a fault
	outcomes
)

// linkFrame is a frame's header.
type linkFrame struct {
	kind  frameKind
	op    wire.IOOp
	flags frameFlags
	// slot is where the request's sender keeps it: the index of the sending device
	// in its side's greeting, times linkSlots, and one of its slots. A reply names
	// the slot of its request.
	slot uint16
	dst  uint16 // index of the target in its side's greeting
	seq  uint64 // counts a direction's frames; one that comes again was doubled
	// A request: total bytes of all of it, and of this piece the place and size. The
	// payload of a write or SEND follows it, that of a read the reply.
	total, offset, n uint32
	srcQP, destQP    uint16
	qkey, imm        uint32
	remote           wire.RemoteBuf // address and key of the whole request
	outcome          outcome
	status           wire.CompStatus
}

// payload is how many bytes follow the header.
func (h *linkFrame) payload() uint32 {
	if h.kind == frameRequest && h.op == wire.IORDMARead {
		return 0
	}
	return h.n
}

func (h *linkFrame) encode(b []byte) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(h.kind), byte(h.op), byte(h.flags), 0
	le.PutUint16(b[4:], h.slot)
	le.PutUint16(b[6:], h.dst)
	le.PutUint64(b[8:], h.seq)
	le.PutUint32(b[16:], h.total)
	le.PutUint32(b[20:], h.offset)
	le.PutUint32(b[24:], h.n)
	le.PutUint16(b[28:], h.srcQP)
	le.PutUint16(b[30:], h.destQP)
	le.PutUint32(b[32:], h.qkey)
	le.PutUint32(b[36:], h.imm)
	le.PutUint64(b[40:], h.remote.Addr)
	le.PutUint32(b[48:], h.remote.RKey)
	b[52], b[53] = byte(h.outcome), byte(h.status)
	clear(b[54:linkHeader])
}

// decode reads a header and checks it: whatever it holds, the payload is bounded and
// the piece lies within the request. mtu bounds SENDs.
func (h *linkFrame) decode(b []byte, mtu int) error {
	le := binary.LittleEndian
	*h = linkFrame{
		kind: frameKind(b[0]), op: wire.IOOp(b[1]), flags: frameFlags(b[2]),
		slot: le.Uint16(b[4:]), dst: le.Uint16(b[6:]), seq: le.Uint64(b[8:]),
		total: le.Uint32(b[16:]), offset: le.Uint32(b[20:]), n: le.Uint32(b[24:]),
		srcQP: le.Uint16(b[28:]), destQP: le.Uint16(b[30:]), qkey: le.Uint32(b[32:]), imm: le.Uint32(b[36:]),
		remote:  wire.RemoteBuf{Addr: le.Uint64(b[40:]), RKey: le.Uint32(b[48:])},
		outcome: outcome(b[52]), status: wire.CompStatus(b[53]),
	}
	h.remote.Length = h.total
	send, write := h.op == wire.IOSend, h.op == wire.IORDMAWrite
	last := h.flags&frameLast != 0
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: frame %d: %s", ErrLinkProtocol, h.seq, fmt.Sprintf(format, args...))
	}
	switch {
	case h.n > linkPiece:
		return bad("%d bytes, the most is %d", h.n, linkPiece)
	case h.kind == frameReply:
		if h.outcome >= outcomes {
			return bad("outcome %d", h.outcome)
		}
		return nil
	case h.kind != frameRequest:
		return bad("kind %d", h.kind)
	case h.op > wire.IORDMAWrite || h.flags&^allFrameFlags != 0:
		return bad("operation %d with flags %#x", h.op, h.flags)
	case h.flags&frameNotice != 0:
		if !write || !last || h.flags&frameImm == 0 || h.n != 0 || h.offset != h.total || h.flags&frameDatagram != 0 {
			return bad("a notice that makes no sense")
		}
		return nil
	case uint64(h.offset)+uint64(h.n) > uint64(h.total) || last != (h.offset+h.n == h.total) || h.n == 0 && h.total != 0:
		return bad("%d bytes at %d of %d", h.n, h.offset, h.total)
	case send && (h.n != h.total || int(h.total) > mtu):
		return bad("a SEND of %d bytes, the MTU is %d", h.total, mtu)
	case !send && h.flags&frameDatagram != 0, !send && !write && h.flags&frameImm != 0:
		return bad("operation %d with flags %#x", h.op, h.flags)
	}
	return nil
}
