package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"sort"
)

// goTable is a Go program's table of functions, which stripping leaves (runtime/symtab.go
// and internal/abi/symtab.go; the format of Go 1.20 and later).
type goTable struct {
	data  []byte
	text  uint64 // address that the table's offsets count from
	names []byte
	pcs   []byte
	funcs []byte // the table, and what it points into
	count int
	quant uint32 // the shortest instruction
}

const goMagic = 0xfffffff1

// readGoTable gives nil for what is not of Go, or of a Go whose format is not known.
func readGoTable(b *Binary) *goTable {
	section := b.elf.Section(".gopclntab")
	if section == nil {
		section = b.elf.Section(".data.rel.ro.gopclntab") // position-independent
	}
	text := b.elf.Section(".text")
	if section == nil || text == nil {
		return nil
	}
	data, err := section.Data()
	if err != nil || len(data) < 72 || binary.LittleEndian.Uint32(data) != goMagic || data[7] != 8 {
		return nil
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8+8*i:]) }
	within := func(i int) []byte {
		if word(i) >= uint64(len(data)) {
			return nil
		}
		return data[word(i):]
	}
	t := &goTable{
		data: data, text: word(2), quant: uint32(data[6]), count: int(word(0)),
		names: within(3), pcs: within(6), funcs: within(7),
	}
	if t.names == nil || t.pcs == nil || t.funcs == nil || word(0) > uint64(len(t.funcs)/8) {
		return nil
	}
	if t.text == 0 { // the linker no longer writes it
		if t.text = text.Addr; b.elf.Section(".symtab") != nil {
			t.text = symbol(b.elf, "runtime.text", t.text)
		}
	}
	return t
}

func symbol(f *elf.File, name string, otherwise uint64) uint64 {
	list, err := f.Symbols()
	if err != nil {
		return otherwise
	}
	for _, s := range list {
		if s.Name == name {
			return s.Value
		}
	}
	return otherwise
}

// find gives a function's entry and its record.
func (t *goTable) find(address uint64) (start uint64, record []byte, ok bool) {
	entry := func(i int) uint64 { return t.text + uint64(binary.LittleEndian.Uint32(t.funcs[8*i:])) }
	if t.count == 0 || len(t.funcs) < 8*t.count+4 || address < entry(0) || address >= entry(t.count) {
		return 0, nil, false
	}
	i := sort.Search(t.count, func(i int) bool { return entry(i) > address }) - 1
	at := binary.LittleEndian.Uint32(t.funcs[8*i+4:])
	if uint64(at)+20 > uint64(len(t.funcs)) {
		return 0, nil, false
	}
	return entry(i), t.funcs[at:], true
}

func (t *goTable) name(address uint64) (string, uint64, bool) {
	start, record, ok := t.find(address)
	if !ok {
		return "", 0, false
	}
	at := binary.LittleEndian.Uint32(record[4:])
	if uint64(at) >= uint64(len(t.names)) {
		return "", 0, false
	}
	name, _, _ := bytes.Cut(t.names[at:], []byte{0})
	return string(name), start, len(name) > 0
}

// depth gives how far the stack pointer is below its value at the function's entry.
func (t *goTable) depth(address uint64) (uint64, bool) {
	pc, record, ok := t.find(address)
	if !ok {
		return 0, false
	}
	at := binary.LittleEndian.Uint32(record[16:])
	if at == 0 || uint64(at) >= uint64(len(t.pcs)) {
		return 0, false
	}
	value, steps := int32(-1), t.pcs[at:]
	for first := true; ; first = false {
		delta, n := binary.Uvarint(steps)
		if n <= 0 || delta == 0 && !first {
			return 0, false
		}
		more, m := binary.Uvarint(steps[n:])
		if m <= 0 {
			return 0, false
		}
		steps = steps[n+m:]
		value += int32(uint32(delta)>>1) ^ -int32(delta&1)
		if pc += more * uint64(t.quant); address < pc {
			return uint64(value), value >= 0
		}
	}
}
