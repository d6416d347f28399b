package dmabuf

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var udmabufFamily = family{
	name: "udmabuf",
	list: func(root string) []Exporter { return []Exporter{&udmabuf{root}} },
	open: func(root, rest string) (Exporter, error) {
		if rest != "" {
			return nil, noPart("udmabuf", rest)
		}
		return &udmabuf{root}, nil
	},
}

// noPart refuses a name that goes on after the exporter's.
func noPart(name, rest string) error {
	return &Error{Op: "open", Exporter: name + ":" + rest, Err: ErrUnsupported, Detail: "there is one " + name + "; leave \":" + rest + "\" out"}
}

// struct udmabuf_create of linux/udmabuf.h, version 7.3.
type udmabufCreate struct {
	memfd, flags uint32
	offset, size uint64 // of the memfd, in bytes and whole pages
}

const (
	ioctlUdmabufCreate = 0x40187542 // UDMABUF_CREATE
	udmabufCloexec     = 1          // UDMABUF_FLAGS_CLOEXEC
	udmabufMissing     = "load the module udmabuf (modprobe udmabuf); it takes a kernel from 4.20 on with CONFIG_UDMABUF"
)

// udmabuf gives pages of the host by one dma-buf that lasts as long as the
// memory does.
type udmabuf struct{ root string }

func (u *udmabuf) Name() string     { return "udmabuf" }
func (u *udmabuf) Describe() string { return "host memory, as a dma-buf of a sealed memfd" }

func (u *udmabuf) node() string { return filepath.Join(u.root, "dev/udmabuf") }

func (u *udmabuf) Available() error { return probeNode(u.Name(), u.node(), udmabufMissing) }

// probeNode opens a node and closes it again.
func probeNode(exporter, path, missing string) error {
	fd, err := openNode(exporter, path, missing)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return nil
}

// Allocate gives memory of this process, reached by the address as any other.
// Its pages are locked in memory from the start.
func (u *udmabuf) Allocate(size uint64) (Memory, error) {
	size, err := hostAllocation(u.Name(), size)
	if err != nil {
		return nil, err
	}
	memfd, data, err := newMemfd(u.Name(), size)
	if err != nil {
		return nil, err
	}
	defer unix.Close(memfd)
	fd, err := createUdmabuf(u.root, u.Name(), memfd, 0, size)
	if err != nil {
		unix.Munmap(data)
		return nil, err
	}
	return newHostMemory(u.Name(), fd, data, size), nil
}

func (u *udmabuf) Adopt(address, size uint64) (Memory, error) {
	return nil, &Error{Op: "adopt", Exporter: u.Name(), Err: ErrUnsupported,
		Detail: "a dma-buf of it begins as a memfd: exporter memfd adopts addresses where one is mapped"}
}

// newMemfd makes a memfd that may become a dma-buf, and maps it.
func newMemfd(exporter string, size uint64) (fd int, data []byte, err error) {
	fd, err = unix.MemfdCreate("peerdirect", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, nil, &Error{Op: "memfd_create", Exporter: exporter, Err: err, Detail: fdDetail(err)}
	}
	op := "ftruncate"
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		op = "mmap"
		if data, err = mapShared(fd, 0, size); err == nil {
			op = "F_ADD_SEALS"
			if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err == nil {
				return fd, data, nil
			}
			unix.Munmap(data)
		}
	}
	unix.Close(fd)
	return -1, nil, &Error{Op: op, Exporter: exporter, Err: err, Detail: fmt.Sprintf("for %d bytes", size)}
}

// mapShared maps size bytes of a descriptor for reading and writing.
func mapShared(fd int, offset int64, size uint64) ([]byte, error) {
	if size > 1<<62 {
		return nil, syscall.ENOMEM
	}
	return unix.Mmap(fd, offset, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// createUdmabuf makes a dma-buf of pages of a memfd; offset and size are whole
// pages.
func createUdmabuf(root, exporter string, memfd int, offset, size uint64) (int, error) {
	dev, err := openNode(exporter, filepath.Join(root, "dev/udmabuf"), udmabufMissing)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dev)
	arg := udmabufCreate{memfd: uint32(memfd), flags: udmabufCloexec, offset: offset, size: size}
	fd, err := ioctlFD(dev, ioctlUdmabufCreate, unsafe.Pointer(&arg))
	if err == nil {
		return fd, nil
	}
	detail := fdDetail(err)
	switch err {
	case syscall.EINVAL:
		detail = udmabufInvalid(root, memfd, offset, size)
	case syscall.EBADFD:
		detail = "the memory is no memfd: UDMABUF_CREATE takes memfd_create's descriptors only"
	case syscall.ENOMEM:
		detail = fmt.Sprintf("no memory for %d bytes, which it locks", size)
	}
	return -1, &Error{Op: "UDMABUF_CREATE", Exporter: exporter, Err: err, Detail: detail}
}

// ioctlFD calls the kernel for a descriptor, which is what the call gives.
func ioctlFD(fd int, request uint, arg unsafe.Pointer) (int, error) {
	for {
		got, err := ioctl(fd, request, arg)
		if err != syscall.EINTR {
			return got, err
		}
	}
}

// udmabufInvalid finds which rule of the driver an EINVAL stands for; the driver
// says nothing.
func udmabufInvalid(root string, memfd int, offset, size uint64) string {
	page := uint64(os.Getpagesize())
	if offset%page != 0 || size%page != 0 {
		return fmt.Sprintf("offset %d and size %d are not whole pages of %d bytes", offset, size, page)
	}
	seals, err := unix.FcntlInt(uintptr(memfd), unix.F_GET_SEALS, 0)
	if err == nil && seals&unix.F_SEAL_SHRINK == 0 {
		return "the memfd lacks the seal F_SEAL_SHRINK"
	}
	if err == nil && seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return "the memfd is sealed against writing"
	}
	var st unix.Stat_t
	if unix.Fstat(memfd, &st) == nil && (offset > uint64(st.Size) || size > uint64(st.Size)-offset) {
		return fmt.Sprintf("%d bytes from offset %d on, of a memfd of %d", size, offset, st.Size)
	}
	const parameter = "sys/module/udmabuf/parameters/size_limit_mb"
	if limit, ok := readNumber(filepath.Join(root, parameter)); ok && size > limit<<20 {
		return fmt.Sprintf("%d bytes, and a udmabuf has at most %d MiB here: write a larger number to /%s, or export parts", size, limit, parameter)
	}
	return "the driver names no reason"
}

// readNumber reads a decimal number that fills a file.
func readNumber(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 44)
	return n, err == nil
}
