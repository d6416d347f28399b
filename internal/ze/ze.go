// Package ze calls Level Zero, libze_loader.so.1, which is loaded when it is
// first asked for: memory of Intel GPUs that can be exported as a dma-buf.
package ze

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/dl"
)

// LibraryName is what the loader's package installs.
const LibraryName = "libze_loader.so.1"

var library = dl.Runtime{
	Name:  LibraryName,
	Load:  func(handle unsafe.Pointer) string { return C.GoString(C.lz_load(handle)) },
	Start: func() error { return check("zeInit", C.lz_init()) },
}

// Library loads the loader once. It is never unloaded.
func Library() (*dl.Library, error) { return library.Library() }

// Init loads the library and starts the drivers of GPUs. Every other function
// of the package needs it to have succeeded.
func Init() error { return library.Init() }

// Result is a ze_result_t other than success.
type Result uint32

const (
	DeviceLost            Result = 0x70000001
	OutOfHostMemory       Result = 0x70000002
	OutOfDeviceMemory     Result = 0x70000003
	DependencyUnavailable Result = 0x70020000
	Uninitialized         Result = 0x78000001
	UnsupportedVersion    Result = 0x78000002
	UnsupportedFeature    Result = 0x78000003
	InvalidArgument       Result = 0x78000004
	InvalidNullPointer    Result = 0x78000007
	InvalidSize           Result = 0x78000008
	UnsupportedSize       Result = 0x78000009
	UnsupportedEnum       Result = 0x7800000d
	Unknown               Result = 0x7ffffffe
)

var results = map[Result]struct {
	name  string
	class error
}{
	DeviceLost:            {"ZE_RESULT_ERROR_DEVICE_LOST", syscall.EIO},
	OutOfHostMemory:       {"ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY", syscall.ENOMEM},
	OutOfDeviceMemory:     {"ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", syscall.ENOMEM},
	DependencyUnavailable: {"ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE", syscall.ENODEV},
	Uninitialized:         {"ZE_RESULT_ERROR_UNINITIALIZED", syscall.ENODEV},
	UnsupportedVersion:    {"ZE_RESULT_ERROR_UNSUPPORTED_VERSION", errors.ErrUnsupported},
	UnsupportedFeature:    {"ZE_RESULT_ERROR_UNSUPPORTED_FEATURE", errors.ErrUnsupported},
	InvalidArgument:       {"ZE_RESULT_ERROR_INVALID_ARGUMENT", syscall.EINVAL},
	InvalidNullPointer:    {"ZE_RESULT_ERROR_INVALID_NULL_POINTER", syscall.EINVAL},
	InvalidSize:           {"ZE_RESULT_ERROR_INVALID_SIZE", syscall.EINVAL},
	UnsupportedSize:       {"ZE_RESULT_ERROR_UNSUPPORTED_SIZE", syscall.EINVAL},
	UnsupportedEnum:       {"ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION", errors.ErrUnsupported},
	Unknown:               {"ZE_RESULT_ERROR_UNKNOWN", syscall.EIO},
}

// Error is the name and the number.
func (r Result) Error() string {
	if known, ok := results[r]; ok {
		return fmt.Sprintf("%s (%#x)", known.name, uint32(r))
	}
	return fmt.Sprintf("Level Zero result %#x", uint32(r))
}

// Is tells whether the result is of an errno or a class of the standard library.
func (r Result) Is(target error) bool {
	class := results[r].class
	return class != nil && target == class
}

// Error is a function of the library that failed.
type Error struct {
	Op     string
	Result Result
}

func (e *Error) Error() string { return e.Op + ": " + e.Result.Error() }
func (e *Error) Unwrap() error { return e.Result }

func check(op string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return &Error{op, Result(uint32(rc))}
}

// Device is a GPU, or a part of one where the driver shows parts as devices.
type Device struct {
	driver, handle C.lz_handle
}

// Devices gives those of all drivers, in the loader's order.
func Devices() ([]Device, error) {
	var n C.uint32_t
	if err := check("zeDriverGet", C.lz_drivers(&n, nil)); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	drivers := make([]C.lz_handle, n)
	if err := check("zeDriverGet", C.lz_drivers(&n, &drivers[0])); err != nil {
		return nil, err
	}
	var all []Device
	for _, driver := range drivers[:n] {
		var n C.uint32_t
		if err := check("zeDeviceGet", C.lz_devices(driver, &n, nil)); err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		handles := make([]C.lz_handle, n)
		if err := check("zeDeviceGet", C.lz_devices(driver, &n, &handles[0])); err != nil {
			return nil, err
		}
		for _, h := range handles[:n] {
			all = append(all, Device{driver, h})
		}
	}
	return all, nil
}

