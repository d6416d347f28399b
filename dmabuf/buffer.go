package dmabuf

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/life"
)

// Buffer is an exported dma-buf and the bytes of it that were asked for. It is
// safe for use by several goroutines; the descriptor that FD gives is valid
// until Close.
type Buffer struct {
	Exporter string
	Offset   uint64 // of the first byte asked for, in the dma-buf
	Length   uint64 // in bytes
	Closing  Closing
	// OneImporter: the driver takes one attachment for each descriptor, so a
	// second NIC needs a second Export (Neuron).
	OneImporter bool

	mu      sync.RWMutex // read while the descriptor is in use
	fd      int          // plus one: a zero Buffer has none
	holds   int          // registrations that said so
	held    bool         // there was one
	cleanup runtime.Cleanup
	onClose func() // what the descriptor stood on; set before anybody else sees the buffer
}

// newBuffer takes a descriptor over, from the moment it is called.
func newBuffer(fd int, exporter string, offset, length uint64, closing Closing) *Buffer {
	b := &Buffer{Exporter: exporter, Offset: offset, Length: length, Closing: closing, fd: fd + 1}
	objects.Count("buffer", 1)
	b.cleanup = life.Watch(objects, b, fmt.Sprintf("buffer of %s, descriptor %d", exporter, fd))
	return b
}

// Import makes a Buffer of a dma-buf that came from elsewhere: from a library
// that exports by itself, or from another process over a socket. length 0 means
// all from offset on. The descriptor is duplicated, and stays the caller's.
func Import(fd int, offset, length uint64) (*Buffer, error) {
	const op = "import of a dma-buf"
	object := fmt.Sprintf("descriptor %d", fd)
	info, err := stat(fd)
	if err != nil {
		return nil, &Error{Op: op, Exporter: object, Err: err, Detail: importDetail(err)}
	}
	if length == 0 && offset < info.Size {
		length = info.Size - offset
	}
	if err := within(op, object, offset, length, info.Size); err != nil {
		return nil, err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: op, Exporter: object, Err: err, Detail: fdDetail(err)}
	}
	name := info.Exporter
	if name == "" {
		name = "import"
	}
	return newBuffer(dup, name, offset, length, CloseAnyTime), nil
}

func importDetail(err error) string {
	switch err {
	case syscall.EBADF:
		return "it is not open in this process: it was closed, or is another process's and must come over a unix socket"
	case errNotDMABuf:
		return "give the descriptor that the memory's exporter gave"
	}
	return ""
}

// within says whether [offset, offset+length) are bytes of something of that
// size.
func within(op, object string, offset, length, size uint64) error {
	switch {
	case length == 0:
		return &Error{Op: op, Exporter: object, Err: ErrRange, Detail: fmt.Sprintf("no bytes at offset %d of %d", offset, size)}
	case offset > size || length > size-offset:
		return &Error{Op: op, Exporter: object, Err: ErrRange, Detail: fmt.Sprintf("%d bytes from offset %d on, of %d", length, offset, size)}
	}
	return nil
}

// FD is the descriptor, -1 once closed.
func (b *Buffer) FD() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.fd - 1
}

// Hold tells the buffer that a registration of it begins, release that it is
// gone, so that Close can keep its rule: a buffer that must outlive its
// registrations refuses to be closed before them. It fails on a closed buffer,
// and with EBUSY on the second registration of a buffer with OneImporter. With
// CloseNever, release ends the buffer: the driver has taken the descriptor back,
// and its number may be another file's by now.
func (b *Buffer) Hold() (release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.fd == 0:
		return nil, &Error{Op: "registration of a buffer", Exporter: b.Exporter, Err: ErrClosed}
	case b.OneImporter && b.holds > 0:
		return nil, &Error{Op: "registration of a buffer", Exporter: b.Exporter, Err: syscall.EBUSY,
			Detail: "its driver takes one registration for each descriptor; export the memory once more for the next"}
	}
	b.holds++
	b.held = true
	var once sync.Once
	return func() {
		once.Do(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.holds--; b.Closing == CloseNever && b.fd != 0 {
				b.forget()
			}
		})
	}, nil
}

// Close gives the descriptor up as Closing says; a second call does nothing.
// With CloseAfterDeregister it answers EBUSY while registrations hold the
// buffer. With CloseNever it closes the descriptor of a buffer that was not held
// once: the driver takes back only what a NIC was attached to.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd == 0 {
		return nil
	}
	if b.Closing == CloseAfterDeregister && b.holds > 0 {
		return &Error{Op: "close", Exporter: b.Exporter, Err: syscall.EBUSY,
			Detail: fmt.Sprintf("%d registrations need the descriptor; deregister them first", b.holds)}
	}
	fd := b.forget()
	if b.onClose != nil {
		defer b.onClose()
	}
	if b.Closing == CloseNever && b.held {
		return nil
	}
	// Linux frees the number whatever close answers, so it is never repeated.
	if err := unix.Close(fd); err != nil && err != syscall.EINTR {
		return &Error{Op: "close", Exporter: b.Exporter, Err: err}
	}
	return nil
}

// forget ends the buffer and gives its descriptor, which stays open; the caller
// holds the lock.
func (b *Buffer) forget() (fd int) {
	fd = b.fd - 1
	b.fd = 0
	b.cleanup.Stop()
	objects.Count("buffer", -1)
	return fd
}

// use calls f with the descriptor, which stays open meanwhile.
func (b *Buffer) use(op string, f func(fd int) error) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.fd == 0 {
		return &Error{Op: op, Exporter: b.Exporter, Err: ErrClosed}
	}
	return f(b.fd - 1)
}
