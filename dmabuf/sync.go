package dmabuf

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls on a dma-buf and their arguments: linux/dma-buf.h, version 7.3.
const (
	ioctlSync    = 0x40086200 // DMA_BUF_IOCTL_SYNC
	ioctlSetName = 0x40086201 // DMA_BUF_SET_NAME_B
	syncEnd      = 1 << 2     // DMA_BUF_SYNC_END
	maxName      = 32         // DMA_BUF_NAME_LEN, with the final zero
)

type dmabufSync struct{ flags uint64 } // struct dma_buf_sync

// BeginCPU makes what devices wrote visible to the CPU, before it reads or
// writes a mapping of the buffer. Every BeginCPU has its EndCPU, with the same
// access; on machines whose devices see the caches both are cheap and must be
// called all the same.
func (b *Buffer) BeginCPU(access CPUAccess) error { return b.sync(uint64(access)) }

// EndCPU makes what the CPU wrote visible to devices.
func (b *Buffer) EndCPU(access CPUAccess) error { return b.sync(uint64(access) | syncEnd) }

func (b *Buffer) sync(flags uint64) error {
	return b.use(opSync, func(fd int) error { return syncFD(fd, b.Exporter, flags) })
}

const opSync = "DMA_BUF_IOCTL_SYNC"

func syncFD(fd int, exporter string, flags uint64) error {
	arg := dmabufSync{flags}
	if err := ioctlRetry(fd, ioctlSync, unsafe.Pointer(&arg)); err != nil {
		detail := ""
		if err == syscall.EINVAL {
			detail = "the access is CPURead, CPUWrite or both, and an end follows its begin"
		}
		return &Error{Op: opSync, Exporter: exporter, Err: err, Detail: detail}
	}
	return nil
}

// SetName gives the buffer the name that fdinfo and 'peerdirect dmabuf show'
// tell: at most 31 bytes. On kernels before 5.3 it answers ENOTTY.
func (b *Buffer) SetName(name string) error {
	const op = "DMA_BUF_SET_NAME"
	p, err := unix.BytePtrFromString(name)
	if err != nil || len(name) >= maxName {
		return &Error{Op: op, Exporter: b.Exporter, Err: syscall.EINVAL, Detail: "a name has at most 31 bytes, none of them zero"}
	}
	return b.use(op, func(fd int) error {
		if err := ioctlRetry(fd, ioctlSetName, unsafe.Pointer(p)); err != nil {
			return &Error{Op: op, Exporter: b.Exporter, Err: err}
		}
		return nil
	})
}

// ioctl calls the kernel once.
func ioctl(fd int, request uint, arg unsafe.Pointer) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// ioctlRetry repeats what a signal broke off, or a driver asked to be repeated.
func ioctlRetry(fd int, request uint, arg unsafe.Pointer) error {
	for {
		switch _, err := ioctl(fd, request, arg); err {
		case syscall.EINTR, syscall.EAGAIN:
		default:
			return err
		}
	}
}

// fdDetail is the remedy where descriptors ran out.
func fdDetail(err error) string {
	switch errno, _ := underlying(err); errno {
	case syscall.EMFILE:
		return "this process has no descriptor left: close buffers, or raise the limit (ulimit -n)"
	case syscall.ENFILE:
		return "the system has no descriptor left: raise fs.file-max"
	}
	return ""
}
