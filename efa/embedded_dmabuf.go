package efa

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
	"golang.org/x/sys/unix"
)

// mappedRegion is a dma-buf as an embedded device reaches it: by a mapping of
// this process. Memory that only devices reach has none.
type mappedRegion struct {
	softRegion
	mapped []byte
}

func (d *softDomain) registerDMABuf(fd int, offset, length, iova uint64, access Access) (region, error) {
	if err := d.e.dmabufRefused(fd, offset, length, iova, access); err != nil {
		return nil, err
	}
	mapped, mem, err := mapDMABuf(d.e.dev.Name(), fd, offset, length, access)
	if err != nil {
		return nil, err
	}
	info, err := d.e.dev.RegisterMR(device.MROptions{
		PD: d.pd, IOVA: iova, Length: length, Access: wire.Access(access),
		Pages: []uint64{address(unsafe.Pointer(unsafe.SliceData(mem)))},
	})
	if err != nil {
		unix.Munmap(mapped)
		return nil, d.e.failed("register dma-buf", fmt.Sprintf("%s, %d bytes, access %v", d.e.dev.Name(), length, access), err)
	}
	return &mappedRegion{softRegion{d.birth, info}, mapped}, nil
}

// mapDMABuf maps the pages that hold length bytes at offset of a dma-buf, and
// gives those bytes as well.
func mapDMABuf(name string, fd int, offset, length uint64, access Access) (mapped, mem []byte, err error) {
	const op = "register dma-buf"
	object := fmt.Sprintf("%s, %d bytes at %d of descriptor %d", name, length, offset, fd)
	size, err := unix.Seek(fd, 0, unix.SEEK_END)
	if err == nil && (offset > uint64(size) || length > uint64(size)-offset) {
		return nil, nil, failed(op, object, errInvalid, fmt.Sprintf("the dma-buf has %d bytes", size))
	}
	into := offset % uint64(os.Getpagesize())
	if err == nil && length+into > math.MaxInt {
		err = syscall.ENOMEM
	}
	if err == nil {
		prot := unix.PROT_READ
		if access&(LocalWrite|RemoteWrite) != 0 {
			prot |= unix.PROT_WRITE
		}
		mapped, err = unix.Mmap(fd, int64(offset-into), int(length+into), prot, unix.MAP_SHARED)
	}
	switch {
	case err == nil:
		return mapped, mapped[into:], nil
	case errors.Is(err, syscall.EBADF), errors.Is(err, syscall.ENOMEM):
		return nil, nil, failed(op, object, err, "")
	}
	return nil, nil, failed(op, object, ErrUnsupported,
		fmt.Sprintf("an embedded device reaches what this process can map, and its exporter does not map this (%v); memory of an accelerator takes a device of the kernel", err))
}

// close unmaps what the device touches no more.
func (r *mappedRegion) close() error {
	if err := r.softRegion.close(); err != nil {
		return err
	}
	if r.mapped == nil {
		return nil
	}
	mapped := r.mapped
	r.mapped = nil
	return unix.Munmap(mapped)
}
