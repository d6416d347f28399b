package dmabuf

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of amdkfd and their arguments: linux/kfd_ioctl.h, version 7.3.
const (
	ioctlKFDGetVersion   = 0x80084b01 // AMDKFD_IOC_GET_VERSION
	ioctlKFDAcquireVM    = 0x40084b15 // AMDKFD_IOC_ACQUIRE_VM
	ioctlKFDAllocMemory  = 0xc0284b16 // AMDKFD_IOC_ALLOC_MEMORY_OF_GPU
	ioctlKFDFreeMemory   = 0x40084b17 // AMDKFD_IOC_FREE_MEMORY_OF_GPU
	ioctlKFDExportDMABuf = 0xc0104b24 // AMDKFD_IOC_EXPORT_DMABUF

	kfdExportMinor = 12 // of version 1: the first that exports

	kfdVRAM         = 1 << 0  // KFD_IOC_ALLOC_MEM_FLAGS_VRAM
	kfdNoSubstitute = 1 << 28 // KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE
	kfdPublic       = 1 << 29 // KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC
	kfdExecutable   = 1 << 30 // KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE
	kfdWritable     = 1 << 31 // KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
)

type (
	kfdVersion   struct{ major, minor uint32 } // struct kfd_ioctl_get_version_args
	kfdAcquireVM struct{ drmFD, gpuID uint32 } // struct kfd_ioctl_acquire_vm_args
	kfdFree      struct{ handle uint64 }       // struct kfd_ioctl_free_memory_of_gpu_args
	kfdAlloc     struct {                      // struct kfd_ioctl_alloc_memory_of_gpu_args
		address, size, handle, mmapOffset uint64
		gpuID, flags                      uint32
	}
	kfdExport struct { // struct kfd_ioctl_export_dmabuf_args
		handle    uint64
		flags, fd uint32
	}
)

func (x *amdExporter) checkVersion(kfd int) error {
	const op = "AMDKFD_IOC_GET_VERSION"
	var v kfdVersion
	if err := ioctlRetry(kfd, ioctlKFDGetVersion, unsafe.Pointer(&v)); err != nil {
		return &Error{Op: op, Exporter: x.Name(), Err: err}
	}
	if v.major != 1 || v.minor < kfdExportMinor {
		return &Error{Op: op, Exporter: x.Name(), Err: ErrUnsupported,
			Detail: fmt.Sprintf("amdkfd's interface is %d.%d, and exports dma-bufs from 1.%d on; take a newer kernel, or let ROCm allocate and adopt", v.major, v.minor, kfdExportMinor)}
	}
	return nil
}

// kfdDevice is a GPU opened for allocation. The driver binds a GPU's address
// space to one file of its render node for the life of the process, so both
// files stay open once they are.
type kfdDevice struct {
	kfd, render int
	gpuID       uint32
}

var kfdDevices struct {
	sync.Mutex
	open map[string]*kfdDevice // by the render node's path
}

func (x *amdExporter) device() (*kfdDevice, error) {
	n, err := x.node()
	if err != nil {
		return nil, err
	}
	kfdDevices.Lock()
	defer kfdDevices.Unlock()
	path := x.renderPath(n)
	if d := kfdDevices.open[path]; d != nil {
		return d, nil
	}
	kfd, err := openNode(x.Name(), x.kfdPath(), kfdMissing)
	if err != nil {
		return nil, err
	}
	render, err := openNode(x.Name(), path, kfdMissing)
	if err != nil {
		unix.Close(kfd)
		return nil, err
	}
	d := &kfdDevice{kfd, render, n.gpuID}
	if err := x.acquire(d); err != nil {
		unix.Close(kfd)
		unix.Close(render)
		return nil, err
	}
	if kfdDevices.open == nil {
		kfdDevices.open = map[string]*kfdDevice{}
	}
	kfdDevices.open[path] = d
	return d, nil
}

