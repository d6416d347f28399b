package dmabuf

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/errname"
	"golang.org/x/sys/unix"
)

var heapFamily = family{name: "heap", list: listHeaps, open: openHeap}

// struct dma_heap_allocation_data of linux/dma-heap.h, version 7.3.
type heapAllocation struct {
	length    uint64 // in bytes
	fd        uint32 // the result; 0 before
	fdFlags   uint32 // O_CLOEXEC and the access
	heapFlags uint64 // none are defined
}

const ioctlHeapAlloc = 0xc0184800 // DMA_HEAP_IOCTL_ALLOC

const heapMissing = "it takes a kernel from 5.6 on with CONFIG_DMABUF_HEAPS and CONFIG_DMABUF_HEAPS_SYSTEM, which is no module"

// heap gives memory of one of the kernel's dma-buf heaps.
type heap struct{ root, heap string }

const heapFolder = "dev/dma_heap"

// listHeaps gives the heaps that there are, or the one that there should be.
func listHeaps(root string) []Exporter {
	entries, _ := os.ReadDir(filepath.Join(root, heapFolder))
	var all []Exporter
	for _, e := range entries {
		all = append(all, &heap{root, e.Name()})
	}
	if all == nil {
		all = []Exporter{&heap{root, "system"}}
	}
	return all
}

// openHeap takes the system heap for the first, if there is one.
func openHeap(root, rest string) (Exporter, error) {
	if rest != "" {
		if filepath.Base(rest) != rest {
			return nil, &Error{Op: "open", Exporter: "heap:" + rest, Err: ErrUnsupported, Detail: "a heap is a file of /" + heapFolder}
		}
		return &heap{root, rest}, nil
	}
	all := listHeaps(root)
	if i := slices.IndexFunc(all, func(e Exporter) bool { return e.Name() == "heap:system" }); i >= 0 {
		return all[i], nil
	}
	return all[0], nil
}

func (h *heap) Name() string     { return "heap:" + h.heap }
func (h *heap) Describe() string { return "memory of the kernel's dma-buf heap " + h.heap }

func (h *heap) node() string { return filepath.Join(h.root, heapFolder, h.heap) }

func (h *heap) Available() error { return probeNode(h.Name(), h.node(), heapMissing) }

// Allocate gives zeroed memory of the heap, in whole pages.
func (h *heap) Allocate(size uint64) (Memory, error) {
	size, err := hostAllocation(h.Name(), size)
	if err != nil {
		return nil, err
	}
	dev, err := openNode(h.Name(), h.node(), heapMissing)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dev)
	arg := heapAllocation{length: size, fdFlags: unix.O_RDWR | unix.O_CLOEXEC}
	if err := ioctlRetry(dev, ioctlHeapAlloc, unsafe.Pointer(&arg)); err != nil {
		detail := fdDetail(err)
		if err == syscall.ENOMEM {
			detail = "the heap has no memory for this"
		}
		return nil, &Error{Op: "DMA_HEAP_IOCTL_ALLOC", Exporter: h.Name(), Err: err, Detail: detail}
	}
	// A heap whose memory the CPU must not see refuses the mapping; a NIC may
	// still reach it.
	data, err := mapShared(int(arg.fd), 0, size)
	if err != nil && !refusesCPU(err) {
		unix.Close(int(arg.fd))
		return nil, &Error{Op: "mmap", Exporter: h.Name(), Err: err}
	}
	return newHostMemory(h.Name(), int(arg.fd), data, size), nil
}

// refusesCPU: the answers of exporters that map nothing to user space.
func refusesCPU(err error) bool {
	switch err {
	case errname.NotSupported, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL, syscall.EPERM, syscall.EACCES, syscall.ENODEV:
		return true
	}
	return false
}

func (h *heap) Adopt(address, size uint64) (Memory, error) { return nil, unaddressed(h.Name()) }
