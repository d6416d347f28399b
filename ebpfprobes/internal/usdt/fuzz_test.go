package usdt

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// small is an ELF file with one loaded segment and one probe, small enough to be changed
// byte by byte. prelinked is by how much it was moved after linking.
func small(prelinked uint64) []byte {
	var b bytes.Buffer
	put := func(v ...any) {
		for _, x := range v {
			binary.Write(&b, binary.LittleEndian, x)
		}
	}
	const address, code, end = 0x400000, 0x300, 0x400
	note := new(bytes.Buffer)
	for _, v := range []any{uint32(8), uint32(24 + 16), uint32(3), []byte("stapsdt\x00"), uint64(address + code), uint64(address + end), uint64(address + code + 16), []byte("maker\x00mark\x008@%r\x00")} {
		binary.Write(note, binary.LittleEndian, v)
	}
	names := []byte("\x00.note.stapsdt\x00.stapsdt.base\x00")
	const noteAt, namesAt, sectionsAt = 64 + 56, 0x200, 0x240
	put([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9), uint16(2), uint16(62), uint32(1), uint64(0), uint64(64), uint64(sectionsAt), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(64), uint16(3), uint16(2))
	put(uint32(1), uint32(5), uint64(0), uint64(address+prelinked), uint64(0), uint64(end), uint64(end), uint64(4096))
	put(note.Bytes())
	b.Write(make([]byte, namesAt-b.Len()))
	put(names)
	b.Write(make([]byte, sectionsAt-b.Len()))
	section := func(name, kind uint32, address, at, size uint64) {
		put(name, kind, uint64(0), address, at, size, uint32(0), uint32(0), uint64(1), uint64(0))
	}
	section(1, 7, 0, noteAt, uint64(note.Len()))
	section(15, 1, address+end+prelinked, end-1, 1)
	section(0, 3, 0, namesAt, uint64(len(names)))
	b.Write(make([]byte, end-b.Len()))
	return b.Bytes()
}

func TestSmallFile(t *testing.T) {
	for _, prelinked := range []uint64{0, 0x1000, 1<<64 - 0x1000} {
		b := small(prelinked)
		probes, err := Read(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(probes) != 1 {
			t.Fatalf("%#x: %v, %v", prelinked, probes, err)
		}
		if want := (Probe{"maker", "mark", 0x300, 0x310, "8@%r"}); probes[0] != want {
			t.Errorf("%#x: %+v", prelinked, probes[0])
		}
	}
}

// FuzzRead: whatever is in a file, what is read of it is within it.
func FuzzRead(f *testing.F) {
	f.Add(small(0))
	f.Add(small(0x1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		probes, err := Read(bytes.NewReader(b), int64(len(b)))
		if (err == nil) == (len(probes) == 0) {
			t.Errorf("%d probes, %v", len(probes), err)
		}
		for _, p := range probes {
			if p.Site >= uint64(len(b)) || p.Semaphore >= uint64(len(b)) || strings.Contains(p.Name+p.Provider+p.Arguments, "\x00") {
				t.Errorf("%+v in a file of %d bytes", p, len(b))
			}
		}
	})
}
