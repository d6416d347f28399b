package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Version of the frame format.
const Version = 1

const (
	magic      = "PDX"
	headerSize = 16
	// MaxPayload is the longest payload of a frame, in bytes of JSON.
	MaxPayload = 1 << 20
)

// Type says what a frame's payload is. Types below TypeUser are this package's.
type Type uint16

const (
	typeHello     Type = 1
	typeError     Type = 2
	typeEndpoints Type = 3
	typeCM        Type = 4 // where the RDMA CM listens
	typeReady     Type = 5
	// TypeUser is the first type that callers give a meaning to.
	TypeUser Type = 64
)

func (t Type) String() string {
	switch t {
	case typeHello:
		return "hello"
	case typeError:
		return "error"
	case typeEndpoints:
		return "endpoints"
	case typeCM:
		return "RDMA CM address"
	case typeReady:
		return "ready"
	}
	return "type " + strconv.Itoa(int(t))
}

type frame struct {
	typ     Type
	payload []byte
}

// appendHeader puts the header of a frame in front of its payload.
func appendHeader(b []byte, t Type, length int, number uint32) []byte {
	b = append(b, magic...)
	b = append(b, Version)
	b = binary.BigEndian.AppendUint16(b, uint16(t))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return binary.BigEndian.AppendUint32(b, number)
}

// readFrame reads the frame of the given number. The error is io.EOF at the end
// of a stream that ends between frames, and an *Error without operation and
// peer for what must not be.
func readFrame(r io.Reader, number uint32) (frame, error) {
	var h [headerSize]byte
	wrong := func(class error, format string, args ...any) (frame, error) {
		return frame{}, &Error{Err: class, Detail: fmt.Sprintf(format, args...)}
	}
	// The first four bytes tell on their own: another service may send no more.
	switch n, err := io.ReadFull(r, h[:4]); {
	case err == io.ErrUnexpectedEOF:
		return wrong(ErrGone, "the peer closed the connection in the middle of a frame, after %d bytes of its header", n)
	case err != nil:
		return frame{}, err
	case string(h[:3]) != magic && number == 0:
		return wrong(ErrProtocol, "sent %#x (%q) instead of the peerdirect greeting: is this port another service?", h[:4], h[:4])
	case string(h[:3]) != magic:
		return wrong(ErrProtocol, "sent %#x where frame %d should start", h[:4], number)
	case h[3] != Version:
		return wrong(ErrVersion, "speaks version %d of the exchange, this program version %d: run the same peerdirect on both machines", h[3], Version)
	}
	if n, err := io.ReadFull(r, h[4:]); err != nil {
		return inTheMiddle(err, "after %d bytes of its header", n+4)
	}
	f := frame{typ: Type(binary.BigEndian.Uint16(h[4:]))}
	flags := binary.BigEndian.Uint16(h[6:])
	length := binary.BigEndian.Uint32(h[8:])
	switch got := binary.BigEndian.Uint32(h[12:]); {
	case flags != 0:
		return wrong(ErrProtocol, "frame %d (%v) has unknown flags %#x", number, f.typ, flags)
	case got != number:
		return wrong(ErrProtocol, "frame %d (%v) is numbered %d", number, f.typ, got)
	case length > MaxPayload:
		return wrong(ErrProtocol, "frame %d (%v) claims %d bytes, at most %d are allowed", number, f.typ, length, MaxPayload)
	}
	f.payload = make([]byte, length)
	if n, err := io.ReadFull(r, f.payload); err != nil {
		return inTheMiddle(err, "after %d of %d bytes of its payload", n, length)
	}
	return f, nil
}

func inTheMiddle(err error, format string, args ...any) (frame, error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return frame{}, &Error{Err: ErrGone, Detail: "the peer closed the connection in the middle of a frame, " + fmt.Sprintf(format, args...)}
	}
	return frame{}, err
}
