package symbols

import (
	"bytes"
	"encoding/binary"
)

// reader takes values from the front of a record; what is not there is zero, and failed.
type reader struct {
	data    []byte
	address uint64 // of data
	failed  bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.failed = true
		r.data = nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.data[:n]
	r.data, r.address = r.data[n:], r.address+uint64(n)
	return b
}

func (r *reader) skip(n uint64) {
	if n > uint64(len(r.data)) {
		r.failed = true
		n = uint64(len(r.data))
	}
	r.take(int(n))
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) text() string {
	i := bytes.IndexByte(r.data, 0)
	if i < 0 {
		r.failed = true
		return ""
	}
	return string(r.take(i + 1)[:i])
}

// unsigned takes a LEB128 number.
func (r *reader) unsigned() (v uint64) {
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 || r.failed {
			return v
		}
	}
}

// signed takes a signed LEB128 number.
func (r *reader) signed() (v int64) {
	for shift := uint(0); ; {
		b := r.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		shift += 7
		if b&0x80 == 0 || r.failed {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// pointer takes a pointer of an encoding; of those that are relative, to itself only.
func (r *reader) pointer(encoding byte) uint64 {
	if encoding == omitted {
		return 0
	}
	at := r.address
	var v uint64
	switch encoding & 0x0f {
	case absolute, 0x04, signed64:
		v = r.u64()
	case 0x01:
		v = r.unsigned()
	case 0x09:
		v = uint64(r.signed())
	case 0x02:
		v = uint64(r.u16())
	case 0x0a:
		v = uint64(int64(int16(r.u16())))
	case unsigned:
		v = uint64(r.u32())
	case signed:
		v = uint64(int64(int32(r.u32())))
	default:
		r.failed = true
	}
	if encoding&0x70 == relative {
		v += at
	}
	return v
}
