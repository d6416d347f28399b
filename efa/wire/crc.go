package wire

// checksumOffset is where the checksum lies, in AQDescV2 and in ACQDesc alike.
const checksumOffset = 4

// CRC16 goes on with the reflected CRC of polynomial 0x8005 (in that order of
// bits 0xA001) over b from crc, as the kernel's crc16 does.
func CRC16(crc uint16, b []byte) uint16 {
	for _, x := range b {
		crc = crc>>8 ^ crcTable[byte(crc)^x]
	}
	return crc
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0xa001
			} else {
				crc >>= 1
			}
		}
		t[i] = crc
	}
	return t
}()

// Checksum gives the checksum of a whole admin entry (a 128-byte command or a
// completion): CRC16 from 0xffff over all its bytes, those of the checksum
// itself taken as zero, inverted. It does not change the entry.
func Checksum(entry []byte) uint16 {
	crc := CRC16(0xffff, entry[:checksumOffset])
	crc = CRC16(crc, []byte{0, 0})
	return ^CRC16(crc, entry[checksumOffset+2:])
}

// SealChecksum puts the checksum into a whole admin entry; nothing in it may
// change afterwards.
func SealChecksum(entry []byte) {
	le.PutUint16(entry[checksumOffset:], Checksum(entry))
}

// ChecksumOK reports whether a whole admin entry has the checksum it should.
func ChecksumOK(entry []byte) bool {
	return le.Uint16(entry[checksumOffset:]) == Checksum(entry)
}
