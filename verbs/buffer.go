package verbs

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffer is host memory for a NIC: mapped on its own, page aligned, zeroed,
// outside the Go heap, so that neither the collector nor a fork's copy comes
// between the program and the device.
type Buffer struct {
	mem    []byte
	length int
}

// BufferOptions say how a buffer is mapped.
type BufferOptions struct {
	HugePages bool // MAP_HUGETLB with the default size; the length is rounded up
	Populate  bool // touch all pages now
	// Node asks for pages of a NUMA node, counted from 1: the kernel's node 0 is 1.
	// 0 leaves it to the kernel, as does a node that has no memory left.
	Node int
}

// NewBuffer maps length bytes.
func NewBuffer(length int, o BufferOptions) (*Buffer, error) {
	if length <= 0 {
		return nil, &Error{Verb: "mmap", Object: fmt.Sprintf("buffer of %d bytes", length), Err: unix.EINVAL, Detail: "the length must be above 0"}
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	page := os.Getpagesize()
	if o.HugePages {
		flags |= unix.MAP_HUGETLB
		page = 2 << 20
	}
	if o.Populate && o.Node == 0 {
		flags |= unix.MAP_POPULATE
	}
	rounded := (length + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, rounded, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		detail := ""
		if o.HugePages {
			detail = "reserve huge pages with: sysctl vm.nr_hugepages=N"
		}
		return nil, failed("mmap", fmt.Sprintf("buffer of %d bytes", length), err, detail)
	}
	b := &Buffer{mem: mem, length: length}
	if o.Node != 0 {
		if err := b.prefer(o.Node-1, o.Populate); err != nil {
			b.Close()
			return nil, err
		}
	}
	return b, nil
}

// prefer has the pages come from a NUMA node, before any has been touched.
func (b *Buffer) prefer(node int, populate bool) error {
	const preferred = 1 // MPOL_PREFERRED
	object := fmt.Sprintf("buffer of %d bytes", b.length)
	if node < 0 || node >= 1024 {
		return &Error{Verb: "mbind", Object: object, Err: unix.EINVAL, Detail: fmt.Sprintf("NUMA node %d: nodes have numbers from 0 to 1023", node)}
	}
	var mask [1024 / 64]uint64
	mask[node/64] = 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b.mem[0])), uintptr(len(b.mem)), preferred,
		uintptr(unsafe.Pointer(&mask)), uintptr(len(mask)*64+1), 0)
	if errno != 0 && errno != unix.ENOSYS { // a kernel without NUMA has one node
		return failed("mbind", object, errno, fmt.Sprintf("NUMA node %d has no memory, or this process may not have it", node))
	}
	for at := 0; populate && at < len(b.mem); at += os.Getpagesize() {
		b.mem[at] = 0
	}
	return nil
}

// Bytes is the memory, nil once the buffer is closed.
func (b *Buffer) Bytes() []byte {
	if b.mem == nil {
		return nil
	}
	return b.mem[:b.length:b.length]
}

// Close unmaps the memory. Its memory regions must be closed before.
func (b *Buffer) Close() error {
	if b.mem == nil {
		return nil
	}
	err := unix.Munmap(b.mem)
	b.mem = nil
	return err
}
