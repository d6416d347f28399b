package nldev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errMalformed is what every parser of this package reports: the bytes are not
// what the kernel's protocol allows.
var errMalformed = errors.New("malformed netlink message")

const (
	attrHeader = unix.SizeofNlAttr // length and kind, 16 bits each
	attrAlign  = unix.NLA_ALIGNTO
	kindMask   = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
)

// An attrReader walks a run of netlink attributes:
//
//	for r.next() {
//		switch r.kind {
//		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
//			d.Index = r.uint32()
//		}
//	}
//
// The first malformed attribute ends the walk and stays in err; values read
// from then on are zero. Kinds that the loop does not name are skipped, which
// is how an old reader bears a newer kernel. A reader descends only where its
// caller calls nested, so the depth is the caller's and no input can raise it.
type attrReader struct {
	kind uint16
	err  error

	data []byte // of the attribute at hand
	rest []byte
}

func (r *attrReader) next() bool {
	if r.err != nil || len(r.rest) == 0 {
		return false
	}
	if len(r.rest) < attrHeader {
		r.err = fmt.Errorf("%w: %d bytes where an attribute should start", errMalformed, len(r.rest))
		return false
	}
	size := int(binary.NativeEndian.Uint16(r.rest))
	r.kind = binary.NativeEndian.Uint16(r.rest[2:]) & kindMask
	if size < attrHeader || size > len(r.rest) {
		r.err = fmt.Errorf("%w: attribute %d claims %d bytes of %d", errMalformed, r.kind, size, len(r.rest))
		return false
	}
	r.data = r.rest[attrHeader:size]
	// The last attribute may go without its padding.
	r.rest = r.rest[min(align(size), len(r.rest)):]
	return true
}

// fixed gives the attribute's data if it has exactly the size that its kind
// demands, and zeros otherwise.
func (r *attrReader) fixed(size int) []byte {
	if r.err == nil && len(r.data) != size {
		r.err = fmt.Errorf("%w: attribute %d has %d bytes, not %d", errMalformed, r.kind, len(r.data), size)
	}
	if r.err != nil {
		return make([]byte, size)
	}
	return r.data
}

func (r *attrReader) uint8() uint8   { return r.fixed(1)[0] }
func (r *attrReader) bool() bool     { return r.uint8() != 0 }
func (r *attrReader) uint32() uint32 { return binary.NativeEndian.Uint32(r.fixed(4)) }
func (r *attrReader) uint64() uint64 { return binary.NativeEndian.Uint64(r.fixed(8)) }

// text reads a string up to its terminator, which a kernel always sends and
// this reader can do without.
func (r *attrReader) text() string {
	s, _, _ := bytes.Cut(r.data, []byte{0})
	return string(s)
}

// nested hands a reader of the attribute's own attributes to walk, and takes
// over the error it ends with.
func (r *attrReader) nested(walk func(*attrReader)) {
	inner := attrReader{rest: r.data}
	walk(&inner)
	if r.err == nil {
		r.err = inner.err
	}
}

// each calls entry for every attribute of the given kind inside this one: the
// kernel's tables are built so.
func (r *attrReader) each(kind uint16, entry func(*attrReader)) {
	r.nested(func(table *attrReader) {
		for table.next() {
			if table.kind == kind {
				table.nested(entry)
			}
		}
	})
}

func align(n int) int { return (n + attrAlign - 1) &^ (attrAlign - 1) }

// An attrs is a run of attributes under construction.
type attrs []byte

func (a attrs) bytes(kind uint16, data []byte) attrs {
	a = binary.NativeEndian.AppendUint16(a, uint16(attrHeader+len(data)))
	a = binary.NativeEndian.AppendUint16(a, kind)
	a = append(a, data...)
	return append(a, make([]byte, align(len(data))-len(data))...)
}

func (a attrs) uint8(kind uint16, v uint8) attrs { return a.bytes(kind, []byte{v}) }

func (a attrs) uint32(kind uint16, v uint32) attrs {
	return a.bytes(kind, binary.NativeEndian.AppendUint32(nil, v))
}

func (a attrs) uint64(kind uint16, v uint64) attrs {
	return a.bytes(kind, binary.NativeEndian.AppendUint64(nil, v))
}

func (a attrs) text(kind uint16, s string) attrs { return a.bytes(kind, append([]byte(s), 0)) }