// Name is the model.
func (d Device) Name() (string, error) {
	var name [256]C.char
	err := check("zeDeviceGetProperties", C.lz_device_name(d.handle, &name[0]))
	return C.GoString(&name[0]), err
}

// PCIAddress is as "0000:3a:00.0".
func (d Device) PCIAddress() (string, error) {
	var a [4]C.uint32_t
	err := check("zeDevicePciGetPropertiesExt", C.lz_device_pci(d.handle, &a[0]))
	return fmt.Sprintf("%04x:%02x:%02x.%d", uint32(a[0]), uint32(a[1]), uint32(a[2]), uint32(a[3])), err
}

// ExportsDMABuf tells whether the driver says it exports the device's memory.
func (d Device) ExportsDMABuf() (bool, error) {
	var types C.uint32_t
	err := check("zeDeviceGetExternalMemoryProperties", C.lz_device_exports(d.handle, &types))
	return types&C.LZ_DMABUF != 0, err
}

// Context is one that memory is allocated in: another context knows nothing of
// it.
type Context struct{ handle C.lz_handle }

var contexts struct {
	sync.Mutex
	of map[C.lz_handle]Context // by driver
}

// Context gives this module's context on the device's driver. It stays.
func (d Device) Context() (Context, error) {
	contexts.Lock()
	defer contexts.Unlock()
	if c, ok := contexts.of[d.driver]; ok {
		return c, nil
	}
	var c Context
	if err := check("zeContextCreate", C.lz_context(d.driver, &c.handle)); err != nil {
		return Context{}, err
	}
	if contexts.of == nil {
		contexts.of = map[C.lz_handle]Context{}
	}
	contexts.of[d.driver] = c
	return c, nil
}

// Alloc gives memory of the device that may be exported.
func (c Context) Alloc(d Device, size, align uint64) (uint64, error) {
	var p C.uintptr_t
	err := check("zeMemAllocDevice", C.lz_alloc(c.handle, d.handle, C.size_t(size), C.size_t(align), &p))
	return uint64(p), err
}

// Free frees what Alloc gave.
func (c Context) Free(p uint64) error {
	return check("zeMemFree", C.lz_free(c.handle, C.uintptr_t(p)))
}

// Range gives the allocation that an address is in.
func (c Context) Range(p uint64) (base, size uint64, err error) {
	var b C.uintptr_t
	var n C.size_t
	err = check("zeMemGetAddressRange", C.lz_range(c.handle, C.uintptr_t(p), &b, &n))
	return uint64(b), uint64(n), err
}

// Owner gives the device that an address is memory of; ok is false where it is
// of none, or not of this context.
func (c Context) Owner(p uint64) (d Device, ok bool, err error) {
	const device = 2 // ZE_MEMORY_TYPE_DEVICE
	var kind C.uint32_t
	err = check("zeMemGetAllocProperties", C.lz_properties(c.handle, C.uintptr_t(p), &kind, &d.handle, nil))
	return d, kind == device && err == nil, err
}

// Is tells whether two values are one device.
func (d Device) Is(other Device) bool { return d.handle == other.handle }

// Export gives the dma-buf of an allocation, -1 where the driver reports success
// and gives none. The descriptor stays the driver's.
func (c Context) Export(p uint64) (fd int, err error) {
	var kind C.uint32_t
	var device C.lz_handle
	var n C.int
	err = check("zeMemGetAllocProperties", C.lz_properties(c.handle, C.uintptr_t(p), &kind, &device, &n))
	return int(n), err
}

// CopyToHost copies device memory from p on into b.
func (c Context) CopyToHost(d Device, b []byte, p uint64) error { return c.copy(d, p, b, 0) }

// CopyToDevice copies b to device memory at p.
func (c Context) CopyToDevice(d Device, p uint64, b []byte) error { return c.copy(d, p, b, 1) }

func (c Context) copy(d Device, p uint64, b []byte, toDevice C.int) error {
	if len(b) == 0 {
		return nil
	}
	return check("zeCommandListAppendMemoryCopy",
		C.lz_copy(c.handle, d.handle, C.uintptr_t(p), unsafe.Pointer(&b[0]), C.size_t(len(b)), toDevice))
}
