package rdmacm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Path is the connection manager's device node.
const Path = "/dev/infiniband/rdma_cm"

// kernel is the connection manager behind an open descriptor; a test puts
// itself there.
type kernel interface {
	// run does one command. It gives the errno as it is.
	run(command) error
	// event waits for the next event and fills b with it, until close.
	event(b []byte) error
	close() error
}

// file is the device node on the runtime's poller: waiting for an event blocks
// no thread.
type file struct {
	f      *os.File
	raw    syscall.RawConn
	closed atomic.Bool
}

func openFile(path string) (*file, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		e := &Error{Op: "open " + path, Err: err}
		switch {
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
			e.Err = ErrNoDevice
			e.Detail = "the kernel's RDMA connection manager is not loaded; load it with: modprobe rdma_ucm"
		case errors.Is(err, ErrPermission):
			e.Detail = "check the mode and group of the node"
		}
		return nil, e
	}
	f := &file{f: os.NewFile(uintptr(fd), path)}
	if f.raw, err = f.f.SyscallConn(); err != nil {
		f.f.Close()
		return nil, &Error{Op: "open " + path, Err: err}
	}
	return f, nil
}

func (f *file) run(c command) error {
	var errno error
	// Control holds the descriptor open against a close at the same time.
	if err := f.raw.Control(func(fd uintptr) { errno = write(int(fd), c) }); err != nil {
		return f.closedOr(err)
	}
	return errno
}

func (f *file) event(b []byte) error {
	var errno error
	c := getEvent(b)
	err := f.raw.Read(func(fd uintptr) bool {
		errno = write(int(fd), c)
		return !errors.Is(errno, syscall.EAGAIN)
	})
	if err != nil {
		return f.closedOr(err)
	}
	return errno
}

func (f *file) close() error {
	f.closed.Store(true)
	return f.f.Close()
}

// closedOr: a RawConn of a closed file gives the poller's own error, which has
// no name outside the runtime.
func (f *file) closedOr(err error) error {
	if f.closed.Load() {
		return ErrClosed
	}
	return err
}

// write hands the kernel one command: struct rdma_ucm_cmd_hdr { u32 cmd; u16 in;
// u16 out; } and the body, which names the answer's address.
func write(fd int, c command) error {
	b := make([]byte, headerSize+len(c.body))
	native.PutUint32(b[0:], c.num)
	native.PutUint16(b[4:], uint16(len(c.body)))
	native.PutUint16(b[6:], uint16(len(c.answer)))
	copy(b[headerSize:], c.body)
	if len(c.answer) > 0 {
		// The address travels as an integer, which the collector does not see.
		var pin runtime.Pinner
		defer pin.Unpin()
		pin.Pin(&c.answer[0])
		native.PutUint64(b[headerSize+c.answerAt:], uint64(uintptr(unsafe.Pointer(&c.answer[0]))))
	}
	for {
		n, err := unix.Write(fd, b)
		switch {
		case err == syscall.EINTR:
			// A signal can end an iWARP connect before it began; the kernel
			// has put the id back to where it was.
			continue
		case err != nil:
			return err
		case n != len(b):
			return fmt.Errorf("the kernel took %d of %d bytes: %w", n, len(b), syscall.EIO)
		}
		return nil
	}
}
