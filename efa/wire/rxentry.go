package wire

// RxEntry is an entry of a receive queue (struct efa_io_rx_desc): one buffer. A
// receive with several buffers is as many entries, the first with RxFirst, the last
// with RxLast; the completion has the first one's request id. The doorbell counts
// entries.
type RxEntry [16]byte

// RxFlags are the flags in the word of the local key.
type RxFlags uint32

const (
	RxFirst RxFlags = 1 << 30
	RxLast  RxFlags = 1 << 31
)

// Set writes the whole entry. lkey has 24 bits; length is at most 65535.
func (e *RxEntry) Set(reqID uint16, addr uint64, length uint16, lkey uint32, f RxFlags) {
	le.PutUint64(e[0:], addr)
	le.PutUint64(e[8:], uint64(reqID)|uint64(length)<<16|uint64(lkey&LKeyMask|uint32(f&(RxFirst|RxLast)))<<32)
}

// Addr gives the address of the buffer.
func (e *RxEntry) Addr() uint64 { return le.Uint64(e[0:]) }

// ReqID gives the request id.
func (e *RxEntry) ReqID() uint16 { return le.Uint16(e[8:]) }

// Length gives the bytes of the buffer.
func (e *RxEntry) Length() uint16 { return le.Uint16(e[10:]) }

// LKey gives the local key, 24 bits.
func (e *RxEntry) LKey() uint32 { return le.Uint32(e[12:]) & LKeyMask }

// First tells whether the entry is a receive's first.
func (e *RxEntry) First() bool { return e[15]&(1<<6) != 0 }

// Last tells whether the entry is a receive's last.
func (e *RxEntry) Last() bool { return e[15]&(1<<7) != 0 }

// RxDesc is a receive entry as a value (struct efa_io_rx_desc).
type RxDesc struct {
	Addr   uint64
	ReqID  uint16
	Length uint16 // bytes
	LKey   uint32 // 24 bits
	First  bool
	Last   bool
}

const SizeRxDesc = 16

func (d *RxDesc) Encode(b []byte) {
	_ = b[SizeRxDesc-1]
	le.PutUint64(b, d.Addr)
	le.PutUint16(b[8:], d.ReqID)
	le.PutUint16(b[10:], d.Length)
	le.PutUint32(b[12:], d.LKey&LKeyMask|bit(d.First, 30)|bit(d.Last, 31))
}

func (d *RxDesc) Decode(b []byte) {
	_ = b[SizeRxDesc-1]
	d.Addr = le.Uint64(b)
	d.ReqID = le.Uint16(b[8:])
	d.Length = le.Uint16(b[10:])
	w := le.Uint32(b[12:])
	d.LKey = w & LKeyMask
	d.First = w&uint32(RxFirst) != 0
	d.Last = w&uint32(RxLast) != 0
}
