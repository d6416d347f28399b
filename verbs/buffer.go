package verbs

import (
	"fmt"
	"os"

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
	if o.Populate {
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
	return &Buffer{mem: mem, length: length}, nil
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
