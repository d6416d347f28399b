package transfer

import (
	"context"
	"errors"
	"fmt"
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
