package dmabuf

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostMemory is memory that one dma-buf, held from the start, holds whole: an
// export is another descriptor of it.
type hostMemory struct {
	exporter string
	size     uint64
	closing  Closing
	// under is what must last as long as the memory or an export of it: a
	// device that takes its dma-bufs with it. nil where there is none.
	under *shared

	mu   sync.RWMutex // read while fd and data are in use
	fd   int          // the dma-buf, -1 once closed
	data []byte       // nil where the CPU does not reach it

	cleanup runtime.Cleanup
}

// newHostMemory takes over the dma-buf fd and the mapping data.
func newHostMemory(exporter string, fd int, data []byte, size uint64) *hostMemory {
	m := &hostMemory{exporter: exporter, size: size, fd: fd, data: data}
	m.cleanup = openMemory(m, exporter, size)
	return m
}

func (m *hostMemory) Exporter() string { return m.exporter }
func (m *hostMemory) Size() uint64     { return m.size }

func (m *hostMemory) Address() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return addressOf(m.data)
}

func (m *hostMemory) Bytes() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.data
}

func (m *hostMemory) Identity() (Identity, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open("fstat"); err != nil {
		return Identity{}, err
	}
	inode, err := inodeOf(m.fd)
	if err != nil {
		return Identity{}, &Error{Op: "fstat", Exporter: m.exporter, Err: err}
	}
	return Identity{Kind: "dmabuf", ID: inode}, nil
}

// open says whether the memory is; the caller holds the lock.
func (m *hostMemory) open(op string) error {
	if m.fd < 0 {
		return &Error{Op: op, Exporter: m.exporter, Err: ErrClosed}
	}
	return nil
}

func (m *hostMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.copy("read", CPURead, off, p, func(data []byte) int { return copy(p, data) })
}

func (m *hostMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.copy("write", CPUWrite, off, p, func(data []byte) int { return copy(data, p) })
}

func (m *hostMemory) copy(op string, access CPUAccess, off int64, p []byte, f func(data []byte) int) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(op); err != nil {
		return 0, err
	}
	if m.data == nil {
		return 0, &Error{Op: op, Exporter: m.exporter, Err: ErrUnsupported, Detail: "its driver lets no CPU map this memory"}
	}
	return copyAt(op, m.exporter, m.data, off, p, f, func(flags uint64) error {
		return syncFD(m.fd, m.exporter, uint64(access)|flags)
	})
}

// copyAt copies between p and data from off on, between two calls of sync: with
// 0, and with syncEnd. Past the end it copies what there is and gives io.EOF.
func copyAt(op, exporter string, data []byte, off int64, p []byte, f func(data []byte) int, sync func(flags uint64) error) (int, error) {
	if off < 0 || off > int64(len(data)) {
		return 0, &Error{Op: op, Exporter: exporter, Err: ErrRange, Detail: fmt.Sprintf("offset %d of %d bytes", off, len(data))}
	}
	if err := sync(0); err != nil {
		return 0, err
	}
	n := f(data[off:])
	if err := sync(syncEnd); err != nil {
		return n, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *hostMemory) Export(offset, length uint64) (*Buffer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	const op = "export"
	if err := m.open(op); err != nil {
		return nil, err
	}
	if err := within(op, m.exporter, offset, length, m.size); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: op, Exporter: m.exporter, Err: err, Detail: fdDetail(err)}
	}
	b := newBuffer(fd, m.exporter, offset, length, m.closing)
	if m.under != nil {
		m.under.hold()
		b.onClose = m.under.release
	}
	return b, nil
}

func (m *hostMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd < 0 {
		return nil
	}
	if m.data != nil {
		if err := unix.Munmap(m.data); err != nil {
			return &Error{Op: "munmap", Exporter: m.exporter, Err: err}
		}
		m.data = nil
	}
	unix.Close(m.fd)
	m.fd = -1
	if m.under != nil {
		m.under.release()
	}
	closedMemory(m.cleanup)
	return nil
}

// shared is something with several holders, the first of which made it. The
// last one ends it.
type shared struct {
	holders atomic.Int64
	end     func()
}

func newShared(end func()) *shared {
	s := &shared{end: end}
	s.holders.Store(1)
	return s
}

func (s *shared) hold() { s.holders.Add(1) }

func (s *shared) release() {
	if s.holders.Add(-1) == 0 {
		s.end()
	}
}

// addressOf is where a mapping begins, 0 for none.
func addressOf(data []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}

// pages rounds up to whole pages; ok is false where that, or a mapping of it,
// is more than there can be.
func pages(size uint64) (rounded uint64, ok bool) {
	page := uint64(os.Getpagesize())
	rounded = (size + page - 1) &^ (page - 1)
	return rounded, size > 0 && rounded >= size && rounded <= 1<<62
}

// allocation rounds what Allocate was asked for up.
func allocation(exporter string, size uint64) (uint64, error) {
	rounded, ok := pages(size)
	if !ok {
		return 0, &Error{Op: "allocate", Exporter: exporter, Err: syscall.EINVAL, Detail: fmt.Sprintf("%d bytes", size)}
	}
	return rounded, nil
}

// hostAllocation does the same for memory that the kernel locks page by page. It
// would take the last one, and kill processes for it: what is not there is
// refused before.
func hostAllocation(exporter string, size uint64) (uint64, error) {
	size, err := allocation(exporter, size)
	if err != nil {
		return 0, err
	}
	text, _ := os.ReadFile("/proc/meminfo")
	if free, ok := memAvailable(string(text)); ok && size > free {
		return 0, &Error{Op: "allocate", Exporter: exporter, Err: syscall.ENOMEM,
			Detail: fmt.Sprintf("%d bytes, and the machine has %d available (MemAvailable)", size, free)}
	}
	return size, nil
}

// memAvailable reads /proc/meminfo, whose numbers are KiB.
func memAvailable(text string) (bytes uint64, ok bool) {
	for line := range strings.Lines(text) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, true
		}
	}
	return 0, false
}

// openNode opens a device node. missing is what to do where there is none.
func openNode(exporter, path, missing string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd, nil
	}
	e := &Error{Op: "open " + path, Exporter: exporter, Err: err, Detail: fdDetail(err)}
	switch err {
	case syscall.ENOENT, syscall.ENODEV, syscall.ENXIO, syscall.ENOTDIR:
		e.Err, e.Detail = ErrNoDevice, missing
	case syscall.EACCES, syscall.EPERM:
		e.Detail = nodeOwner(path)
	}
	return -1, e
}

// nodeOwner says who may open a node.
func nodeOwner(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return "ask as root"
	}
	return fmt.Sprintf("it is for user %d and group %d (mode %#o): join the group, change the node by a udev rule, or ask as root",
		st.Uid, st.Gid, st.Mode&0o777)
}

// unaddressed answers Adopt of exporters without addresses.
func unaddressed(exporter string) error {
	return &Error{Op: "adopt", Exporter: exporter, Err: ErrUnsupported,
		Detail: "its memory has no address of its own; use Import with the descriptor, or exporter memfd for shared memory of this process"}
}
