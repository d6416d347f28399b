package mrcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch is a userfaultfd that tells when host memory is unmapped, moved, emptied
// or copied by a fork (linux/userfaultfd.h, linux 7.3).
//
// The kernel tells events of memory only that is registered with it for some
// kind of fault. It is registered for write protection, of which nothing is
// ever protected: so no access faults on it that would not otherwise, and nobody
// has to resolve faults. That works for private anonymous memory from linux 5.7
// on, for shared memory and huge pages from 5.19 on, not for files, and for
// memory that has no other userfaultfd.
//
// munmap, mremap and madvise of such memory return when the event has been read,
// not when it has been handled. So pending is odd from before a read until what
// it gave is handled, and a request that sees that waits.
type watch struct {
	c       *Cache
	file    *os.File
	conn    syscall.RawConn
	lacks   string // what it does not tell, and why
	pending atomic.Uint32
	mu      sync.Mutex  // held while pending is odd
	broken  atomic.Bool // nothing is told any more
	ended   chan struct{}
}

const (
	uffdioAPI      = 0xc018aa3f // struct uffdio_api
	uffdioRegister = 0xc020aa00 // struct uffdio_register
	uffdNew        = 0xaa00     // of /dev/userfaultfd, linux 6.1
	uffdVersion    = 0xaa
	userModeOnly   = 1 // linux 5.11; needs no privilege

	featureWP     = 1 << 0
	featureFork   = 1 << 1
	featureRemap  = 1 << 2
	featureRemove = 1 << 3
	featureUnmap  = 1 << 6
	featureShmem  = 1 << 12 // write protection of shared memory and huge pages
	featuresMust  = featureWP | featureRemap | featureRemove | featureUnmap

	registerWP = 1 << 1

	eventFork   = 0x13
	eventRemap  = 0x14
	eventRemove = 0x15
	eventUnmap  = 0x16
	messageSize = 32
)

func newWatch(c *Cache) (*watch, error) {
	w := &watch{c: c, ended: make(chan struct{})}
	fd, err := openUserfault()
	if err != nil {
		return nil, err
	}
	have, err := handshake(fd, 0) // only asks: a descriptor agrees once
	unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("UFFDIO_API: %w", err)
	}
	if have&featuresMust != featuresMust {
		return nil, fmt.Errorf("the kernel's userfaultfd has features %#x, write protection and events are %#x: %w", have, uint64(featuresMust), errors.ErrUnsupported)
	}
	if fd, err = openUserfault(); err != nil {
		return nil, err
	}
	want := uint64(featuresMust) | have&featureShmem
	if _, err = handshake(fd, want|featureFork); err != nil {
		w.lacks = fmt.Sprintf("fork is not told, it takes CAP_SYS_PTRACE: %v", err)
		unix.Close(fd)
		if fd, err = openUserfault(); err != nil {
			return nil, err
		}
		if _, err = handshake(fd, want); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("UFFDIO_API: %w", err)
		}
	}
	w.file = os.NewFile(uintptr(fd), "userfaultfd")
	if w.conn, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// openUserfault opens one for faults of user mode, which all may have.
func openUserfault() (int, error) {
	const flags = unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, flags|userModeOnly, 0, 0)
	if errno == unix.EINVAL {
		fd, _, errno = unix.Syscall(unix.SYS_USERFAULTFD, flags, 0, 0)
	}
	if errno == 0 {
		return int(fd), nil
	}
	// A container may forbid the call, and have the device.
	dev, err := unix.Open("/dev/userfaultfd", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dev)
		if fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(dev), uffdNew, flags|userModeOnly); e == 0 {
			return int(fd), nil
		}
	}
	detail := "sysctl vm.unprivileged_userfaultfd=1, CAP_SYS_PTRACE or access to /dev/userfaultfd may help"
	if errno == unix.ENOSYS {
		detail = "the kernel has none (CONFIG_USERFAULTFD), or a filter forbids it"
	}
	return -1, fmt.Errorf("userfaultfd: %w; %s", errno, detail)
}

func handshake(fd int, features uint64) (have uint64, err error) {
	api := struct{ api, features, ioctls uint64 }{uffdVersion, features, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uffdioAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		return 0, errno
	}
	return api.features, nil
}

