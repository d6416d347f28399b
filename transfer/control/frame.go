package control

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Type says what a message is. Types below TypeUser are this package's.
type Type uint16

const (
	typeHello Type = 0
	typePing  Type = 1
	typeBye   Type = 2
	// TypeUser is the first type that callers give a meaning to.
	TypeUser Type = 16
)

func (t Type) String() string {
	switch t {
	case typeHello:
		return "hello"
	case typePing:
		return "ping"
	case typeBye:
		return "bye"
	}
	return fmt.Sprintf("type %d", uint16(t))
}

// MaxPayload is the longest payload of a message, in bytes.
const MaxPayload = 1 << 20

const headerSize = 8

// appendFrame puts a frame behind b.
func appendFrame(b []byte, t Type, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint16(b, uint16(t))
	b = binary.BigEndian.AppendUint16(b, 0)
	return append(b, payload...)
}

// parseFrame finds the first frame in b. The size is that of the whole frame,
// and 0 while its header is not there; payload is nil while that is not there,
// and never of a frame that is. What must not be is told as soon as the header
// shows it.
func parseFrame(b []byte) (t Type, payload []byte, size int, err error) {
	if len(b) < headerSize {
		return 0, nil, 0, nil
	}
	length := binary.BigEndian.Uint32(b)
	t = Type(binary.BigEndian.Uint16(b[4:]))
	reserved := binary.BigEndian.Uint16(b[6:])
	switch {
	case length > MaxPayload:
		return 0, nil, 0, why(ErrProtocol, "a frame (%v) claims %d bytes, at most %d are allowed", t, length, MaxPayload)
	case reserved != 0:
		return 0, nil, 0, why(ErrProtocol, "a frame (%v) has %#04x where 0 belongs", t, reserved)
	case t > typeBye && t < TypeUser:
		return 0, nil, 0, why(ErrProtocol, "a frame of an unknown type, %d", uint16(t))
	case (t == typePing || t == typeBye) && length != 0:
		return 0, nil, 0, why(ErrProtocol, "a %v has %d bytes, it must be empty", t, length)
	}
	size = headerSize + int(length)
	if len(b) >= size {
		payload = b[headerSize:size:size]
	}
	return t, payload, size, nil
}

// Version of the frame format.
const Version = 1

const (
	magic     = "PDCT"
	helloSize = 12
	maxHello  = 256 // bytes that a later version may say hello with
)

// appendHello puts the frame that begins a side's stream behind b.
func appendHello(b []byte, lease time.Duration) []byte {
	p := make([]byte, 0, helloSize)
	p = append(p, magic...)
	p = binary.BigEndian.AppendUint16(p, Version)
	p = binary.BigEndian.AppendUint16(p, 0)
	p = binary.BigEndian.AppendUint32(p, uint32(lease.Milliseconds()))
	return appendFrame(b, typeHello, p)
}

// checkHelloHeader says whether the first frame can be a hello, before it is read.
func checkHelloHeader(t Type, size int) error {
	if t != typeHello || size > headerSize+maxHello {
		return why(ErrProtocol, "began with a frame (%v) of %d bytes instead of a hello", t, size)
	}
	return nil
}

// parseHello reads the payload of a hello: how long the peer bears silence.
func parseHello(p []byte) (lease time.Duration, err error) {
	if len(p) < len(magic)+2 || string(p[:len(magic)]) != magic {
		return 0, why(ErrProtocol, "its hello begins with %#x, not with %q", p[:min(len(p), len(magic))], magic)
	}
	if v := binary.BigEndian.Uint16(p[4:]); v != Version {
		return 0, why(ErrVersion, "speaks version %d of the control protocol, this program version %d: run the same peerdirect on both machines", v, Version)
	}
	if len(p) != helloSize || p[6] != 0 || p[7] != 0 {
		return 0, why(ErrProtocol, "its hello is malformed: %#x", p)
	}
	lease = time.Duration(binary.BigEndian.Uint32(p[8:])) * time.Millisecond
	if lease < minLease || lease > maxLease {
		return 0, why(ErrProtocol, "its hello asks for a lease of %v, it must be between %v and %v", lease, minLease, maxLease)
	}
	return lease, nil
}
