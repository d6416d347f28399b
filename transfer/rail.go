package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Rail is one NIC's queues as the engine sees them, or several NICs' that [Join]
// made one: reliable and unordered, the least that RC and SRD both promise.
//
//   - What Post took is carried out once, or fails; either way it completes
//     exactly once at this side.
//   - Nothing is promised of the order in which operations are carried out,
//     complete, or show at the peer. A notice posted after a large write may
//     arrive before the write's bytes. But where a write has completed as Done,
//     whatever is posted from then on finds its bytes in the peer's memory. So
//     who wants to tell the peer counts completions, then posts the notice.
//   - Done is no promise that the peer lives: where the transport does not
//     acknowledge (iWARP), a write may be Done, and the peer Lost before the
//     bytes come to it. What the peer answers is the only proof.
//   - A notice or a message takes one receive of the peer's. The two sides keep
//     count of them (see [Rail.Receives]); a peer that runs out may stall the
//     rail (RoCE, InfiniBand) or lose the connection (iWARP).
//
// A rail belongs to one goroutine, which posts, polls and waits; there is no
// lock. Posting and polling do not allocate, and cross into C at most once for
// each queue pair that a call concerns.
type Rail interface {
	// Info describes the rail.
	Info() Info

	// Register makes memory reachable for this NIC and, by the region's
	// descriptor, for peers, who may write it, and read it where Info.Reads is
	// set. The memory is mapped or C memory and stays until the region is
	// closed. Regions may be made and closed by other goroutines than the
	// rail's, until its Close is called.
	Register(mem []byte) (*Region, error)

	// RegisterExport does the same for memory of an exporter, by its dma-buf.
	// It is a *MemoryError of the class ErrUnsupported where the NIC's driver
	// takes no dma-bufs.
	RegisterExport(e *Export) (*Region, error)

	// Offer makes the rail ready for one more peer and gives what the peer's
	// rail must know to connect: at most MaxOffer bytes, for its Accept alone.
	// It fails when the rail has as many peers as it was opened for.
	Offer() (Peer, []byte, error)

	// Accept connects a peer that Offer named to the rail that made the offer.
	// Both sides must have accepted before either posts; the caller sees to
	// that. On iWARP, whose queue pairs connect by a conversation of their own,
	// Accept waits until the other side's is called, for 10 s at most. An offer
	// that makes no sense, or of a rail that this one does not reach, is refused,
	// and another may come in its place. After any other failure the number is
	// good for Disconnect alone.
	Accept(p Peer, offer []byte) error

	// Disconnect ends a peer, connected or only offered. Once it has returned,
	// the NIC takes nothing more from that peer: none of its writes lands, none
	// of its reads sees anything. The notices and messages that had come before
	// are still given by Poll: a notice that the peer knows as Done is never
	// lost. A message may be, for EFA's device takes a SEND from anybody, and
	// one that came after the end is dropped here. What this side had posted comes back from Poll, as Done where it is known to have
	// been carried out, else as Failed with ErrFlushed. When the last of all
	// that was polled the number is free, and Offer uses it again. Whether what was in
	// flight reached the peer is the peer's to say; a caller that connects the
	// same two rails again waits on both until all of it has come back, for
	// EFA admits by device and not by connection.
	//
	// It is ErrNotFenced where the peer is gone from this rail but its device
	// must stay admitted, because another peer has the same: a *NotFencedError
	// where the rail knows which. After any other
	// error the peer is not known to be shut out, and Disconnect may be called
	// again.
	Disconnect(p Peer) error

	// Post takes operations in the order given, as many as there is room for,
	// and tells how many. It fails only for what the caller did wrong: an
	// operation that the device refuses is taken, and completes as failed.
	Post(ops []Op) (int, error)

	// Poll gives completions without waiting. The Data of messages is valid
	// until the next Poll, Wait or Disconnect.
	Poll(out []Completion) (int, error)

	// Wait returns when Poll has something to give, or the context ends. It
	// polls briefly and then sleeps until the NIC raises an event.
	Wait(ctx context.Context) error

	// Depth is how many writes or reads a peer's queues hold at once.
	Depth() int

	// Receives is how many messages and notices a peer may send before this
	// side has polled one.
	Receives() int

	// Close ends the connections and frees everything, regions included. From
	// then on the NIC touches no memory of the rail's regions. It may be called
	// again.
	Close() error
}

// MessageSize is the most that a message holds, in bytes.
const MessageSize = 4096

// MinMessage is the least that a message holds: rails whose transport has no
// immediate data send shorter ones of their own.
const MinMessage = 16

// IWARP is the Info.Transport of iWARP devices: one that acknowledges nothing, so
// that a completion says that TCP has the bytes, and only the order of one queue
// pair that they are in place.
const IWARP = "iWARP"

