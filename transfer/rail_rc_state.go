package transfer

import (
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// pinned is registered memory of the rail's own.
type pinned struct {
	buf *verbs.Buffer
	mr  *verbs.MR
}

type rcPeer struct {
	id      Peer
	stage   peerStage
	own     exchange.Offer   // its queue pairs at this side
	theirs  []verbs.Endpoint // and at the peer's
	back    int              // of it in refused and late
	queues  []*rcQueue
	turn    int               // whose turn it is for writes
	link    *exchange.Link    // of iWARP, once connected
	meeting *exchange.Meeting // and before
	met     []byte            // its offer
	metBy   []byte            // and the peer's
	err     error             // why it is lost
	told    bool              // and whether Poll has said so
	drained bool              // and nothing of it is in flight
	notice  int               // next slot of the outbox
}

type rcQueue struct {
	peer  *rcPeer
	index uint64 // in the work requests' IDs, in place
	qp    *verbs.RC
	batch *verbs.Batch
	recvs *verbs.RecvBatch
	room  int // requests that fit

	// The IDs of the requests in flight, oldest first; a queue pair completes
	// its sends in order. As many as there are places: a ring.
	ring        []uint64
	first, last int // running counts; the newest is last-1
	posted      int // where the batch that is being made begins
}

type refusal struct {
	peer *rcPeer
	id   uint64
	done bool // it was carried out
}

// A work request's ID is the operation's, with what the rail needs to know of
// it above: an error completion tells nothing else.
const (
	idRecv      = 1 << 63 // a receive; the rest is the buffer's number
	idHalf      = 1 << 62 // the write of a notice; its SEND follows
	idDouble    = 1 << 61 // that SEND: it gives back two places
	idMarked    = 1 << 60 // tracers are told of it
	idQueue     = 48      // shift of the queue pair's number
	idQueueMask = 1<<12 - 1
	maxQueues   = idQueueMask + 1
)
