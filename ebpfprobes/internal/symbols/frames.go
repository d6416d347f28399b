package symbols

import (
	"debug/elf"
	"encoding/binary"
	"sort"
)

// frameTable finds the call-frame information of an address: the table of .eh_frame_hdr
// (Linux Standard Base, "Exception Frames").
type frameTable struct {
	binary  *Binary
	address uint64 // of .eh_frame_hdr
	entries []byte // pairs of 32-bit offsets from there, sorted: code, its description
}

// Encodings of pointers.
const (
	absolute = 0x00
	unsigned = 0x03 // 32 bits
	signed   = 0x0b // 32 bits
	signed64 = 0x0c
	relative = 0x10 // to the pointer's own address
	toTable  = 0x30 // to the table's address
	omitted  = 0xff
)

// readFrameTable gives nil if there is none of the form that linkers write.
func readFrameTable(b *Binary) *frameTable {
	for _, p := range b.elf.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		data, err := b.bytes(p.Vaddr, int(p.Filesz))
		if err != nil || len(data) < 12 || data[0] != 1 || data[2] != unsigned || data[3] != toTable|signed {
			return nil
		}
		n := uint64(binary.LittleEndian.Uint32(data[8:]))
		if n*8 > uint64(len(data)-12) {
			return nil
		}
		return &frameTable{b, p.Vaddr, data[12 : 12+n*8]}
	}
	return nil
}

// description is what one function's call-frame information says (DWARF 5, section 6.4).
type description struct {
	start, end    uint64 // of its code
	initial, own  []byte // instructions: the common ones and the function's
	codeUnit      uint64
	dataUnit      int64
	returnColumn  uint64
	signal        bool // a signal's frame: its address is not one after a call
	encoding, aug byte
}

// find gives the description of an address.
func (t *frameTable) find(address uint64) (*description, bool) {
	n := len(t.entries) / 8
	at := func(i int) uint64 {
		return t.address + uint64(int64(int32(binary.LittleEndian.Uint32(t.entries[8*i:]))))
	}
	i := sort.Search(n, func(i int) bool { return at(i) > address }) - 1
	if i < 0 {
		return nil, false
	}
	d, ok := t.read(t.address + uint64(int64(int32(binary.LittleEndian.Uint32(t.entries[8*i+4:])))))
	if !ok || address < d.start || address >= d.end {
		return nil, false
	}
	return d, true
}

// record reads a record's content and the address where it begins.
func (t *frameTable) record(at uint64) (*reader, bool) {
	head, err := t.binary.bytes(at, 4)
	if err != nil || len(head) < 4 {
		return nil, false
	}
	length := binary.LittleEndian.Uint32(head)
	if length == 0 || length > 1<<20 { // 64-bit records begin with all ones
		return nil, false
	}
	data, err := t.binary.bytes(at+4, int(length))
	if err != nil || len(data) != int(length) {
		return nil, false
	}
	return &reader{data: data, address: at + 4}, true
}

func (t *frameTable) read(at uint64) (*description, bool) {
	r, ok := t.record(at)
	if !ok {
		return nil, false
	}
	back := r.u32()
	if back == 0 { // a common record, not a function's
		return nil, false
	}
	d := &description{}
	common, ok := t.record(at + 4 - uint64(back))
	if !ok || !d.readCommon(common) {
		return nil, false
	}
	d.start = r.pointer(d.encoding)
	d.end = d.start + r.pointer(d.encoding&0x0f)
	if d.aug != 0 {
		r.skip(r.unsigned())
	}
	d.own = r.data
	return d, !r.failed
}

func (d *description) readCommon(r *reader) bool {
	if r.u32() != 0 {
		return false
	}
	version := r.u8()
	augmentation := r.text()
	d.codeUnit, d.dataUnit = r.unsigned(), r.signed()
	if version == 1 {
		d.returnColumn = uint64(r.u8())
	} else {
		d.returnColumn = r.unsigned()
	}
	for i, c := range augmentation {
		switch c {
		case 'z':
			if i != 0 {
				return false
			}
			d.aug = 1
			n := r.unsigned()
			if r.failed || n > uint64(len(r.data)) {
				return false
			}
			rest := reader{data: r.data[n:], address: r.address + n}
			d.initial = rest.data
			r.data = r.data[:n]
		case 'R':
			d.encoding = r.u8()
		case 'L':
			r.u8()
		case 'P':
			r.pointer(r.u8())
		case 'S':
			d.signal = true
		case 'B', 'G': // arm64: signed return addresses, memory tags
		default:
			return false
		}
	}
	if d.aug == 0 {
		d.initial = r.data
	}
	return !r.failed
}
