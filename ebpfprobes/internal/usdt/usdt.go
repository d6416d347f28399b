// Package usdt finds static probes (USDT) in ELF files by their notes, .note.stapsdt, as
// SystemTap's documentation of UserSpaceProbeImplementation describes them. Any program on
// the machine may have such a file, so nothing in it is believed.
package usdt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Probe is a site in a file.
type Probe struct {
	Provider, Name string
	Site           uint64 // offset in the file
	Semaphore      uint64 // offset in the file; 0 is none
	Arguments      string // as the note describes them, for the machine's registers
}

// ErrNone is a file without notes of probes.
var ErrNone = errors.New("the file has no static probes (section .note.stapsdt)")

// FormatError is a file that is not what it should be.
type FormatError struct{ What string }

func (e *FormatError) Error() string { return "not a file with static probes: " + e.What }

func bad(format string, a ...any) error { return &FormatError{fmt.Sprintf(format, a...)} }

// ELF, of 64 bits and little endian.
const (
	headerSize  = 64
	sectionSize = 64
	segmentSize = 56
	typeNote    = 3 // of a note: a probe of SystemTap
	noBits      = 8 // of a section: nothing of it is in the file
	loaded      = 1 // of a segment

	mostNames = 1 << 20 // bytes of section names that are read
	mostNotes = 1 << 20 // and of notes
)

var order = binary.LittleEndian

// file is what is needed of an ELF file.
type file struct {
	io.ReaderAt
	size     int64
	segments []segment
}

type segment struct{ offset, address, length uint64 }

type section struct{ kind, address, offset, size uint64 }

// Read gives a file's probes. size is the file's.
func Read(r io.ReaderAt, size int64) ([]Probe, error) {
	f := &file{ReaderAt: r, size: size}
	h, err := f.bytes(0, headerSize)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(h[:6], []byte("\x7fELF\x02\x01")) {
		return nil, bad("no ELF file of 64 bits, little endian")
	}
	notes, base, err := f.sections(h)
	if err != nil {
		return nil, err
	}
	if notes.size > mostNotes {
		return nil, bad("%d bytes of notes", notes.size)
	}
	if err := f.readSegments(h); err != nil {
		return nil, err
	}
	b, err := f.bytes(notes.offset, notes.size)
	if err != nil {
		return nil, err
	}
	return f.probes(b, base)
}

func (f *file) bytes(at, n uint64) ([]byte, error) {
	if n > uint64(f.size) || at > uint64(f.size)-n {
		return nil, bad("%d bytes at %#x are outside of it", n, at)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, int64(at)); err != nil {
		return nil, err
	}
	return b, nil
}

// sections finds the notes, and the address that .stapsdt.base has in the file; 0 if there
// is none.
func (f *file) sections(h []byte) (notes section, base uint64, err error) {
	table, count, names := order.Uint64(h[40:]), uint64(order.Uint16(h[60:])), uint64(order.Uint16(h[62:]))
	if order.Uint16(h[58:]) != sectionSize || count == 0 {
		return notes, 0, ErrNone // no sections, or more than are numbered in 16 bits
	}
	b, err := f.bytes(table, count*sectionSize)
	if err != nil {
		return notes, 0, err
	}
	at := func(i uint64) section {
		s := b[i*sectionSize:]
		return section{uint64(order.Uint32(s[4:])), order.Uint64(s[16:]), order.Uint64(s[24:]), order.Uint64(s[32:])}
	}
	if names >= count || at(names).size > mostNames {
		return notes, 0, bad("no names of sections")
	}
	text, err := f.bytes(at(names).offset, at(names).size)
	if err != nil {
		return notes, 0, err
	}
	found := false
	for i := range count {
		switch s := at(i); name(text, order.Uint32(b[i*sectionSize:])) {
		case ".note.stapsdt":
			notes, found = s, s.kind != noBits
		case ".stapsdt.base":
			base = s.address
		}
	}
	if !found {
		return notes, 0, ErrNone
	}
	return notes, base, nil
}

func name(text []byte, at uint32) string {
	if uint64(at) >= uint64(len(text)) {
		return ""
	}
	s, _, _ := bytes.Cut(text[at:], []byte{0})
	return string(s)
}

func (f *file) readSegments(h []byte) error {
	table, count := order.Uint64(h[32:]), uint64(order.Uint16(h[56:]))
	if order.Uint16(h[54:]) != segmentSize {
		return bad("no segments")
	}
	b, err := f.bytes(table, count*segmentSize)
	if err != nil {
		return err
	}
	for ; len(b) > 0; b = b[segmentSize:] {
		if order.Uint32(b) == loaded {
			f.segments = append(f.segments, segment{order.Uint64(b[8:]), order.Uint64(b[16:]), order.Uint64(b[32:])})
		}
	}
	return nil
}

// offset is where in the file an address is loaded from.
func (f *file) offset(address uint64) (uint64, bool) {
	for _, s := range f.segments {
		if in := address - s.address; address >= s.address && in < s.length {
			at := s.offset + in
			return at, at >= in && at < uint64(f.size)
		}
	}
	return 0, false
}

// probes reads notes. What is no probe is skipped; a probe that is not in the file is an
// error.
func (f *file) probes(b []byte, base uint64) (list []Probe, err error) {
	for len(b) >= 12 {
		owner, length, kind := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
		from := 12 + (owner+3)&^3
		to := from + (length+3)&^3
		if from+length > uint64(len(b)) {
			return nil, bad("a note that goes on behind the last")
		}
		if kind == typeNote && string(b[12:12+owner]) == "stapsdt\x00" {
			p, err := f.probe(b[from:from+length], base)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
		b = b[min(to, uint64(len(b))):]
	}
	if list == nil {
		return nil, ErrNone
	}
	return list, nil
}

func (f *file) probe(b []byte, base uint64) (p Probe, err error) {
	if len(b) < 24 {
		return p, bad("a note of %d bytes", len(b))
	}
	site, linked, semaphore := order.Uint64(b), order.Uint64(b[8:]), order.Uint64(b[16:])
	words := bytes.SplitN(b[24:], []byte{0}, 4)
	if len(words) != 4 {
		return p, bad("a note without three words")
	}
	p.Provider, p.Name, p.Arguments = string(words[0]), string(words[1]), string(words[2])
	var moved uint64 // by prelink, since the note was written
	if base != 0 {
		moved = base - linked
	}
	var ok bool
	if p.Site, ok = f.offset(site + moved); !ok {
		return p, bad("probe %s is at %#x, which is not loaded", p.Name, site)
	}
	if semaphore == 0 {
		return p, nil
	}
	if p.Semaphore, ok = f.offset(semaphore + moved); !ok || p.Semaphore == 0 {
		return p, bad("the semaphore of probe %s is at %#x, which is not loaded", p.Name, semaphore)
	}
	return p, nil
}
