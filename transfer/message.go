package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Control messages go by SEND over the rail. Every one begins with a header of
// 16 bytes, all numbers big-endian:
//
//	0  magic   "PDT2"
//	4  kind    1 byte, and 3 bytes of zero
//	8  epoch   of begin, sums, arrived and verdict; else zero
//	12 length  of what follows
//
// An epoch is one round through all pages, numbered from 0. A side that gives
// up says so by the control connection, which works whatever became of the
// rail.
const (
	messageMagic  = 0x50445432
	messageHeader = 16
)

type messageKind uint8

const (
	kindPropose messageKind = iota + 1 // sender: what it wants to send
	kindAccept                         // receiver: where to
	kindBegin                          // sender: the epoch's first write follows
	kindSums                           // sender: checksums of some pages
	kindCredit                         // receiver: so many receives are free again
	kindArrived                        // receiver: all of the epoch's pages are placed
	kindVerdict                        // receiver: how the epoch's pages compare
	kindBye                            // both: it is over
)

func (k messageKind) String() string {
	names := [...]string{"", "propose", "accept", "begin", "sums", "credit", "arrived", "verdict", "bye"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Bounds of what a message may say.
const (
	maxIterations   = 1_000_000
	minReceives     = 16
	maxReceives     = 1 << 20
	sumsPerMessage  = (MessageSize - messageHeader - 8) / 4
	maxListed       = 256 // bad pages named in a verdict
	digestSize      = 32
	proposeSize     = 36
	acceptSize      = 24 // and 4 for each key
	verdictSize     = 8 + digestSize
	noticeCountBits = 24
)

// message is any control message; which fields count depends on the kind.
type message struct {
	kind  messageKind
	epoch uint32

	layout     Layout     // propose
	iterations uint32     // propose
	receives   uint32     // propose, accept: how many the writer of the message has posted
	region     Descriptor // accept

	first  uint32 // sums: page of the first
	sums   []byte // sums: 4 bytes each
	credit uint32 // credit
	bad    uint32 // verdict: pages that differ
	listed []byte // verdict: the first of them, 4 bytes each
	digest [digestSize]byte
}

var errMessage = errors.New("the peer sent a message that makes no sense")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMessage, fmt.Sprintf(format, args...))
}

// encode appends the message to b, which has room for MessageSize.
func (m *message) encode(b []byte) []byte {
	start := len(b)
	be := binary.BigEndian
	b = be.AppendUint32(b, messageMagic)
	b = append(b, byte(m.kind), 0, 0, 0)
	b = be.AppendUint32(b, m.epoch)
	b = be.AppendUint32(b, 0)
	body := len(b)
	switch m.kind {
	case kindPropose:
		b = be.AppendUint32(b, uint32(m.layout.PageSize))
		b = be.AppendUint32(b, uint32(m.layout.Pages))
		b = be.AppendUint64(b, uint64(m.layout.Stride))
		b = be.AppendUint64(b, m.layout.Seed)
		b = be.AppendUint32(b, m.iterations)
		b = be.AppendUint32(b, m.receives)
		b = be.AppendUint32(b, 0)
	case kindAccept:
		b = be.AppendUint64(b, m.region.Addr)
		b = be.AppendUint64(b, m.region.Length)
		b = be.AppendUint32(b, m.receives)
		b = be.AppendUint16(b, uint16(len(m.region.Keys)))
		b = be.AppendUint16(b, 0)
		for _, key := range m.region.Keys {
			b = be.AppendUint32(b, key)
		}
	case kindSums:
		b = be.AppendUint32(b, m.first)
		b = be.AppendUint32(b, uint32(len(m.sums)/4))
		b = append(b, m.sums...)
	case kindCredit:
		b = be.AppendUint32(b, m.credit)
	case kindVerdict:
		b = be.AppendUint32(b, m.bad)
		b = be.AppendUint32(b, uint32(len(m.listed)/4))
		b = append(b, m.digest[:]...)
		b = append(b, m.listed...)
	}
	be.PutUint32(b[start+12:], uint32(len(b)-body))
	return b
}

// decode reads what a peer sent and checks all of it. The slices of the
// message are b's.
func (m *message) decode(b []byte) error {
	be := binary.BigEndian
	*m = message{}
	if len(b) < messageHeader || len(b) > MessageSize {
		return malformed("%d bytes", len(b))
	}
	if be.Uint32(b) != messageMagic || b[5] != 0 || b[6] != 0 || b[7] != 0 {
		return malformed("it begins with % x", b[:8])
	}
	m.kind, m.epoch = messageKind(b[4]), be.Uint32(b[8:])
	body := b[messageHeader:]
	if uint32(len(body)) != be.Uint32(b[12:]) {
		return malformed("%v of %d bytes says it has %d", m.kind, len(body), be.Uint32(b[12:]))
	}
	if err := m.decodeBody(body); err != nil {
		return err
	}
	switch m.kind {
	case kindBegin, kindSums, kindArrived, kindVerdict:
		if m.epoch < maxIterations {
			return nil
		}
	default:
		if m.epoch == 0 {
			return nil
		}
	}
	return malformed("%v of epoch %d", m.kind, m.epoch)
}