// settle waits for events that were read and are not handled yet: the caller may
// have learnt from their end that an address is free.
func (w *watch) settle() {
	if w.pending.Load()&1 != 0 {
		w.mu.Lock()
		//lint:ignore SA2001 to wait is all there is to do
		w.mu.Unlock()
	}
}

// goHeap tells of memory that lies where Go's heap may: its arenas follow each
// other from a random address on. The runtime gives pages of it back with
// everything stopped, and would wait for ever for its own goroutine to read the
// event.
func (w *watch) goHeap(start, end uint64) bool {
	here := uint64(uintptr(unsafe.Pointer(w))) // one of its early objects
	return start < here+64<<30 && here < end+4<<30
}

// add begins to watch pages. Watching pages twice is no error.
func (w *watch) add(start, end uint64) error {
	if w.broken.Load() {
		return fmt.Errorf("userfaultfd has ended: %w", ErrClosed)
	}
	if w.goHeap(start, end) {
		return fmt.Errorf("memory of Go's heap, or beside it, cannot be watched: %w", errors.ErrUnsupported)
	}
	reg := struct{ start, length, mode, ioctls uint64 }{start, end - start, registerWP, 0}
	var errno syscall.Errno
	err := w.conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister, uintptr(unsafe.Pointer(&reg)))
	})
	if err == nil && errno != 0 {
		err = errno
		if errno == unix.EINVAL {
			return fmt.Errorf("UFFDIO_REGISTER: %w: no mapping, or one of a kind whose end the kernel does not tell (of a file)", err)
		}
	}
	if err != nil {
		return fmt.Errorf("UFFDIO_REGISTER: %w", err)
	}
	return nil
}

// run reads events until the descriptor is closed.
func (w *watch) run() {
	defer close(w.ended)
	buf := make([]byte, 16*messageSize)
	for {
		n, failed := 0, error(nil)
		err := w.conn.Read(func(fd uintptr) bool {
			w.mu.Lock()
			w.pending.Add(1)
			for {
				n, failed = unix.Read(int(fd), buf)
				if failed != unix.EINTR {
					break
				}
			}
			if failed == unix.EAGAIN {
				w.pending.Add(1)
				w.mu.Unlock()
				return false
			}
			return true
		})
		if err != nil {
			w.end()
			return
		}
		var idle []*entry
		for at := 0; failed == nil && at+messageSize <= n; at += messageSize {
			idle = append(idle, w.handle(buf[at:at+messageSize])...)
		}
		w.pending.Add(1)
		w.mu.Unlock()
		// Not here: to deregister may unmap memory, whose event only this reads.
		dropped(idle)
		if failed != nil {
			w.end()
			return
		}
	}
}

// end takes out what is no longer watched.
func (w *watch) end() {
	if w.broken.Swap(true) {
		return // closed, with the cache
	}
	w.file.Close()
	dropped(w.c.take(allHost, CauseUnwatched))
}

// allHost is all memory of the process.
var allHost = Range{Alloc: Allocation{Space: Host}, Length: 1<<64 - 1}

// handle takes out what an event concerns (struct uffd_msg: the event, and from
// the eighth byte on its arguments).
func (w *watch) handle(m []byte) []*entry {
	arg := func(i int) uint64 { return binary.NativeEndian.Uint64(m[8+8*i:]) }
	take := func(start, end uint64, cause Cause) []*entry {
		if end <= start {
			return nil
		}
		return w.c.take(Range{Alloc: Allocation{Space: Host}, Addr: start, Length: end - start}, cause)
	}
	switch m[0] {
	case eventFork:
		// The child's own, which nobody reads. Before linux 5.12 a write of
		// this process to a page that the child shares could give it another
		// page than the NIC has.
		unix.Close(int(binary.NativeEndian.Uint32(m[8:])))
		return w.c.take(allHost, CauseFork)
	case eventRemap: // from, to, length
		return append(take(arg(0), arg(0)+arg(2), CauseRemap), take(arg(1), arg(1)+arg(2), CauseRemap)...)
	case eventRemove: // start, end
		return take(arg(0), arg(1), CauseRemove)
	case eventUnmap:
		return take(arg(0), arg(1), CauseUnmap)
	}
	return nil
}

func (w *watch) close() {
	w.broken.Store(true)
	w.file.Close()
	<-w.ended
}
