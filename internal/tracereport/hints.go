package tracereport

import (
	"slices"
	"syscall"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// hint tells what an error in a phase means, and what to do. What a row leaves empty
// matches everything; the first row that matches is taken.
type hint struct {
	cause      []syscall.Errno
	phases     []ebpfprobes.Phase
	kinds      []ebpfprobes.Kind
	operations []ebpfprobes.Operation
	text       string
}

// Kinds and phases of dma-bufs, whose errors are the exporter's.
var (
	buffers      = []ebpfprobes.Kind{ebpfprobes.DMABuf}
	bufferPhases = []ebpfprobes.Phase{ebpfprobes.Attach, ebpfprobes.BufferPin, ebpfprobes.BufferMap}
	ending       = []ebpfprobes.Operation{ebpfprobes.Deregister}
	common       = []ebpfprobes.Phase{ebpfprobes.Uverbs, ebpfprobes.Driver}
)

// hints say what is most likely. They are about functions of Linux 6.1 to 7.3 in
// drivers/infiniband/core (umem.c, umem_dmabuf.c, uverbs_std_types_mr.c, uverbs_cmd.c),
// mm/gup.c and drivers/dma-buf/dma-buf.c; not each of these errors was provoked.
var hints = []hint{
	{[]syscall.Errno{syscall.EBUSY, syscall.EINVAL}, nil, nil, ending,
		"a memory window is still bound to the region: deallocate it first"},

	{[]syscall.Errno{syscall.ENOMEM}, []ebpfprobes.Phase{ebpfprobes.Pin}, nil, nil,
		"no memory for the pages: the machine's or the cgroup's memory is used up"},
	{[]syscall.Errno{syscall.EFAULT}, []ebpfprobes.Phase{ebpfprobes.Pin}, nil, nil,
		"part of the range is not mapped, or not writable though the access flags ask for writing, or is a device's memory: register that by its dma-buf"},
	{[]syscall.Errno{syscall.EOPNOTSUPP}, []ebpfprobes.Phase{ebpfprobes.Pin}, nil, nil,
		"the range is a file that cannot be pinned for long (DAX): use anonymous memory or hugetlbfs"},
	{[]syscall.Errno{syscall.EINTR, 512}, []ebpfprobes.Phase{ebpfprobes.Pin}, nil, nil,
		"a signal ended the call: the process was being killed"},

	{[]syscall.Errno{syscall.EREMOTEIO}, []ebpfprobes.Phase{ebpfprobes.Map, ebpfprobes.BufferMap}, nil, nil,
		"the device cannot reach that peer's memory: 'peerdirect topo --findings' tells why"},
	{[]syscall.Errno{syscall.ENOMEM, syscall.EIO}, []ebpfprobes.Phase{ebpfprobes.Map}, nil, nil,
		"no address for the device: the IOMMU's space or the bounce buffers (swiotlb=) are used up, or the pages lie above what the device can address"},

	{[]syscall.Errno{syscall.EOPNOTSUPP}, []ebpfprobes.Phase{ebpfprobes.Attach, ebpfprobes.BufferPin}, nil, nil,
		"the exporter does not offer this buffer to the NIC: 'peerdirect dmabuf check' tells what it lacks"},
	{[]syscall.Errno{syscall.ENOMEM}, bufferPhases, nil, nil,
		"the exporter found no room: the accelerator's memory or its window (BAR) is used up"},
	{nil, bufferPhases, nil, nil,
		"the exporter refused: its driver's lines in the kernel's log, and 'peerdirect dmabuf check'"},
	{nil, []ebpfprobes.Phase{ebpfprobes.Fence}, nil, nil,
		"the wait for the buffer's work was broken off: by a signal, or the accelerator hangs (its lines in the kernel's log)"},

	{[]syscall.Errno{syscall.ETIMEDOUT}, []ebpfprobes.Phase{ebpfprobes.Command}, nil, nil,
		"the device did not answer: the driver's lines in the kernel's log, and its firmware's health"},
	{[]syscall.Errno{syscall.ENOMEM, syscall.ENOSPC}, []ebpfprobes.Phase{ebpfprobes.Command}, nil, nil,
		"the device has no room for another region: 'peerdirect devices -v' shows its limit and who holds how many"},
	{nil, []ebpfprobes.Phase{ebpfprobes.Command}, nil, nil,
		"the device refused: the driver's lines in the kernel's log hold its reason"},

	{[]syscall.Errno{syscall.ENODEV, syscall.EIO}, common, nil, nil,
		"the device was removed, or is being reset"},
	{[]syscall.Errno{syscall.EBADF}, common, buffers, nil,
		"the descriptor is not open: it was closed before it was registered"},
	{[]syscall.Errno{syscall.EINVAL}, common, buffers, nil,
		"the descriptor is no dma-buf, or offset and length go beyond its end, or the address and the offset differ within a page"},
	{[]syscall.Errno{syscall.EOPNOTSUPP}, common, buffers, nil,
		"this driver imports no dma-buf, or not with these access flags: 'peerdirect devices' shows which do"},
	{[]syscall.Errno{syscall.ENOMEM}, common, nil, nil,
		"most often the limit of locked memory: 'ulimit -l unlimited', LimitMEMLOCK=infinity of the service, or CAP_IPC_LOCK"},
	{[]syscall.Errno{syscall.EINVAL}, common, nil, nil,
		"an argument was refused: remote write or atomic needs local write, the length is 0 or above the device's largest region, or the address wraps"},
	{[]syscall.Errno{syscall.EOPNOTSUPP}, common, nil, nil,
		"the device cannot do what the access flags ask for (on-demand paging, for one): 'peerdirect devices -v' shows what it can"},
	{[]syscall.Errno{syscall.EPERM, syscall.EACCES}, common, nil, nil,
		"the process may not: the rights of the device's file, or a security module's rule"},
	{[]syscall.Errno{syscall.EAGAIN}, common, nil, nil,
		"a limit of RDMA objects was met: rdma.max of the cgroup"},
}

// Hint tells what a failure most likely means and what to do; "" if nothing is known.
func Hint(o ebpfprobes.Operation, k ebpfprobes.Kind, err, cause syscall.Errno, phase ebpfprobes.Phase) string {
	if cause == 0 {
		cause = err
	}
	if phase == ebpfprobes.UnknownPhase { // the likeliest ones in turn
		for _, p := range []ebpfprobes.Phase{ebpfprobes.Uverbs, ebpfprobes.Pin} {
			if text := Hint(o, k, err, cause, p); text != "" {
				return text
			}
		}
		return ""
	}
	for _, h := range hints {
		if fits(h.cause, cause) && fits(h.phases, phase) && fits(h.kinds, k) && fits(h.operations, o) {
			return h.text
		}
	}
	return ""
}

func fits[T comparable](allowed []T, v T) bool { return allowed == nil || slices.Contains(allowed, v) }
