// Package cuda calls the CUDA driver library, libcuda.so.1, which is loaded
// when it is first asked for. It declares what it calls by itself: building it
// needs no toolkit, and a program with it starts on machines without a GPU.
//
// Calls that need a context make it current on the calling thread, call, and
// take it away again, all in one call into C.
package cuda

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/dl"
)

// LibraryName is what the driver's package installs; the toolkit's stub of the
// library has the plain name, and is of no use.
const LibraryName = "libcuda.so.1"

var library = dl.Runtime{
	Name:  LibraryName,
	Load:  func(handle unsafe.Pointer) string { return C.GoString(C.cu_load(handle)) },
	Start: func() error { return check("cuInit", C.cu_init()) },
}

// Library loads the driver library once. It is never unloaded. One that lacks what
// every driver has since CUDA 11.0 is a *dl.TooOldError.
func Library() (*dl.Library, error) { return library.Library() }

// Init loads the library and starts the driver: half a second or more on a
// machine with GPUs, nothing the second time. Every other function of the
// package needs it to have succeeded.
func Init() error { return library.Init() }

// Error is a function of the library that failed.
type Error struct {
	Op     string // "cuMemAlloc"
	Result Result
}

func (e *Error) Error() string { return e.Op + ": " + e.Result.Error() }

func (e *Error) Unwrap() error { return e.Result }

func check(op string, rc C.int) error {
	switch {
	case rc == 0:
		return nil
	case rc&C.CU_ABSENT != 0:
		return &Error{op, Absent}
	case rc&C.CU_NOT_CURRENT != 0:
		return &Error{"cuCtxPushCurrent", Result(rc &^ C.CU_NOT_CURRENT)}
	}
	return &Error{op, Result(rc)}
}

// HasExport tells whether the driver knows dma-bufs: from CUDA 11.7 on.
func HasExport() bool { return C.cu_has_export() != 0 }

// DriverVersion is the newest CUDA that the driver serves, "12.4".
func DriverVersion() (string, error) {
	var v C.int
	if err := check("cuDriverGetVersion", C.cu_driver_version(&v)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), nil
}

// Device is a GPU as the driver counts them: of those that CUDA_VISIBLE_DEVICES
// leaves.
type Device int

// Devices is how many there are.
func Devices() (int, error) {
	var n C.int
	err := check("cuDeviceGetCount", C.cu_device_count(&n))
	return int(n), err
}

// GetDevice gives the device of an ordinal.
func GetDevice(ordinal int) (Device, error) {
	var d C.int
	err := check("cuDeviceGet", C.cu_device(C.int(ordinal), &d))
	return Device(d), err
}

// Name is the model, "NVIDIA H200".
func (d Device) Name() (string, error) {
	var name [128]C.char
	err := check("cuDeviceGetName", C.cu_device_name(C.int(d), &name[0], C.int(len(name))))
	return C.GoString(&name[0]), err
}

// PCIAddress is as "0000:3b:00.0", with capital letters as the driver gives it.
func (d Device) PCIAddress() (string, error) {
	var name [32]C.char
	err := check("cuDeviceGetPCIBusId", C.cu_device_pci(C.int(d), &name[0], C.int(len(name))))
	return C.GoString(&name[0]), err
}

// DeviceAttribute is a number of CUdevice_attribute.
type DeviceAttribute int

const (
	CopyEngines         DeviceAttribute = 40  // ASYNC_ENGINE_COUNT
	VMMSupported        DeviceAttribute = 102 // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
	RDMAWithVMM         DeviceAttribute = 110 // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
	PoolsSupported      DeviceAttribute = 115 // MEMORY_POOLS_SUPPORTED
	RDMASupported       DeviceAttribute = 116 // GPU_DIRECT_RDMA_SUPPORTED
	RDMAFlushOptions    DeviceAttribute = 117 // GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
	RDMAWritesOrdering  DeviceAttribute = 118 // GPU_DIRECT_RDMA_WRITES_ORDERING
	DMABufSupported     DeviceAttribute = 124 // DMA_BUF_SUPPORTED
	PoolHandleTypes     DeviceAttribute = 119 // MEMPOOL_SUPPORTED_HANDLE_TYPES
	IntegratedWithHost  DeviceAttribute = 18  // INTEGRATED
	HostPageTablesInUse DeviceAttribute = 100 // PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
)

// Attribute reads one. An attribute that the driver does not know is an error
// of CUDA_ERROR_INVALID_VALUE.
func (d Device) Attribute(a DeviceAttribute) (int, error) {
	var v C.int
	err := check("cuDeviceGetAttribute", C.cu_device_attribute(C.int(d), C.int(a), &v))
	return int(v), err
}

// Context is a context's handle. The zero Context stands for whatever is
// current on the thread, which in a program of Go is none.
type Context uintptr

// RetainPrimary makes sure that the device's primary context lives until
// ReleasePrimary; it is the one that the runtime library and all frameworks use.
func (d Device) RetainPrimary() (Context, error) {
	var c C.cu_opaque
	err := check("cuDevicePrimaryCtxRetain", C.cu_primary_retain(C.int(d), &c))
	return Context(c), err
}

// ReleasePrimary takes one RetainPrimary back.
func (d Device) ReleasePrimary() error {
	return check("cuDevicePrimaryCtxRelease", C.cu_primary_release(C.int(d)))
}

// ResetPrimary destroys all that is in the primary context, whoever made it.
func (d Device) ResetPrimary() error {
	return check("cuDevicePrimaryCtxReset", C.cu_primary_reset(C.int(d)))
}

// CreateContext makes one beside the primary context.
func (d Device) CreateContext() (Context, error) {
	var c C.cu_opaque
	err := check("cuCtxCreate", C.cu_context_create(C.int(d), &c))
	return Context(c), err
}

// Destroy ends a context of CreateContext, and frees what is in it.
func (c Context) Destroy() error {
	return check("cuCtxDestroy", C.cu_context_destroy(C.cu_opaque(c)))
}
