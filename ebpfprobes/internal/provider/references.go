package provider

import (
	"debug/elf"
	"encoding/binary"
)

// references gives the addresses outside of the code that the code computes: every
// object that it uses begins at one. Bytes are looked at wherever an instruction may
// begin, so that a few addresses more than the real ones may be among them.
func (l *Library) references() (map[uint64]bool, error) {
	found := make(map[uint64]bool)
	for _, s := range l.text {
		code := make([]byte, s.high-s.low)
		if err := l.read(s.low, code); err != nil {
			return nil, err
		}
		note := func(a uint64) {
			if !l.isCode(a) {
				found[a] = true
			}
		}
		if l.file.Machine == elf.EM_X86_64 {
			leaTargets(code, s.low, note)
		} else {
			adrpTargets(code, s.low, note)
		}
	}
	return found, nil
}

// leaTargets finds "lea register, [rip+displacement]".
func leaTargets(code []byte, at uint64, note func(uint64)) {
	for i := 0; i+7 <= len(code); i++ {
		if code[i]&0xfb == 0x48 && code[i+1] == 0x8d && code[i+2]&0xc7 == 0x05 {
			displacement := int32(binary.LittleEndian.Uint32(code[i+3:]))
			note(at + uint64(i) + 7 + uint64(int64(displacement)))
		}
	}
}

// adrpTargets finds "adrp register, page" that an "add register, register, #offset"
// follows within a few instructions.
func adrpTargets(code []byte, at uint64, note func(uint64)) {
	const apart = 8
	for i := 0; i+4 <= len(code); i += 4 {
		w := binary.LittleEndian.Uint32(code[i:])
		if w&0x9f000000 != 0x90000000 {
			continue
		}
		pages := int64(int32(w&0x00ffffe0)<<8)>>13<<2 | int64(w>>29&3)
		page := (at+uint64(i))&^0xfff + uint64(pages<<12)
		for j := i + 4; j < i+4*apart && j+4 <= len(code); j += 4 {
			a := binary.LittleEndian.Uint32(code[j:])
			// Without a shift, and of the same register.
			if a&0xffc00000 == 0x91000000 && a>>5&31 == w&31 {
				note(page + uint64(a>>10&0xfff))
				break
			}
		}
	}
}
