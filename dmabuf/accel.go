package dmabuf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var accelFamily = family{name: "accel", list: listAccels, open: openAccel}

// Calls on /dev/peerdirect_accelN: peerdirect_accel.h, ABI 1, of the lab's own
// driver (internal/lab/recipe/accel).
const (
	ioctlAccelInfo   = 0x803050a0 // PEERDIRECT_ACCEL_INFO
	ioctlAccelAlloc  = 0xc01850a1 // PEERDIRECT_ACCEL_ALLOC
	ioctlAccelExport = 0xc02050a2 // PEERDIRECT_ACCEL_EXPORT
	accelABI         = 1
	accelNode        = "peerdirect_accel"
	accelMissing     = "the lab has them: peerdirect lab run --accelerator 1"
)

type (
	accelInfo struct { // struct peerdirect_accel_info
		abi, flags uint32
		size, free uint64 // bytes
		bus        uint64 // where the memory is on the bus
		pci        [16]byte
	}
	accelAlloc struct { // struct peerdirect_accel_alloc
		size, offset  uint64 // bytes; size is rounded up
		handle, flags uint32
	}
	accelExport struct { // struct peerdirect_accel_export
		handle, flags  uint32
		offset, length uint64 // bytes, of pages
		fd             int32  // the result
		pad            uint32
	}
)

// accel is an accelerator of the lab: memory behind a PCI BAR, which no page of
// the host's stands for and which only peer-to-peer importers get.
type accel struct {
	root   string
	number int
}

// accels gives the accelerators' numbers, ascending.
func accels(root string) []int {
	entries, _ := os.ReadDir(filepath.Join(root, "dev"))
	var all []int
	for _, e := range entries {
		digits, is := strings.CutPrefix(e.Name(), accelNode)
		if n, err := strconv.ParseUint(digits, 10, 20); is && err == nil {
			all = append(all, int(n))
		}
	}
	slices.Sort(all)
	return all
}

func listAccels(root string) []Exporter {
	var all []Exporter
	for _, n := range accels(root) {
		all = append(all, &accel{root, n})
	}
	if all == nil {
		all = []Exporter{&accel{root, 0}}
	}
	return all
}

func openAccel(root, rest string) (Exporter, error) {
	if rest == "" {
		return listAccels(root)[0], nil
	}
	n, err := strconv.ParseUint(rest, 10, 20)
	if err != nil {
		return nil, &Error{Op: "open", Exporter: "accel:" + rest, Err: ErrUnsupported, Detail: "an accelerator has a number, as accel:0"}
	}
	return &accel{root, int(n)}, nil
}

func (a *accel) Name() string { return fmt.Sprintf("accel:%d", a.number) }

func (a *accel) Describe() string {
	if fd, info, err := a.open(); err == nil {
		unix.Close(fd)
		return fmt.Sprintf("%d MiB of memory of the lab's accelerator %s, behind a BAR", info.size>>20, unix.ByteSliceToString(info.pci[:]))
	}
	return "memory of an accelerator of the lab, behind a BAR"
}

func (a *accel) Available() error {
	fd, _, err := a.open()
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// open opens the device and asks what it is.
func (a *accel) open() (fd int, info accelInfo, err error) {
	fd, err = openNode(a.Name(), filepath.Join(a.root, "dev", accelNode+strconv.Itoa(a.number)), accelMissing)
	if err != nil {
		return -1, info, err
	}
	err = ioctlRetry(fd, ioctlAccelInfo, unsafe.Pointer(&info))
	switch {
	case err == syscall.ENODEV:
		err = &Error{Op: "PEERDIRECT_ACCEL_INFO", Exporter: a.Name(), Err: ErrNoDevice, Detail: "its driver was unbound"}
	case err != nil:
		err = &Error{Op: "PEERDIRECT_ACCEL_INFO", Exporter: a.Name(), Err: err}
	case info.abi != accelABI:
		err = &Error{Op: "PEERDIRECT_ACCEL_INFO", Exporter: a.Name(), Err: ErrUnsupported,
			Detail: fmt.Sprintf("the driver has version %d of its interface and this program version %d: boot the lab anew", info.abi, accelABI)}
	}
	if err != nil {
		unix.Close(fd)
		return -1, info, err
	}
	return fd, info, nil
}

// Allocate gives memory of the accelerator, in whole pages. What the last owner
// left there is not erased.
func (a *accel) Allocate(size uint64) (Memory, error) {
	size, err := allocation(a.Name(), size)
	if err != nil {
		return nil, err
	}
	dev, info, err := a.open()
	if err != nil {
		return nil, err
	}
	// The dma-buf and the mapping hold the memory; its handle ends here.
	defer unix.Close(dev)
	alloc := accelAlloc{size: size}
	if err := ioctlRetry(dev, ioctlAccelAlloc, unsafe.Pointer(&alloc)); err != nil {
		detail := ""
		if err == syscall.ENOSPC {
			detail = fmt.Sprintf("%d bytes of it are free, in pieces perhaps, and %d are asked for: close other memory, or give it more (lab run --accelerator-memory)", info.free, size)
		}
		return nil, &Error{Op: "PEERDIRECT_ACCEL_ALLOC", Exporter: a.Name(), Err: err, Detail: detail}
	}
	export := accelExport{handle: alloc.handle, flags: unix.O_CLOEXEC, fd: -1}
	if err := ioctlRetry(dev, ioctlAccelExport, unsafe.Pointer(&export)); err != nil {
		return nil, &Error{Op: "PEERDIRECT_ACCEL_EXPORT", Exporter: a.Name(), Err: err, Detail: fdDetail(err)}
	}
	data, err := mapShared(int(export.fd), 0, size)
	if err != nil {
		unix.Close(int(export.fd))
		return nil, &Error{Op: "mmap", Exporter: a.Name(), Err: err}
	}
	return newHostMemory(a.Name(), int(export.fd), data, size), nil
}

func (a *accel) Adopt(address, size uint64) (Memory, error) { return nil, unaddressed(a.Name()) }