func (m *message) decodeBody(b []byte) error {
	be := binary.BigEndian
	size := func(want int) error {
		if len(b) != want {
			return malformed("%v of %d bytes, not %d", m.kind, len(b), want)
		}
		return nil
	}
	switch m.kind {
	case kindPropose:
		if err := size(proposeSize); err != nil {
			return err
		}
		stride := be.Uint64(b[8:])
		if stride > MaxSpan {
			return malformed("a stride of %d pages", stride)
		}
		m.layout = Layout{PageSize: int(be.Uint32(b)), Pages: int(be.Uint32(b[4:])), Stride: int(stride), Seed: be.Uint64(b[16:])}
		m.iterations, m.receives = be.Uint32(b[24:]), be.Uint32(b[28:])
		if err := m.layout.Validate(); err != nil {
			return malformed("%v", err)
		}
		if m.iterations < 1 || m.iterations > maxIterations {
			return malformed("%d iterations", m.iterations)
		}
		if be.Uint32(b[32:]) != 0 {
			return malformed("propose with reserved bits set")
		}
		return m.checkReceives()
	case kindAccept:
		if len(b) < acceptSize {
			return malformed("accept of %d bytes", len(b))
		}
		keys := int(be.Uint16(b[20:]))
		if keys < 1 || keys > MaxNICs || be.Uint16(b[22:]) != 0 {
			return malformed("accept with %d keys", keys)
		}
		if err := size(acceptSize + 4*keys); err != nil {
			return err
		}
		m.region = Descriptor{Addr: be.Uint64(b), Length: be.Uint64(b[8:]), Keys: make([]uint32, keys)}
		m.receives = be.Uint32(b[16:])
		for i := range m.region.Keys {
			m.region.Keys[i] = be.Uint32(b[acceptSize+4*i:])
		}
		if m.region.Length == 0 || m.region.Length > MaxSpan || m.region.Addr+m.region.Length < m.region.Addr {
			return malformed("a region of %d bytes at %#x", m.region.Length, m.region.Addr)
		}
		return m.checkReceives()
	case kindSums:
		if len(b) < 8 || len(b)%4 != 0 || uint32(len(b)/4-2) != be.Uint32(b[4:]) || len(b) == 8 {
			return malformed("sums of %d bytes", len(b))
		}
		m.first, m.sums = be.Uint32(b), b[8:]
		if m.first > MaxPages || m.first+uint32(len(m.sums)/4) > MaxPages {
			return malformed("sums from page %d on", m.first)
		}
	case kindCredit:
		if err := size(4); err != nil {
			return err
		}
		if m.credit = be.Uint32(b); m.credit < 1 || m.credit > maxReceives {
			return malformed("credit of %d", m.credit)
		}
	case kindVerdict:
		if len(b) < verdictSize || (len(b)-verdictSize)%4 != 0 {
			return malformed("verdict of %d bytes", len(b))
		}
		m.bad, m.listed = be.Uint32(b), b[verdictSize:]
		copy(m.digest[:], b[8:])
		n := uint32(len(m.listed) / 4)
		if n != be.Uint32(b[4:]) || n > maxListed || n > m.bad || m.bad > MaxPages {
			return malformed("verdict of %d bad pages that lists %d", m.bad, n)
		}
	case kindBegin, kindArrived, kindBye:
		return size(0)
	default:
		return malformed("%v", m.kind)
	}
	return nil
}

func (m *message) checkReceives() error {
	if m.receives < minReceives || m.receives > maxReceives {
		return malformed("%v with %d receives", m.kind, m.receives)
	}
	return nil
}

// A notice says in its immediate that so many pages of an epoch, which is
// counted modulo 256, are placed.
func notice(epoch uint32, pages int) uint32 {
	return epoch<<noticeCountBits | uint32(pages)
}

// arrivals counts the pages that notices reported, by epoch. Notices may come
// before this side is ready for their epoch, or before the message that
// announces it: counts are kept, and no expectation ever resets them.
type arrivals struct {
	pages [256]uint64
}

// add counts a notice; epochs that may be are now and the one after it.
func (a *arrivals) add(imm, now uint32, perEpoch uint64) error {
	epoch, n := imm>>noticeCountBits, uint64(imm&(1<<noticeCountBits-1))
	if epoch != now&0xff && epoch != (now+1)&0xff {
		return malformed("notice of epoch %d while at %d", epoch, now&0xff)
	}
	if n == 0 {
		return malformed("notice of no pages")
	}
	if a.pages[epoch] += n; a.pages[epoch] > perEpoch {
		return malformed("notices of %d pages where there are %d", a.pages[epoch], perEpoch)
	}
	return nil
}

// count is how many pages of an epoch are placed.
func (a *arrivals) count(epoch uint32) uint64 { return a.pages[epoch&0xff] }

// forget makes room for the epoch 256 later; the epoch must be over.
func (a *arrivals) forget(epoch uint32) { a.pages[epoch&0xff] = 0 }
