package wire

import "testing"

// The catalogue of parametrised CRC algorithms gives each of these its check value,
// the CRC of "123456789". They have polynomial 0x8005 reflected in common, and
// differ in how they begin and end.
func TestCRC16(t *testing.T) {
	for _, c := range []struct {
		name             string
		begin, end, want uint16
	}{
		{"CRC-16/ARC", 0, 0, 0xbb3d},
		{"CRC-16/MODBUS", 0xffff, 0, 0x4b37},
		{"CRC-16/USB", 0xffff, 0xffff, 0xb4c8}, // the one of admin entries
	} {
		if got := CRC16(c.begin, []byte("123456789")) ^ c.end; got != c.want {
			t.Errorf("%s: %#04x, want %#04x", c.name, got, c.want)
		}
	}
}

func TestChecksum(t *testing.T) {
	for _, size := range []int{SizeACQEntry, SizeAQEntryV2} {
		entry := make([]byte, size)
		for i := range entry {
			entry[i] = byte(7*i + 1)
		}
		zeroed := append([]byte(nil), entry...)
		zeroed[4], zeroed[5] = 0, 0
		if got, want := Checksum(entry), CRC16(0xffff, zeroed)^0xffff; got != want {
			t.Errorf("%d bytes: checksum %#04x, want that over the entry with its field zero, %#04x", size, got, want)
		}
		SealChecksum(entry)
		if !ChecksumOK(entry) {
			t.Errorf("%d bytes: a sealed entry is not good", size)
		}
		// A CRC sees every single bit.
		for i := range entry {
			for bit := range 8 {
				entry[i] ^= 1 << bit
				if ChecksumOK(entry) {
					t.Errorf("%d bytes: bit %d of byte %d goes unnoticed", size, bit, i)
				}
				entry[i] ^= 1 << bit
			}
		}
	}
}
