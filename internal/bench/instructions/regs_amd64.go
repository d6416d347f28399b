package instructions

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func counter(tid int) (uint64, error) {
	var r unix.PtraceRegs
	err := unix.PtraceGetRegs(tid, &r)
	return r.Rip, err
}

func addr(b *[128]byte) uintptr { return uintptr(unsafe.Pointer(b)) }
