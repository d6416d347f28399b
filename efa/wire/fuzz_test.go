package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzFormats decodes bytes as each type: that must not panic, and encoding what
// came out and decoding it again must change nothing.
func FuzzFormats(f *testing.F) {
	for i := range formats {
		b := make([]byte, formats[i].size)
		filled(formats[i]).Encode(b)
		f.Add(uint8(i), b)
		f.Add(uint8(i), bytes.Repeat([]byte{0xff}, formats[i].size))
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		form := formats[int(kind)%len(formats)]
		in := make([]byte, form.size)
		copy(in, data)
		first := form.make()
		first.Decode(in)
		out := make([]byte, form.size)
		first.Encode(out)
		second := form.make()
		second.Decode(out)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s of % x:\n%+v, encoded and decoded\n%+v", form.name(), in, first, second)
		}
		// Encode sets no bit that was not there.
		for i := range out {
			if out[i]&^in[i] != 0 {
				t.Errorf("%s: byte %d became %#x of %#x", form.name(), i, out[i], in[i])
			}
		}
	})
}

// FuzzChecksum: an entry that was sealed is good, and one whose checksum is off by
// anything is not.
func FuzzChecksum(f *testing.F) {
	f.Add(make([]byte, SizeACQEntry), uint16(1))
	f.Add(bytes.Repeat([]byte{0xff}, SizeAQEntryV2), uint16(0x8000))
	f.Fuzz(func(t *testing.T, entry []byte, off uint16) {
		if len(entry) < SizeACQDesc {
			return
		}
		entry = bytes.Clone(entry)
		SealChecksum(entry)
		if !ChecksumOK(entry) {
			t.Fatal("a sealed entry is not good")
		}
		le.PutUint16(entry[checksumOffset:], le.Uint16(entry[checksumOffset:])^off)
		if ChecksumOK(entry) != (off == 0) {
			t.Fatalf("a checksum off by %#x passes", off)
		}
	})
}
