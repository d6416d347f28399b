package provider

import (
	"bytes"
	"debug/elf"
	"fmt"
)

// Instructions at which a breakpoint is dear or not safe.
var (
	endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}
	// What compilers leave for tracers. Kernels from 6.18 on make a call of it, and
	// before a fix in 7.x that call overwrites the 128 bytes below the stack pointer,
	// which belong to the function that it interrupts.
	nop5 = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
)

// Site gives the offset in the file at which to attach to a function: behind endbr64,
// where a breakpoint costs ten times as much, and behind a nop of five bytes. Arguments
// and the return address stand there as at the function's beginning.
func (l *Library) Site(function uint64) (offset uint64, err error) {
	if !l.isCode(function) {
		return 0, fmt.Errorf("address %#x is no code", function)
	}
	if l.file.Machine == elf.EM_X86_64 {
		for range 2 {
			var b [5]byte
			if err := l.read(function, b[:]); err != nil {
				return 0, err
			}
			switch {
			case bytes.HasPrefix(b[:], endbr64):
				function += uint64(len(endbr64))
			case bytes.Equal(b[:], nop5):
				function += uint64(len(nop5))
			}
		}
	}
	return l.Offset(function)
}
