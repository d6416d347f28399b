package dmabuf

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"unsafe"
	"weak"

	"golang.org/x/sys/unix"
)

var memfdFamily = family{
	name: "memfd",
	list: func(root string) []Exporter { return []Exporter{&memfd{root}} },
	open: func(root, rest string) (Exporter, error) {
		if rest != "" {
			return nil, noPart("memfd", rest)
		}
		return &memfd{root}, nil
	},
}

// memfd gives shared memory that was there first: each export makes a new
// dma-buf of the pages asked for. So the memory can be larger than a dma-buf
// may be, it can be another process's that handed its memfd over, and it
// can be given by an address; exporter udmabuf makes one dma-buf for all of
// what it allocates.
type memfd struct{ root string }

func (m *memfd) Name() string     { return "memfd" }
func (m *memfd) Describe() string { return "shared host memory, a dma-buf by udmabuf for each export" }

func (m *memfd) Available() error {
	return probeNode(m.Name(), (&udmabuf{m.root}).node(), udmabufMissing)
}

func (m *memfd) Allocate(size uint64) (Memory, error) {
	size, err := hostAllocation(m.Name(), size)
	if err != nil {
		return nil, err
	}
	if err := m.Available(); err != nil {
		return nil, err
	}
	fd, data, err := newMemfd(m.Name(), size)
	if err != nil {
		return nil, err
	}
	return newMemfdMemory(m.root, fd, 0, data, true), nil
}

// Adopt takes memory of this process that is a shared mapping of a memfd, by
// its address. The memfd is found by a descriptor of this process, or, with
// CAP_CHECKPOINT_RESTORE, by the mapping. Adopting it seals the memfd against
// being shrunk, for good: pages that a NIC reaches must not go away.
func (m *memfd) Adopt(address, size uint64) (Memory, error) {
	const op = "adopt"
	fail := func(err error, detail string) (Memory, error) {
		return nil, &Error{Op: op, Exporter: m.Name(), Err: err, Detail: detail}
	}
	if size == 0 || address+size < address {
		return fail(syscall.EINVAL, fmt.Sprintf("%d bytes at address %#x", size, address))
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fail(err, fdDetail(err))
	}
	at, err := findMapping(string(text), address, size)
	if err != nil {
		return fail(ErrUnsupported, err.Error())
	}
	fd, err := at.descriptor()
	if detail := fdDetail(err); detail != "" {
		return fail(err, detail)
	}
	if err != nil {
		return fail(err, "no descriptor of this process is the memfd, and opening it by its mapping needs CAP_CHECKPOINT_RESTORE: keep the memfd open")
	}
	if err := seal(m.Name(), fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	// Written as a load, because a number is no pointer to the checker.
	data := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), size)
	return newMemfdMemory(m.root, fd, at.Offset+(address-at.Start), data, false), nil
}

// AdoptMemfd takes a whole memfd, for instance one that another process sent
// over a unix socket. The descriptor is duplicated and stays the caller's; the
// memfd is sealed as [Exporter.Adopt] of memfd does. Memory of this exporter
// has a method FD() int, the descriptor to send.
func AdoptMemfd(fd int) (Memory, error) {
	m := &memfd{"/"}
	const op = "adopt"
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: op, Exporter: m.Name(), Err: err, Detail: fdDetail(err)}
	}
	if err := seal(m.Name(), dup); err != nil {
		unix.Close(dup)
		return nil, err
	}
	var st unix.Stat_t
	var data []byte
	if err = unix.Fstat(dup, &st); err == nil {
		data, err = mapShared(dup, 0, uint64(st.Size))
	}
	if err != nil {
		unix.Close(dup)
		return nil, &Error{Op: op, Exporter: m.Name(), Err: err, Detail: fmt.Sprintf("a memfd of %d bytes", st.Size)}
	}
	return newMemfdMemory(m.root, dup, 0, data, true), nil
}

// seal sees to the seals that a dma-buf of a memfd needs.
func seal(exporter string, fd int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	detail := ""
	switch {
	case err == syscall.EINVAL:
		err, detail = ErrUnsupported, "it is no memfd"
	case err != nil:
	case seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0:
		err, detail = ErrUnsupported, "the memfd is sealed against writing, and no dma-buf can be read-only"
	case seals&unix.F_SEAL_SHRINK != 0:
		return nil
	case seals&unix.F_SEAL_SEAL != 0:
		err, detail = ErrUnsupported, "the memfd may shrink and takes no seal: make it with MFD_ALLOW_SEALING"
	default:
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err == nil {
			return nil
		}
		if err == syscall.EPERM {
			detail = "the descriptor is open for reading only, and adopting takes one that may write"
		}
	}
	return &Error{Op: "F_ADD_SEALS", Exporter: exporter, Err: err, Detail: detail}
}

