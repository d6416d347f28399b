package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Letters go by SEND over the rails, as the engine's messages. Every one begins
// with a header of 16 bytes, all numbers big-endian:
//
//	0  magic   "PDT3"
//	4  kind    1 byte, and 3 bytes of zero
//	8  epoch   of ready, sums, arrived and verdict; else zero
//	12 length  of what follows
//
// An epoch is one round through all pages, numbered from 0.
const (
	letterMagic  = 0x50445433
	letterHeader = 16
)

type letterKind uint8

const (
	kindPropose letterKind = iota + 1 // sender: what it wants to move
	kindAccept                        // receiver: it has the memory for that
	kindReady                         // sender: the epoch's pages are filled, and begin to move
	kindSums                          // sender: checksums of some pages
	kindArrived                       // receiver: all of the epoch's pages are in place
	kindVerdict                       // receiver: how the epoch's pages compare
	kindBye                           // sender: it is over
	kindFailed                        // both: it is over, and why
	kindAlive                         // both: it has work that the other does not see
)

func (k letterKind) String() string {
	names := [...]string{"", "propose", "accept", "ready", "sums", "arrived", "verdict", "bye", "failed", "alive"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Bounds of what a letter may say.
const (
	maxIterations      = 1_000_000
	sumsPerLetter      = (engine.MaxSend - letterHeader - 8) / 4
	maxListed          = 256 // pages named in a verdict
	digestSize         = 32
	proposeSize        = 44
	verdictSize        = 8 + digestSize
	maxReason          = 1024
	flagRead      byte = 1
)

// letter is any of them; which fields count depends on the kind.
type letter struct {
	kind  letterKind
	epoch uint32

	layout     Layout // propose
	iterations uint32 // propose
	notices    uint32 // propose: how many tell of an epoch's pages; 0 where the receiver reads
	offset     uint64 // propose: of the first page in the sender's region, bytes
	read       bool   // propose: the receiver reads

	first  uint32 // sums: page of the first
	sums   []byte // sums: 4 bytes each
	bad    uint32 // verdict: pages that differ
	listed []byte // verdict: the first of them, 4 bytes each
	digest [digestSize]byte
	reason string // failed
}

var errLetter = errors.New("the peer sent a message that makes no sense")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errLetter, fmt.Sprintf(format, args...))
}

// encode appends the letter to b.
func (m *letter) encode(b []byte) []byte {
	start := len(b)
	be := binary.BigEndian
	b = be.AppendUint32(b, letterMagic)
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
		b = be.AppendUint64(b, m.offset)
		b = be.AppendUint32(b, m.iterations)
		b = be.AppendUint32(b, m.notices)
		var flags byte
		if m.read {
			flags = flagRead
		}
		b = append(b, flags, 0, 0, 0)
	case kindSums:
		b = be.AppendUint32(b, m.first)
		b = be.AppendUint32(b, uint32(len(m.sums)/4))
		b = append(b, m.sums...)
	case kindVerdict:
		b = be.AppendUint32(b, m.bad)
		b = be.AppendUint32(b, uint32(len(m.listed)/4))
		b = append(b, m.digest[:]...)
		b = append(b, m.listed...)
	case kindFailed:
		b = append(b, m.reason[:min(len(m.reason), maxReason)]...)
	}
	be.PutUint32(b[start+12:], uint32(len(b)-body))
	return b
}

// decode reads what a peer sent and checks all of it. The slices of the letter
// are b's.
func (m *letter) decode(b []byte) error {
	be := binary.BigEndian
	*m = letter{}
	if len(b) < letterHeader || len(b) > engine.MaxSend {
		return malformed("%d bytes", len(b))
	}
	if be.Uint32(b) != letterMagic || b[5] != 0 || b[6] != 0 || b[7] != 0 {
		return malformed("it begins with % x", b[:8])
	}
	m.kind, m.epoch = letterKind(b[4]), be.Uint32(b[8:])
	body := b[letterHeader:]
	if uint32(len(body)) != be.Uint32(b[12:]) {
		return malformed("%v of %d bytes says it has %d", m.kind, len(body), be.Uint32(b[12:]))
	}
	if err := m.decodeBody(body); err != nil {
		return err
	}
	switch m.kind {
	case kindReady, kindSums, kindArrived, kindVerdict:
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

func (m *letter) decodeBody(b []byte) error {
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
		return m.decodePropose(b)
	case kindSums:
		if len(b) < 8 || len(b)%4 != 0 || uint32(len(b)/4-2) != be.Uint32(b[4:]) || len(b) == 8 {
			return malformed("sums of %d bytes", len(b))
		}
		m.first, m.sums = be.Uint32(b), b[8:]
		if m.first > MaxPages || m.first+uint32(len(m.sums)/4) > MaxPages {
			return malformed("sums from page %d on", m.first)
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
	case kindFailed:
		if len(b) == 0 || len(b) > maxReason {
			return malformed("a reason of %d bytes", len(b))
		}
		m.reason = string(b)
	case kindAccept, kindReady, kindArrived, kindBye, kindAlive:
		return size(0)
	default:
		return malformed("%v", m.kind)
	}
	return nil
}

func (m *letter) decodePropose(b []byte) error {
	be := binary.BigEndian
	stride := be.Uint64(b[8:])
	if stride > MaxSpan {
		return malformed("a stride of %d pages", stride)
	}
	m.layout = Layout{PageSize: int(be.Uint32(b)), Pages: int(be.Uint32(b[4:])), Stride: int(stride), Seed: be.Uint64(b[16:])}
	m.offset, m.iterations, m.notices = be.Uint64(b[24:]), be.Uint32(b[32:]), be.Uint32(b[36:])
	m.read = b[40] == flagRead
	if err := m.layout.Validate(); err != nil {
		return malformed("%v", err)
	}
	switch {
	case m.iterations < 1 || m.iterations > maxIterations:
		return malformed("%d iterations", m.iterations)
	case m.read != (m.notices == 0) || m.notices > uint32(m.layout.Pages):
		return malformed("%d notices for %d pages", m.notices, m.layout.Pages)
	case m.offset > MaxSpan:
		return malformed("pages from offset %d on", m.offset)
	case b[40]&^flagRead != 0 || b[41] != 0 || b[42] != 0 || b[43] != 0:
		return malformed("propose with reserved bits set")
	}
	return nil
}

// printable is what a peer said, without what would move a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
