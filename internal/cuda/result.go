package cuda

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Result is a CUresult other than success.
type Result int

// Absent stands for a function that the loaded library does not have. It is no
// number of CUDA's.
const Absent Result = -1

// Results that callers tell apart.
const (
	InvalidValue       Result = 1
	OutOfMemory        Result = 2
	Deinitialized      Result = 4
	StubLibrary        Result = 34
	DeviceUnavailable  Result = 46
	NoDevice           Result = 100
	InvalidDevice      Result = 101
	InvalidContext     Result = 201
	InvalidHandle      Result = 400
	NotReady           Result = 600
	IllegalAddress     Result = 700
	PeerAccessEnabled  Result = 704
	ContextIsDestroyed Result = 709
	TooManyPeers       Result = 711
	HostRegistered     Result = 712
	NotPermitted       Result = 800
	NotSupported       Result = 801
	SystemNotReady     Result = 802
	DriverMismatch     Result = 803
	CompatNotSupported Result = 804
	Unknown            Result = 999
)

// results has the names of those that say something about a machine or a
// pointer, with the class that errors.Is finds and what to do.
var results = map[Result]struct {
	name   string
	class  error
	remedy string
}{
	InvalidValue:       {"CUDA_ERROR_INVALID_VALUE", syscall.EINVAL, ""},
	OutOfMemory:        {"CUDA_ERROR_OUT_OF_MEMORY", syscall.ENOMEM, "nvidia-smi shows who has the GPU's memory"},
	Deinitialized:      {"CUDA_ERROR_DEINITIALIZED", fs.ErrClosed, "the process is ending"},
	StubLibrary:        {"CUDA_ERROR_STUB_LIBRARY", syscall.ENODEV, "the loader found the toolkit's stub of libcuda; take it out of LD_LIBRARY_PATH"},
	DeviceUnavailable:  {"CUDA_ERROR_DEVICE_UNAVAILABLE", syscall.ENODEV, "another process has the GPU for itself (compute mode, nvidia-smi -q)"},
	NoDevice:           {"CUDA_ERROR_NO_DEVICE", syscall.ENODEV, "no GPU, or CUDA_VISIBLE_DEVICES or the container hides it"},
	InvalidDevice:      {"CUDA_ERROR_INVALID_DEVICE", syscall.ENODEV, "no GPU of that number"},
	InvalidContext:     {"CUDA_ERROR_INVALID_CONTEXT", syscall.EINVAL, "no context is current, or it is another device's"},
	InvalidHandle:      {"CUDA_ERROR_INVALID_HANDLE", syscall.EINVAL, ""},
	IllegalAddress:     {"CUDA_ERROR_ILLEGAL_ADDRESS", syscall.EFAULT, "a kernel of this process went astray; the context is lost, restart the process"},
	NotReady:           {"CUDA_ERROR_NOT_READY", syscall.EAGAIN, ""},
	PeerAccessEnabled:  {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", fs.ErrExist, ""},
	TooManyPeers:       {"CUDA_ERROR_TOO_MANY_PEERS", syscall.EMFILE, "a GPU has so many peers at most as its hardware can address; end other programs"},
	HostRegistered:     {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", fs.ErrExist, ""},
	ContextIsDestroyed: {"CUDA_ERROR_CONTEXT_IS_DESTROYED", fs.ErrClosed, "somebody reset the device or destroyed the context; the memory went with it"},
	NotPermitted:       {"CUDA_ERROR_NOT_PERMITTED", fs.ErrPermission, ""},
	NotSupported:       {"CUDA_ERROR_NOT_SUPPORTED", errors.ErrUnsupported, ""},
	SystemNotReady:     {"CUDA_ERROR_SYSTEM_NOT_READY", syscall.ENODEV, "start nvidia-fabricmanager (machines with NVSwitch need it)"},
	DriverMismatch:     {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", syscall.ENODEV, "libcuda and the kernel module have different versions; install one version and reload the module"},
	CompatNotSupported: {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", errors.ErrUnsupported, "this GPU cannot use the compatibility package; update the driver"},
	Unknown:            {"CUDA_ERROR_UNKNOWN", syscall.EIO, "look for NVRM or nvidia-uvm in the kernel log"},
}

// Error is the name and the number.
func (r Result) Error() string {
	if r == Absent {
		return "not in the libcuda that is loaded"
	}
	if known, ok := results[r]; ok {
		return fmt.Sprintf("%s (%d)", known.name, int(r))
	}
	if name := C.cu_name(C.int(r)); name != nil {
		return fmt.Sprintf("%s (%d)", C.GoString(name), int(r))
	}
	return fmt.Sprintf("CUDA error %d", int(r))
}

// Is tells whether the result is of an errno or a class of the standard library.
func (r Result) Is(target error) bool {
	if r == Absent {
		return target == errors.ErrUnsupported
	}
	class := results[r].class
	return class != nil && target == class
}

// Remedy says what to do, or nothing.
func (r Result) Remedy() string { return results[r].remedy }