// memfdMemory is bytes of a memfd that this process maps.
type memfdMemory struct {
	root  string
	start uint64 // of data, in the memfd
	size  uint64
	own   bool // the mapping is ours to undo

	mu   sync.RWMutex
	fd   int // the memfd, -1 once closed
	data []byte

	cleanup runtime.Cleanup

	exportsMu sync.Mutex
	exports   []weak.Pointer[Buffer] // open ones, and some that are not any more
}

func newMemfdMemory(root string, fd int, start uint64, data []byte, own bool) *memfdMemory {
	m := &memfdMemory{root: root, start: start, size: uint64(len(data)), own: own, fd: fd, data: data}
	m.cleanup = openMemory(m, m.Exporter(), m.size)
	return m
}

func (m *memfdMemory) Exporter() string { return "memfd" }
func (m *memfdMemory) Size() uint64     { return m.size }
func (m *memfdMemory) Address() uint64  { return addressOf(m.Bytes()) }

func (m *memfdMemory) Bytes() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.data
}

// Start is where in the memfd the memory begins, in bytes.
func (m *memfdMemory) Start() uint64 { return m.start }

// FD is the memfd, for another process to adopt; -1 once closed.
func (m *memfdMemory) FD() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.fd
}

// open says whether the memory is; the caller holds the lock.
func (m *memfdMemory) open(op string) error {
	if m.fd < 0 {
		return &Error{Op: op, Exporter: m.Exporter(), Err: ErrClosed}
	}
	return nil
}

// Identity is the memfd's inode, which the kernel uses once.
func (m *memfdMemory) Identity() (Identity, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open("fstat"); err != nil {
		return Identity{}, err
	}
	inode, err := inodeOf(m.fd)
	if err != nil {
		return Identity{}, &Error{Op: "fstat", Exporter: m.Exporter(), Err: err}
	}
	return Identity{Kind: "memfd", ID: inode}, nil
}

func (m *memfdMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.copy("read", CPURead, off, p, func(data []byte) int { return copy(p, data) })
}

func (m *memfdMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.copy("write", CPUWrite, off, p, func(data []byte) int { return copy(data, p) })
}

func (m *memfdMemory) copy(op string, access CPUAccess, off int64, p []byte, f func(data []byte) int) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(op); err != nil {
		return 0, err
	}
	// Devices reach the memory through its exports; those that open between
	// begin and end have nothing to end. One that a registration holds after its
	// buffer was closed cannot be told, which only machines without coherent DMA
	// notice.
	open := m.openExports()
	return copyAt(op, m.Exporter(), m.data, off, p, f, func(flags uint64) error {
		for _, b := range open {
			err := b.sync(uint64(access) | flags)
			if err != nil && b.FD() >= 0 {
				return err
			}
		}
		return nil
	})
}

func (m *memfdMemory) openExports() []*Buffer {
	m.exportsMu.Lock()
	defer m.exportsMu.Unlock()
	var open []*Buffer
	m.exports = slices.DeleteFunc(m.exports, func(w weak.Pointer[Buffer]) bool {
		b := w.Value()
		if b == nil || b.FD() < 0 {
			return true
		}
		open = append(open, b)
		return false
	})
	return open
}

// Export makes a dma-buf of the pages that hold the bytes.
func (m *memfdMemory) Export(offset, length uint64) (*Buffer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	const op = "export"
	if err := m.open(op); err != nil {
		return nil, err
	}
	if err := within(op, m.Exporter(), offset, length, m.size); err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	first := m.start + offset
	inside := first % page
	size, _ := pages(inside + length)
	fd, err := createUdmabuf(m.root, m.Exporter(), m.fd, first-inside, size)
	if err != nil {
		return nil, err
	}
	b := newBuffer(fd, m.Exporter(), inside, length, CloseAnyTime)
	m.openExports()
	m.exportsMu.Lock()
	m.exports = append(m.exports, weak.Make(b))
	m.exportsMu.Unlock()
	return b, nil
}

func (m *memfdMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd < 0 {
		return nil
	}
	if m.own {
		if err := unix.Munmap(m.data); err != nil {
			return &Error{Op: "munmap", Exporter: m.Exporter(), Err: err}
		}
	}
	m.data = nil
	unix.Close(m.fd)
	m.fd = -1
	closedMemory(m.cleanup)
	return nil
}
