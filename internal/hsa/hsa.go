// Package hsa calls AMD's ROCm runtime, libhsa-runtime64.so.1, which is loaded
// when it is first asked for: what a dma-buf of memory needs that other code of
// the process allocated by it.
package hsa

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/dl"
)

// LibraryName is what the runtime's package installs.
const LibraryName = "libhsa-runtime64.so.1"

var library = dl.Runtime{
	Name:  LibraryName,
	Load:  func(handle unsafe.Pointer) string { return C.GoString(C.hs_load(handle)) },
	Start: func() error { return check("hsa_init", C.hs_init()) },
}

// Library loads the runtime once. It is never unloaded. Dma-bufs came with ROCm 5.6:
// one that is older is a *dl.TooOldError.
func Library() (*dl.Library, error) { return library.Library() }

// Init loads the library and starts the runtime, or takes part in the one that
// other code of the process started. It stays started.
func Init() error { return library.Init() }

// Status is an hsa_status_t other than success.
type Status int

const (
	InvalidArgument   Status = 0x1001 // HSA_STATUS_ERROR_INVALID_ARGUMENT
	InvalidAllocation Status = 0x1003 // HSA_STATUS_ERROR_INVALID_ALLOCATION
	InvalidAgent      Status = 0x1004 // HSA_STATUS_ERROR_INVALID_AGENT
	OutOfResources    Status = 0x1008 // HSA_STATUS_ERROR_OUT_OF_RESOURCES
	NotInitialized    Status = 0x100b // HSA_STATUS_ERROR_NOT_INITIALIZED
)

var statuses = map[Status]struct {
	name  string
	class error
}{
	0x1000:            {"HSA_STATUS_ERROR", syscall.EIO},
	InvalidArgument:   {"HSA_STATUS_ERROR_INVALID_ARGUMENT", syscall.EINVAL},
	InvalidAllocation: {"HSA_STATUS_ERROR_INVALID_ALLOCATION", syscall.EINVAL},
	InvalidAgent:      {"HSA_STATUS_ERROR_INVALID_AGENT", errors.ErrUnsupported},
	OutOfResources:    {"HSA_STATUS_ERROR_OUT_OF_RESOURCES", syscall.ENOMEM},
	NotInitialized:    {"HSA_STATUS_ERROR_NOT_INITIALIZED", syscall.ENODEV},
}

// Error is the name and the number.
func (s Status) Error() string {
	if known, ok := statuses[s]; ok {
		return fmt.Sprintf("%s (%#x)", known.name, int(s))
	}
	if text := C.hs_text(C.int(s)); text != nil {
		return fmt.Sprintf("%s (%#x)", C.GoString(text), int(s))
	}
	return fmt.Sprintf("HSA status %#x", int(s))
}

// Is tells whether the status is of an errno or a class of the standard library.
func (s Status) Is(target error) bool {
	class := statuses[s].class
	return class != nil && target == class
}

// Error is a function of the runtime that failed.
type Error struct {
	Op     string
	Status Status
}

func (e *Error) Error() string { return e.Op + ": " + e.Status.Error() }
func (e *Error) Unwrap() error { return e.Status }

func check(op string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return &Error{op, Status(rc)}
}

// Pointer types, hsa_amd_pointer_type_t.
const (
	TypeUnknown = 0
	TypeHSA     = 1
	TypeLocked  = 2
)

// Pointer is what the runtime knows of an address.
type Pointer struct {
	Type  int
	Base  uint64 // of the allocation, as the accelerator sees it
	Size  uint64 // of the allocation, in bytes
	Owner uint64 // the agent
}

// PointerInfo asks for the allocation that an address is in; of an address that
// the runtime does not know it gives TypeUnknown.
func PointerInfo(p uint64) (Pointer, error) {
	var info C.struct_hs_pointer
	err := check("hsa_amd_pointer_info", C.hs_pointer_info(C.uintptr_t(p), &info))
	return Pointer{int(info._type), uint64(info.agent_base), uint64(info.bytes), uint64(info.owner)}, err
}

// AgentAddress is an agent's PCI address: the domain, and bus, device and
// function in the low 16 bits.
func AgentAddress(agent uint64) (domain, bdf uint32, err error) {
	var d, b C.uint32_t
	err = check("hsa_agent_get_info", C.hs_agent_address(C.uint64_t(agent), &d, &b))
	return uint32(d), uint32(b), err
}

// Export gives a dma-buf of the allocation around size bytes at p, and where in
// it p is.
func Export(p, size uint64) (fd int, offset uint64, err error) {
	var n C.int
	var at C.uint64_t
	err = check("hsa_amd_portable_export_dmabuf", C.hs_export(C.uintptr_t(p), C.size_t(size), &n, &at))
	return int(n), uint64(at), err
}

// CopyToHost copies accelerator memory from p on into b.
func CopyToHost(b []byte, p uint64) error {
	if len(b) == 0 {
		return nil
	}
	return check("hsa_memory_copy", C.hs_to_host(unsafe.Pointer(&b[0]), C.uintptr_t(p), C.size_t(len(b))))
}

// CopyToDevice copies b to accelerator memory at p.
func CopyToDevice(p uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return check("hsa_memory_copy", C.hs_to_device(C.uintptr_t(p), unsafe.Pointer(&b[0]), C.size_t(len(b))))
}
