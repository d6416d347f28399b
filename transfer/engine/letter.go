package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
)

// A letter is a message that goes by a rail (what goes by the control connection
// is a message here). Rails keep no order and may carry one twice, where the first
// try's rail failed: so each has a number, by which the receiving side orders them
// and drops repeats.
//
// Its form, big-endian: "PDM", version 1; 4 bytes kind; 4 bytes number; 4 bytes
// length of the data; the data.
const (
	letterVersion = 1
	letterHeader  = 16

	// letterWindow is how many of a peer's letters the other side keeps: those
	// that nobody has received, and those that came before one of a lower number.
	letterWindow = 32
	letterPlaces = letterWindow + 4 // of a peer's outbox
)

// MaxSend is the most bytes of a message.
const MaxSend = transfer.MessageSize - letterHeader

type letterKind uint32

const (
	letterBlank letterKind = 1 + iota // to warm up with; it has no number and no data
	letterData
	letterCame // this side has come to a barrier: its round, and its name as the data
)

// putLetter writes a header.
func putLetter(b []byte, kind letterKind, number uint32, length int) {
	copy(b, "PDM")
	b[3] = letterVersion
	binary.BigEndian.PutUint32(b[4:], uint32(kind))
	binary.BigEndian.PutUint32(b[8:], number)
	binary.BigEndian.PutUint32(b[12:], uint32(length))
}

// parseLetter reads what a rail gave. The data refers to it.
func parseLetter(b []byte) (kind letterKind, number uint32, data []byte, err error) {
	if len(b) < letterHeader {
		return 0, 0, nil, fmt.Errorf("%w: a letter of %d bytes; its header has %d", errProtocol, len(b), letterHeader)
	}
	if string(b[:3]) != "PDM" || b[3] != letterVersion {
		return 0, 0, nil, fmt.Errorf("%w: a letter that begins with %q, version %d; this side reads version %d: both need the same release", errProtocol, b[:3], b[3], letterVersion)
	}
	kind = letterKind(binary.BigEndian.Uint32(b[4:]))
	number = binary.BigEndian.Uint32(b[8:])
	length := binary.BigEndian.Uint32(b[12:])
	data = b[letterHeader:]
	switch {
	case uint64(length) != uint64(len(data)):
		return 0, 0, nil, fmt.Errorf("%w: a letter says that it has %d bytes and has %d", errProtocol, length, len(data))
	case kind == letterData:
	case kind == letterCame:
		if length == 0 || length > maxName {
			return 0, 0, nil, fmt.Errorf("%w: a barrier's name of %d bytes", errProtocol, length)
		}
	case kind != letterBlank:
		return 0, 0, nil, fmt.Errorf("%w: a letter of kind %d, which nobody sends", errProtocol, kind)
	case number != 0 || length != 0:
		return 0, 0, nil, fmt.Errorf("%w: a blank letter has number %d and %d bytes", errProtocol, number, length)
	}
	return kind, number, data, nil
}

// letter takes what the peer sent as a message.
func (l *link) letter(b []byte) {
	p := l.at.p
	kind, number, data, err := parseLetter(b)
	if err == nil {
		switch kind {
		case letterData:
			err = p.in.take(number, data)
		case letterCame:
			err = p.came(string(data), number)
		}
	}
	if err != nil {
		p.end(fmt.Errorf("%w: %s: %w", ErrLost, p.name, err))
		return
	}
	l.used()
}

// lettersAgain sends what may have been lost with a rail: where the peer had
// disconnected it, a letter may be Done here and was dropped there (see
// [transfer.Rail.Disconnect]). The other side knows repeats.
func (p *Peer) lettersAgain() {
	for _, l := range p.out.again() {
		l.queue() // a peer that is gone needs it no more
	}
	for _, m := range p.meetingsAgain() {
		p.tell(m)
	}
}