func (x *amdExporter) acquire(d *kfdDevice) error {
	if err := x.checkVersion(d.kfd); err != nil {
		return err
	}
	arg := kfdAcquireVM{uint32(d.render), d.gpuID}
	err := ioctlRetry(d.kfd, ioctlKFDAcquireVM, unsafe.Pointer(&arg))
	if err == nil {
		return nil
	}
	detail := ""
	if err == syscall.EBUSY {
		detail = "the ROCm runtime in this process has the GPU already: let it allocate, and adopt its pointer"
	}
	return &Error{Op: "AMDKFD_IOC_ACQUIRE_VM", Exporter: x.Name(), Err: err, Detail: detail}
}

// Allocate gives memory of the GPU that PCI reaches, whole pages of it.
func (x *amdExporter) Allocate(size uint64) (Memory, error) {
	size, err := allocation(x.Name(), size)
	if err != nil {
		return nil, err
	}
	d, err := x.device()
	if err != nil {
		return nil, err
	}
	// The GPU's addresses are the process's: nothing else may come there.
	space, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, &Error{Op: "mmap", Exporter: x.Name(), Err: err, Detail: "no addresses for the GPU's memory"}
	}
	arg := kfdAlloc{address: addressOf(space), size: size, gpuID: d.gpuID,
		flags: kfdVRAM | kfdPublic | kfdNoSubstitute | kfdExecutable | kfdWritable}
	if err := ioctlRetry(d.kfd, ioctlKFDAllocMemory, unsafe.Pointer(&arg)); err != nil {
		detail := ""
		switch err {
		case syscall.ENOMEM:
			detail = "the GPU has not that much memory left (rocm-smi shows who has it)"
		case syscall.EINVAL:
			detail = "the driver gives no memory in reach of PCI: is resizable BAR on?"
		}
		return nil, errors.Join(&Error{Op: "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", Exporter: x.Name(), Err: err, Detail: detail}, unix.Munmap(space))
	}
	m := &kfdMemory{device: d, handle: arg.handle, space: space}
	export := kfdExport{handle: arg.handle, flags: unix.O_CLOEXEC | unix.O_RDWR}
	if err := ioctlRetry(d.kfd, ioctlKFDExportDMABuf, unsafe.Pointer(&export)); err != nil {
		return nil, errors.Join(&Error{Op: "AMDKFD_IOC_EXPORT_DMABUF", Exporter: x.Name(), Err: err, Detail: fdDetail(err)}, m.free(x.Name()))
	}
	data, err := unix.Mmap(d.render, int64(arg.mmapOffset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(int(export.fd))
		return nil, errors.Join(&Error{Op: "mmap of the GPU's memory", Exporter: x.Name(), Err: err}, m.free(x.Name()))
	}
	m.hostMemory = newHostMemory(x.Name(), int(export.fd), data, size)
	return m, nil
}

// kfdMemory is memory of a GPU, exported once as a whole and mapped by its BAR.
type kfdMemory struct {
	*hostMemory
	device *kfdDevice
	handle uint64
	space  []byte // the addresses it has on the GPU; nil once it is freed
}

// Address is the GPU's.
func (m *kfdMemory) Address() uint64 { return addressOf(m.space) }

// Close frees the memory; buffers of it stay valid.
func (m *kfdMemory) Close() error {
	if err := m.hostMemory.Close(); err != nil {
		return err
	}
	return m.free(m.exporter)
}

func (m *kfdMemory) free(exporter string) error {
	if m.space == nil {
		return nil
	}
	arg := kfdFree{m.handle}
	if err := ioctlRetry(m.device.kfd, ioctlKFDFreeMemory, unsafe.Pointer(&arg)); err != nil {
		return &Error{Op: "AMDKFD_IOC_FREE_MEMORY_OF_GPU", Exporter: exporter, Err: err}
	}
	err := unix.Munmap(m.space)
	m.space = nil
	return err
}
