package provider

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Library is a shared library as the file has it.
type Library struct {
	file     *elf.File
	text     []span            // what can be executed, by address
	words    map[uint64]uint64 // words that the loader makes pointers: by address, to an address
	imported map[uint64]bool   // words that the loader points to another library
	symbols  []elf.Symbol
}

type span struct{ low, high uint64 }

func (s span) holds(a uint64) bool { return a >= s.low && a < s.high }

// ErrUnknown is that a function was not found; the text around it tells why.
var ErrUnknown = errors.New("not found")

// ReadLibrary reads a library of a 64-bit little-endian machine.
func ReadLibrary(r io.ReaderAt) (*Library, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Type != elf.ET_DYN ||
		f.Machine != elf.EM_X86_64 && f.Machine != elf.EM_AARCH64 {
		return nil, fmt.Errorf("read library: %v %v %v: only shared libraries for x86-64 and arm64 are known", f.Type, f.Machine, f.Class)
	}
	l := &Library{file: f, words: make(map[uint64]uint64), imported: make(map[uint64]bool)}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			l.text = append(l.text, span{p.Vaddr, p.Vaddr + p.Filesz})
		}
	}
	if len(l.text) == 0 {
		return nil, errors.New("read library: it has no code")
	}
	if l.symbols, err = f.DynamicSymbols(); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("read library: %w", err)
	}
	if err := l.relocate(); err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	return l, nil
}

func (l *Library) isCode(a uint64) bool {
	return slices.ContainsFunc(l.text, func(s span) bool { return s.holds(a) })
}

// relocate collects the pointers that the loader makes: relative ones (psABI of x86-64
// and AArch64) and those to the library's own functions.
func (l *Library) relocate() error {
	relative, absolute := uint32(elf.R_X86_64_RELATIVE), uint32(elf.R_X86_64_64)
	if l.file.Machine == elf.EM_AARCH64 {
		relative, absolute = uint32(elf.R_AARCH64_RELATIVE), uint32(elf.R_AARCH64_ABS64)
	}
	for _, s := range l.file.Sections {
		switch s.Type {
		case elf.SHT_RELA:
			data, err := s.Data()
			if err != nil {
				return fmt.Errorf("section %s: %w", s.Name, err)
			}
			for ; len(data) >= 24; data = data[24:] {
				at, info, addend := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
				switch kind, symbol := uint32(info), uint32(info>>32); {
				case kind == relative:
					l.words[at] = addend
				case kind == absolute && symbol > 0 && int(symbol) <= len(l.symbols):
					if v := l.symbols[symbol-1].Value; v != 0 {
						l.words[at] = v + addend
					} else {
						l.imported[at] = true
					}
				}
			}
		case shtRelr:
			data, err := s.Data()
			if err != nil {
				return fmt.Errorf("section %s: %w", s.Name, err)
			}
			if err := l.relocateRelr(data); err != nil {
				return fmt.Errorf("section %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

const shtRelr = elf.SectionType(19)

// relocateRelr takes the compact form of relative relocations (generic ABI, SHT_RELR):
// an even entry is an address, an odd one a bit for each of the 63 words that follow.
func (l *Library) relocateRelr(data []byte) error {
	var at uint64
	take := func(a uint64) error {
		v, err := l.word(a)
		if err == nil {
			l.words[a] = v
		}
		return err
	}
	for ; len(data) >= 8; data = data[8:] {
		entry := binary.LittleEndian.Uint64(data)
		if entry&1 == 0 {
			if err := take(entry); err != nil {
				return err
			}
			at = entry + 8
			continue
		}
		for i, bits := uint64(0), entry>>1; bits != 0; i, bits = i+1, bits>>1 {
			if bits&1 != 0 {
				if err := take(at + 8*i); err != nil {
					return err
				}
			}
		}
		at += 63 * 8
	}
	return nil
}

func (l *Library) word(a uint64) (uint64, error) {
	var b [8]byte
	if err := l.read(a, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// read reads what the file has at an address.
func (l *Library) read(a uint64, b []byte) error {
	for _, p := range l.file.Progs {
		if p.Type == elf.PT_LOAD && a >= p.Vaddr && a+uint64(len(b)) <= p.Vaddr+p.Filesz {
			_, err := p.ReadAt(b, int64(a-p.Vaddr))
			return err
		}
	}
	return fmt.Errorf("address %#x is not in the file", a)
}

// Offset gives where in the file an address's code is.
func (l *Library) Offset(a uint64) (uint64, error) {
	for _, p := range l.file.Progs {
		if p.Type == elf.PT_LOAD && a >= p.Vaddr && a < p.Vaddr+p.Filesz {
			return a - p.Vaddr + p.Off, nil
		}
	}
	return 0, fmt.Errorf("address %#x is not in the file", a)
}

// Address is the opposite of Offset, for code.
func (l *Library) Address(offset uint64) (uint64, error) {
	for _, p := range l.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && offset >= p.Off && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr, nil
		}
	}
	return 0, fmt.Errorf("offset %#x is no code", offset)
}
