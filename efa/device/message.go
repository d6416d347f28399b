package device

import (
	"math/bits"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// message is a request in flight: fetched from a send queue, not yet completed. It
// belongs to its device's worker, except that control operations, which hold the
// device alone, take it away when its queue pair goes.
//
// A message waits in the worker's heap until due, or is active in the flow of its
// peer, where the worker picks it to send some of its packets.
type message struct {
	qp         *queuePair
	prev, next *message // of the queue pair, or next free
	seq        uint64   // of the queue pair
	key        uint64   // draws the message's fates and the order of its packets

	entry  [wideEntry]byte // as fetched
	id     uint64
	op     wire.IOOp
	ctrl   wire.TxControl
	destQP uint16
	imm    uint32
	qkey   uint32
	ah     *addressHandle
	nbufs  int
	bufs   [wire.MaxSendBufs]wire.TxBuf
	inline []byte // of entry
	remote wire.RemoteBuf
	length uint32

	// Packets are sent in the order (first + i*stride) mod packets, with i counting
	// up in sent. Those that did not arrive are noted in missing, late of them, and
	// sent again in another pass, in the order of their numbers. todo is how many
	// the pass still has to send.
	packets, first, stride, sent uint32
	todo, late, cursor           uint32
	missing                      []uint64
	missedLost                   bool  // in this pass one was lost, not only late
	lost                         bool  // in the last pass one was
	lateBy                       int64 // how long to wait before the next pass, ns
	attempt                      uint32

	stage   stage
	result  wire.CompStatus // with stageAnswered
	fate    fate
	fateOf  *Faults
	drawn   bool   // fate was drawn
	rnrs    uint32 // times that no receive was found
	silence int64  // since when nothing was answered; 0 if the peer answers
	backoff int64  // the next wait for a silent peer

	// To a device behind a link: bytes that are there, and the slot that has the next
	// piece or the place among those that wait for one.
	carried       uint32
	slot          *linkSlot
	stalled       *port
	ahead, behind *message
	reply         *linkReply // of a far device's request: it ends there

	flow   *flow
	pos    int    // in flow.active, or in the heap
	due    int64  // in the heap
	turnOf uint64 // of fetching, for fabrics that keep it
}

// stage is how far a message is.
type stage uint8

const (
	stageSend     stage = iota // packets are to be delivered
	stagePlaced                // all bytes of a write are, the notice is not
	stageDone                  // the target is done, the answer not here
	stageAnswered              // the answer is on its way
)

// span is a piece of memory of one device: of a region, or of this process.
type span struct {
	mr    *memoryRegion
	dev   *Device  // the region's
	count *payload // what the device does there
	addr  uint64
	n     uint32
	raw   []byte // instead of a region
}

// piece gives the span's next contiguous bytes, at most n; nil if not mapped.
func (s *span) piece(n uint32) []byte {
	n = min(n, s.n)
	if s.mr == nil {
		return s.raw[:n]
	}
	return s.mr.bytes(s.dev.opts.Memory, s.addr, int(n))
}

// read and written count the n bytes that a piece gave, and skip them.
func (s *span) read(n uint32)    { s.moved(n, 0) }
func (s *span) written(n uint32) { s.moved(n, 1) }

func (s *span) moved(n uint32, way int) {
	if s.mr != nil {
		place := PlaceHost
		if s.dev.placer != nil {
			place = s.dev.placer.Place(s.mr.dma(s.addr))
		}
		s.count[place][way] += uint64(n)
	}
	s.skip(n)
}

func (s *span) skip(n uint32) {
	s.n -= n
	if s.mr == nil {
		s.raw = s.raw[n:]
	} else {
		s.addr += uint64(n)
	}
}

// side says at which end of a copy memory was not mapped.
type side uint8

const (
	sideNone side = iota
	sideSource
	sideTarget
)

// copySpans copies n bytes from the sources to the targets, which are long enough.
func copySpans(to, from []span, n uint32) side {
	for n > 0 {
		for to[0].n == 0 {
			to = to[1:]
		}
		for from[0].n == 0 {
			from = from[1:]
		}
		src := from[0].piece(min(n, to[0].n))
		if len(src) == 0 {
			return sideSource
		}
		dst := to[0].piece(uint32(len(src)))
		if len(dst) == 0 {
			return sideTarget
		}
		c := uint32(copy(dst, src))
		to[0].written(c)
		from[0].read(c)
		n -= c
	}
	return sideNone
}

// order prepares the packets' order.
func (m *message) order(mtu uint32, inOrder bool) {
	m.packets = max(1, uint32((uint64(m.length)+uint64(mtu)-1)/uint64(mtu)))
	m.first, m.stride, m.sent, m.todo = 0, 1, 0, m.packets
	m.late, m.cursor, m.attempt = 0, 0, 0
	m.lost, m.missedLost, m.lateBy = false, false, 0
	if inOrder || m.packets == 1 {
		return
	}
	m.first = uint32(m.key) % m.packets
	// A stride without a common divisor visits all. A large prime has none unless
	// the number of packets is a multiple of it.
	const prime = 2654435761
	if s := uint32(prime % uint64(m.packets)); gcd(s, m.packets) == 1 {
		m.stride = s
	}
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// packet gives the number of the pass's next packet, which is then sent. There must
// be one to do.
func (m *message) packet() uint32 {
	m.todo--
	if m.sent < m.packets {
		p := uint32((uint64(m.first) + uint64(m.sent)*uint64(m.stride)) % uint64(m.packets))
		m.sent++
		return p
	}
	w := m.missing[m.cursor/64] >> (m.cursor % 64)
	for w == 0 {
		m.cursor = m.cursor&^63 + 64
		w = m.missing[m.cursor/64]
	}
	p := m.cursor + uint32(bits.TrailingZeros64(w))
	m.missing[p/64] &^= 1 << (p % 64)
	m.late--
	m.cursor = p + 1
	return p
}

// miss notes that a packet did not arrive.
func (m *message) miss(p uint32) {
	if m.late == 0 {
		n := int(m.packets+63) / 64
		if cap(m.missing) < n {
			m.missing = make([]uint64, n)
		}
		m.missing = m.missing[:n]
		clear(m.missing)
	}
	m.missing[p/64] |= 1 << (p % 64)
	m.late++
}

// again begins another pass over the packets that did not arrive.
func (m *message) again() {
	m.todo, m.cursor = m.late, 0
	m.lost, m.missedLost = m.missedLost, false
	m.attempt++
}