// Info says what a rail runs on.
type Info struct {
	Device    string // "rxe0"; of several NICs the first and the last, "efa_0..efa_3"
	NICs      int    // that the rail's writes are spread over
	Port      int
	Transport string // "RoCE v2", "RoCE v1", "InfiniBand", "iWARP", "EFA SRD"
	LinkLayer string // "Ethernet", "InfiniBand", "unspecified"
	MTU       int    // bytes; of the path once connected, of the port before
	GID       string // of the first NIC
	GIDIndex  int
	Queues    int    // queue pairs of each NIC to each peer
	Path      string // how work gets into the queues: "libibverbs", "direct", or why not
	Embedded  bool   // the device is software in this process
	MaxRegion uint64 // bytes of a region, as the device tells; 0 if it does not
	Reads     bool   // the rail takes OpRead, and lets peers read its regions
}

// Peer names a connected peer of one rail.
type Peer uint32

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

// ErrFlushed marks an operation that fell with its peer; the cause was told
// already.
var ErrFlushed = errors.New("flushed: the connection had failed before")

// ErrNotFenced: a peer was disconnected, but its device can still reach this
// side's memory; see [Rail].
var ErrNotFenced = errors.New("the peer's device is not shut out")

// NotFencedError is ErrNotFenced with the rail's peers that are on the same device:
// once they have been disconnected as well, it is shut out.
type NotFencedError struct {
	Device string // the peer's, by its GID
	Peers  []Peer
}

func (e *NotFencedError) Error() string {
	return fmt.Sprintf("%v: other peers (%v) are on the device %s, too, and must be disconnected as well", ErrNotFenced, e.Peers, e.Device)
}

func (e *NotFencedError) Unwrap() error { return ErrNotFenced }

// errNoReads: the transport or the device cannot.
var errNoReads = fmt.Errorf("this rail has no reads: look at Info.Reads: %w", errors.ErrUnsupported)

// ErrRange is an operation on bytes outside its region.
var ErrRange = errors.New("outside the region")

// Region is memory that is registered with a rail, on each of its NICs.
type Region struct {
	addr   uint64
	length uint64
	lkeys  []uint32 // one for each NIC
	rkeys  []uint32

	mu    sync.Mutex
	close func() error
}

// Local is a piece of a region, as an operation names it.
type Local struct {
	Addr   uint64
	Length uint32
	Key    uint32 // of the first NIC
	keys   []uint32
	bad    bool
}

// At is the piece of length bytes from offset on. Post refuses one that is
// outside the region.
func (r *Region) At(offset uint64, length uint32) Local {
	return Local{Addr: r.addr + offset, Length: length, Key: r.lkeys[0], keys: r.lkeys,
		bad: offset > r.length || uint64(length) > r.length-offset}
}

// Length is the region's size in bytes.
func (r *Region) Length() uint64 { return r.length }

// Descriptor describes the region to peers.
func (r *Region) Descriptor() Descriptor {
	return Descriptor{Addr: r.addr, Length: r.length, Keys: r.rkeys}
}

// Part is length bytes of the region from offset on as a region of their own, by the
// same keys. It calls close when it is closed, and must be before the region is.
func (r *Region) Part(offset, length uint64, close func() error) (*Region, error) {
	if offset > r.length || length > r.length-offset {
		return nil, ErrRange
	}
	return &Region{addr: r.addr + offset, length: length, lkeys: r.lkeys, rkeys: r.rkeys, close: close}, nil
}

// Close deregisters the memory. It may be called again.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.close == nil {
		return nil
	}
	err := r.close()
	if err == nil {
		r.close = nil
	}
	return err
}

// Descriptor is a region as its owner described it to a peer. Its keys are for
// the owner's NICs in their order, which are connected one by one to the peer's.
type Descriptor struct {
	Addr   uint64
	Length uint64 // bytes
	Keys   []uint32
}

// Remote is a place in a peer's region.
type Remote struct {
	Addr uint64
	Key  uint32 // for the first NIC
	keys []uint32
	left uint64 // bytes to the region's end
}

// At is the place offset bytes into the region.
func (d Descriptor) At(offset uint64) Remote {
	if offset > d.Length || len(d.Keys) == 0 {
		return Remote{}
	}
	return Remote{Addr: d.Addr + offset, Key: d.Keys[0], keys: d.Keys, left: d.Length - offset}
}

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

// NewRegion makes the region of a rail that is not of this package.
func NewRegion(addr, length uint64, lkey, rkey uint32, close func() error) *Region {
	return &Region{addr: addr, length: length, lkeys: []uint32{lkey}, rkeys: []uint32{rkey}, close: close}
}
