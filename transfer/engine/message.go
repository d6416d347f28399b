package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errProtocol is a peer that says what makes no sense.
var errProtocol = errors.New("protocol error")

// msgKind is a type of message on the control connection.
type msgKind uint16

const (
	// msgHello begins: version, incarnation, number of rails, name.
	msgHello msgKind = 16 + iota
	// msgOffer: a rail's offer for a generation. The side that dialled begins
	// each generation; the other answers with its own.
	msgOffer
	// msgReady: the other side's offer was accepted, with so many receives.
	msgReady
	// msgFenced: the sender's rail takes nothing more of this generation.
	msgFenced
	// msgCredit: so many receives more.
	msgCredit
	// msgGrant: a region under a name, for the peer; msgWithdraw: it is to be
	// used no more; msgWithdrawn: nothing of the answering side lands there now.
	msgGrant
	msgWithdraw
	msgWithdrawn
	// msgWarm: the peer is to warm up its way here; msgWarmed: it has.
	msgWarm
	msgWarmed
	// msgTaken: so many letters were received in all.
	msgTaken
	// msgBroke: the round of a barrier, by its name, will not be complete, and why.
	msgBroke
	// msgCame: what a letter may have failed to say, that the sender has come to a
	// barrier's round.
	msgCame
	// msgAsk: whether the notice of this immediate was counted, which went by a rail
	// that is fenced; msgCounted and msgUncounted answer.
	msgAsk
	msgCounted
	msgUncounted
	// msgWiden: a granted region is wanted on these rails besides; msgKeys is the
	// answer: its description, with the keys that there are now.
	msgWiden
	msgKeys
)

const (
	protocolVersion = 2
	maxName         = 255
	maxOffer        = 4 << 10
	maxReason       = 512
)

// message is what any of them holds. Integers are big-endian.
type message struct {
	kind        msgKind
	rail        int // the receiving side's
	generation  uint32
	count       uint32
	incarnation uint64
	name        string
	bytes       []byte // offer, Remote, rails or reason
}

// printable tells whether text of a peer's may stand in an error as it is.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// plain makes text so.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// append serialises the message's payload.
func (m *message) append(b []byte) []byte {
	name := func() { b = append(append(b, byte(len(m.name))), m.name...) }
	switch m.kind {
	case msgHello:
		b = append(b, protocolVersion)
		b = binary.BigEndian.AppendUint64(b, m.incarnation)
		b = binary.BigEndian.AppendUint16(b, uint16(m.count))
		name()
	case msgOffer:
		b = m.link(b)
		b = append(b, m.bytes...)
	case msgReady, msgCredit, msgAsk, msgCounted, msgUncounted:
		b = m.link(b)
		b = binary.BigEndian.AppendUint32(b, m.count)
	case msgFenced:
		b = m.link(b)
	case msgTaken:
		b = binary.BigEndian.AppendUint32(b, m.count)
	case msgGrant, msgWiden, msgKeys:
		name()
		b = append(b, m.bytes...)
	case msgBroke, msgCame:
		b = binary.BigEndian.AppendUint32(b, m.count)
		name()
		b = append(b, m.bytes...)
	case msgWithdraw, msgWithdrawn:
		name()
	}
	return b
}

func (m *message) link(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(m.rail))
	return binary.BigEndian.AppendUint32(b, m.generation)
}

// parse reads a payload. What it gives refers to it.
func (m *message) parse(kind uint16, b []byte) error {
	*m = message{kind: msgKind(kind)}
	short := fmt.Errorf("%w: a message of type %d is %d bytes short", errProtocol, kind, len(b))
	number := func(n int) (v uint64, ok bool) {
		if len(b) < n {
			return 0, false
		}
		for _, c := range b[:n] {
			v = v<<8 | uint64(c)
		}
		b = b[n:]
		return v, true
	}
	name := func() bool {
		n, ok := number(1)
		if !ok || int(n) > len(b) {
			return false
		}
		m.name, b = string(b[:n]), b[n:]
		return true
	}
	link := func() bool {
		rail, _ := number(2)
		generation, ok := number(4)
		m.rail, m.generation = int(rail), uint32(generation)
		return ok
	}
	switch m.kind {
	case msgHello:
		version, ok := number(1)
		if !ok {
			return short
		}
		if version != protocolVersion {
			return fmt.Errorf("%w: the peer speaks version %d of the engine's protocol and this side %d: both need the same release", errProtocol, version, protocolVersion)
		}
		m.incarnation, _ = number(8)
		rails, ok := number(2)
		if !ok || !name() {
			return short
		}
		if m.count = uint32(rails); rails == 0 || rails > MaxRails {
			return fmt.Errorf("%w: the peer has %d rails; there are 1 to %d", errProtocol, rails, MaxRails)
		}
		if !printable(m.name) {
			return fmt.Errorf("%w: the peer's name is %q, which cannot be printed", errProtocol, m.name)
		}
	case msgOffer:
		if !link() {
			return short
		}
		if m.bytes, b = b, nil; len(m.bytes) > maxOffer {
			return fmt.Errorf("%w: an offer of %d bytes", errProtocol, len(m.bytes))
		}
	case msgReady, msgCredit, msgAsk, msgCounted, msgUncounted, msgTaken:
		if m.kind != msgTaken && !link() {
			return short
		}
		n, ok := number(4)
		if !ok {
			return short
		}
		m.count = uint32(n)
	case msgFenced:
		if !link() {
			return short
		}
	case msgGrant, msgWiden, msgKeys:
		if !name() {
			return short
		}
		m.bytes, b = b, nil
	case msgBroke, msgCame:
		n, ok := number(4)
		if !ok || !name() {
			return short
		}
		if m.count = uint32(n); m.kind == msgBroke {
			m.bytes, b = b, nil
		}
		if m.name == "" || len(m.bytes) > maxReason {
			return fmt.Errorf("%w: a barrier %q, and a reason of %d bytes", errProtocol, m.name, len(m.bytes))
		}
	case msgWithdraw, msgWithdrawn:
		if !name() {
			return short
		}
	case msgWarm, msgWarmed:
	default:
		return fmt.Errorf("%w: a message of type %d, which nobody sends", errProtocol, kind)
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: a message of type %d is %d bytes too long", errProtocol, kind, len(b))
	}
	return nil
}
