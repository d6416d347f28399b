package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
)

// Rights are what a peer may do with a region.
type Rights uint8

const (
	Write Rights = 1 << iota // write into it
	Read                     // read from it
)

func (r Rights) String() string {
	switch r {
	case Write:
		return "write"
	case Read:
		return "read"
	case Read | Write:
		return "read and write"
	}
	return fmt.Sprintf("rights(%#x)", uint8(r))
}

// Remote is a peer's region as its owner described it. It serialises: whoever
// has the bytes can name the region, but only a peer that the owner has joined
// can reach it.
//
// The form, big-endian: "PDR", version 2; 8 bytes incarnation of the owner's
// engine; 8 bytes address; 8 bytes length; 1 byte rights; 2 bytes number of the
// owner's rails; a bit for each of them, the first in the lowest bit of the first
// byte, that is set if the memory is registered there; for each that is set, in
// order, 4 bytes key.
type Remote struct {
	d     transfer.Descriptor // a key for each of the owner's rails
	rails railSet             // those whose key is one

	Incarnation uint64 // of the engine that has the memory
	Rights      Rights
}

// Length is the region's size in bytes.
func (r Remote) Length() uint64 { return r.d.Length }

const (
	remoteVersion = 2
	remoteHeader  = 4 + 8 + 8 + 8 + 1 + 2
	// RemoteMax is the most bytes that a Remote serialises to.
	RemoteMax = remoteHeader + MaxRails/8 + 4*MaxRails
)

// ErrDescriptor is a description of a region that is none.
var ErrDescriptor = errors.New("not the description of a region")

// AppendBinary appends the serialised form.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, 'P', 'D', 'R', remoteVersion)
	b = binary.BigEndian.AppendUint64(b, r.Incarnation)
	b = binary.BigEndian.AppendUint64(b, r.d.Addr)
	b = binary.BigEndian.AppendUint64(b, r.d.Length)
	b = append(b, byte(r.Rights))
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.d.Keys)))
	b = r.rails.appendBits(b, len(r.d.Keys))
	for i, k := range r.d.Keys {
		if r.rails.has(i) {
			b = binary.BigEndian.AppendUint32(b, k)
		}
	}
	return b, nil
}

// MarshalBinary is the serialised form.
func (r Remote) MarshalBinary() ([]byte, error) {
	return r.AppendBinary(make([]byte, 0, remoteSize(len(r.d.Keys), r.rails.count())))
}

// remoteSize is how many bytes a Remote of an owner's rails takes, with so many
// keys.
func remoteSize(rails, keys int) int { return remoteHeader + (rails+7)/8 + 4*keys }

// UnmarshalBinary reads the serialised form, and nothing else will do.
func (r *Remote) UnmarshalBinary(b []byte) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrDescriptor, fmt.Sprintf(format, args...))
	}
	switch {
	case len(b) < remoteHeader:
		return wrong("%d bytes, it begins with %d", len(b), remoteHeader)
	case string(b[:3]) != "PDR":
		return wrong("it begins with %q", b[:3])
	case b[3] != remoteVersion:
		return wrong("version %d; this side reads %d: both need the same release", b[3], remoteVersion)
	}
	n := int(binary.BigEndian.Uint16(b[29:]))
	got := Remote{Incarnation: binary.BigEndian.Uint64(b[4:]), Rights: Rights(b[28])}
	got.d.Addr, got.d.Length = binary.BigEndian.Uint64(b[12:]), binary.BigEndian.Uint64(b[20:])
	switch {
	case n == 0 || n > MaxRails:
		return wrong("keys of %d rails; there are 1 to %d", n, MaxRails)
	case len(b) < remoteSize(n, 0):
		return wrong("%d bytes; with %d rails it has %d before the keys", len(b), n, remoteSize(n, 0))
	case !got.rails.parseBits(b[remoteHeader:remoteSize(n, 0)], n):
		return wrong("keys of rails beyond the last of %d", n)
	case got.rails.empty():
		return wrong("a key of no rail")
	case len(b) != remoteSize(n, got.rails.count()):
		return wrong("%d bytes with %d keys of %d rails, which take %d", len(b), got.rails.count(), n, remoteSize(n, got.rails.count()))
	case got.d.Length == 0 || got.d.Addr+got.d.Length < got.d.Addr:
		return wrong("%d bytes from %#x on", got.d.Length, got.d.Addr)
	case got.Rights == 0 || got.Rights&^(Read|Write) != 0:
		return wrong("rights %#x", b[28])
	}
	got.d.Keys = make([]uint32, n)
	keys := b[remoteSize(n, 0):]
	got.rails.each(func(i int) bool {
		got.d.Keys[i], keys = binary.BigEndian.Uint32(keys), keys[4:]
		return true
	})
	*r = got
	return nil
}
