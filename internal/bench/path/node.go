package path

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nodeBits is the width of a mask of nodes, Linux's most (CONFIG_NODES_SHIFT 10).
const nodeBits = 1024

// onNode gives memory whose pages all lie on a NUMA node, touched.
func onNode(node, size int) ([]byte, error) {
	if node < 0 || node >= nodeBits {
		return nil, fmt.Errorf("NUMA node %d: they go from 0 to %d", node, nodeBits-1)
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	const bind = 2 // MPOL_BIND, linux/mempolicy.h
	var mask [nodeBits / 64]uint64
	mask[node/64] = 1 << (node % 64)
	// The kernel takes one bit fewer than it is told.
	if _, _, no := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(size), bind,
		uintptr(unsafe.Pointer(&mask)), nodeBits+1, 0); no != 0 {
		return nil, errors.Join(fmt.Errorf("mbind to NUMA node %d: %w", node, no), unix.Munmap(b))
	}
	// Of huge pages the driver has less to map; that there are none is no harm.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	for i := 0; i < size; i += os.Getpagesize() {
		b[i] = 1
	}
	return b, nil
}

// nodeOf asks the kernel where a page of the memory lies.
func nodeOf(b []byte) (int, error) {
	page := uintptr(unsafe.Pointer(&b[0])) &^ uintptr(os.Getpagesize()-1)
	status := int32(-1)
	if _, _, no := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, 1, uintptr(unsafe.Pointer(&page)), 0, uintptr(unsafe.Pointer(&status)), 0); no != 0 {
		return -1, fmt.Errorf("move_pages: %w", no)
	}
	if status < 0 {
		return -1, fmt.Errorf("move_pages, of the page: %w", unix.Errno(-status))
	}
	return int(status), nil
}

func (cudaDriver) bound(g gpu, node, size int) ([]byte, error) {
	b, err := onNode(node, size)
	if err != nil {
		return nil, err
	}
	if err := g.(*cudaGPU).ctx.Pin(b); err != nil {
		return nil, errors.Join(err, unix.Munmap(b))
	}
	return b, nil
}

func (cudaDriver) unbound(g gpu, b []byte) error {
	if err := g.(*cudaGPU).ctx.Unpin(b); err != nil {
		return err // still mapped: the GPU may reach it
	}
	return unix.Munmap(b)
}
