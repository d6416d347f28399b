package dmabuf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var neuronFamily = family{name: "neuron", list: listNeuron, open: openNeuron}

// The calls of AWS's Neuron driver and their arguments: neuron_ioctl.h of
// aws-neuron/aws-neuron-driver (7c0d02c). The driver is in no kernel. Its
// numbers have the size of a pointer where the argument is a struct.
const (
	ioctlNeuronMemFree  = 0x80084e16 // NEURON_IOCTL_MEM_FREE
	ioctlNeuronMemInfo  = 0x80084e1d // NEURON_IOCTL_MEM_GET_EXTENDED_INFO
	ioctlNeuronMemAlloc = 0x80084e66 // NEURON_IOCTL_MEM_ALLOC_V2
	ioctlNeuronDMABuf   = 0x80084e6b // NEURON_IOCTL_DMABUF_FD
)

type (
	neuronMemAlloc struct { // struct neuron_ioctl_mem_alloc_v2
		size, align                               uint64
		hostMemory, dramChannel, dramRegion, ncID uint32
		handle                                    *uint64
	}
	neuronMemInfo struct { // struct neuron_ioctl_mem_get_extended_info
		handle                    uint64
		version, hostMemory       uint32
		mmapOffset, pa, pid, size uint64
	}
	neuronMemFree struct{ handle uint64 } // struct neuron_ioctl_mem_free
	neuronDMABuf  struct {                // struct neuron_ioctl_dmabuf_fd
		va, size uint64
		fd       *int32
	}
)

// neuronExporter is an Inferentia or Trainium device.
type neuronExporter struct {
	root   string
	number int
}

func (x *neuronExporter) path() string {
	return filepath.Join(x.root, fmt.Sprintf("dev/neuron%d", x.number))
}

func listNeuron(root string) []Exporter {
	all := []Exporter{&neuronExporter{root: root}}
	for i := 1; ; i++ {
		x := &neuronExporter{root, i}
		if _, err := os.Stat(x.path()); err != nil {
			return all
		}
		all = append(all, x)
	}
}

func openNeuron(root, rest string) (Exporter, error) {
	n, err := ordinal("neuron", rest)
	if err != nil {
		return nil, err
	}
	return &neuronExporter{root, n}, nil
}

func (x *neuronExporter) Name() string { return fmt.Sprintf("neuron:%d", x.number) }
func (x *neuronExporter) Describe() string {
	return "memory of a Neuron device, one NIC for each buffer"
}

const neuronMissing = "load the neuron driver (package aws-neuronx-dkms), in a container pass the node in"

// Available does not open the device, which would attach the process to it.
func (x *neuronExporter) Available() error {
	return x.openError(unix.Access(x.path(), unix.R_OK|unix.W_OK))
}

func (x *neuronExporter) openError(err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: "open " + x.path(), Exporter: x.Name(), Err: err, Detail: fdDetail(err)}
	switch err {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ENXIO, syscall.ENODEV:
		e.Err, e.Detail = ErrNoDevice, neuronMissing
	case syscall.EACCES, syscall.EPERM:
		e.Detail = nodeOwner(x.path())
	case syscall.EBUSY:
		e.Detail = "another process has the device (neuron-ls shows it)"
	}
	return e
}

// device opens the device for one memory. It is never duplicated: the driver
// counts every close against the process.
func (x *neuronExporter) device() (int, error) {
	fd, err := unix.Open(x.path(), unix.O_RDWR|unix.O_CLOEXEC, 0)
	return fd, x.openError(err)
}

// Allocate gives memory of the device, whole pages of the host, mapped in this
// process: by that mapping the driver finds it again.
func (x *neuronExporter) Allocate(size uint64) (Memory, error) {
	size, err := allocation(x.Name(), size)
	if err != nil {
		return nil, err
	}
	fd, err := x.device()
	if err != nil {
		return nil, err
	}
	m := &neuronMemory{exporter: x, fd: fd, size: size, serial: neuronSerial.Add(1)}
	fail := func(op string, err error, detail string) (Memory, error) {
		return nil, errors.Join(&Error{Op: op, Exporter: x.Name(), Err: err, Detail: detail}, m.release())
	}
	arg := neuronMemAlloc{size: size, align: uint64(os.Getpagesize()), handle: &m.handle}
	if err := ioctlRetry(fd, ioctlNeuronMemAlloc, unsafe.Pointer(&arg)); err != nil {
		detail := ""
		if err == syscall.ENOMEM {
			detail = "the device has not that much memory left (neuron-top shows it)"
		}
		return fail("NEURON_IOCTL_MEM_ALLOC_V2", err, detail)
	}
	m.allocated = true
	info := neuronMemInfo{handle: m.handle, version: 1}
	if err := ioctlRetry(fd, ioctlNeuronMemInfo, unsafe.Pointer(&info)); err != nil {
		return fail("NEURON_IOCTL_MEM_GET_EXTENDED_INFO", err, "")
	}
	if m.data, err = unix.Mmap(fd, int64(info.mmapOffset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fail("mmap of the device's memory", err, "")
	}
	m.address = addressOf(m.data)
	m.cleanup = openMemory(m, x.Name(), size)
	return m, nil
}

// Adopt takes memory of the device that other code of this process has mapped,
// as libnrt does, by its address in the process.
func (x *neuronExporter) Adopt(address, size uint64) (Memory, error) {
	if size == 0 || address+size < address {
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: syscall.EINVAL, Detail: fmt.Sprintf("%d bytes at %#x", size, address)}
	}
	fd, err := x.device()
	if err != nil {
		return nil, err
	}
	m := &neuronMemory{exporter: x, fd: fd, address: address, size: size}
	m.cleanup = openMemory(m, x.Name(), size)
	return m, nil
}

var neuronSerial atomic.Uint64

type neuronMemory struct {
	exporter      *neuronExporter
	address, size uint64
	serial        uint64 // 0 for what was adopted
	handle        uint64
	allocated     bool

	mu   sync.RWMutex // read while the memory is in use
	fd   int          // of the device, -1 once closed
	data []byte       // nil for what was adopted

	cleanup runtime.Cleanup
}

func (m *neuronMemory) Exporter() string { return m.exporter.Name() }
func (m *neuronMemory) Address() uint64  { return m.address }
func (m *neuronMemory) Size() uint64     { return m.size }
func (m *neuronMemory) Bytes() []byte    { return m.data }

// Identity: the driver has none to give, so only what Allocate gave has one.
func (m *neuronMemory) Identity() (Identity, error) {
	if m.serial == 0 {
		return Identity{}, &Error{Op: "identity", Exporter: m.Exporter(), Err: ErrUnsupported,
			Detail: "the driver does not tell one mapping from the next at its address"}
	}
	return Identity{Kind: "neuron", ID: m.serial}, nil
}

func (m *neuronMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.copy("read", off, p, func(data []byte) int { return copy(p, data) })
}

func (m *neuronMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.copy("write", off, p, func(data []byte) int { return copy(data, p) })
}

func (m *neuronMemory) copy(op string, off int64, p []byte, f func(data []byte) int) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.fd < 0:
		return 0, &Error{Op: op, Exporter: m.Exporter(), Err: ErrClosed}
	case m.data == nil:
		return 0, &Error{Op: op, Exporter: m.Exporter(), Err: ErrUnsupported, Detail: "the memory is its owner's: copy with its library"}
	}
	// The mapping is of the device's BAR: there is no cache to keep in step.
	return copyAt(op, m.Exporter(), m.data, off, p, f, func(uint64) error { return nil })
}

// Export gives a buffer of whole pages around the bytes. One NIC can register
// it, once; when that registration goes the driver takes the descriptor's number
// back by itself, so that closing it would close what came after it there.
func (m *neuronMemory) Export(offset, length uint64) (*Buffer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	const op = "NEURON_IOCTL_DMABUF_FD"
	if m.fd < 0 {
		return nil, &Error{Op: op, Exporter: m.Exporter(), Err: ErrClosed}
	}
	if err := within(op, m.Exporter(), offset, length, m.size); err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	start := m.address + offset
	base := start &^ (page - 1)
	fd := int32(-1)
	arg := neuronDMABuf{va: base, size: (start + length - base + page - 1) &^ (page - 1), fd: &fd}
	if err := ioctlRetry(m.fd, ioctlNeuronDMABuf, unsafe.Pointer(&arg)); err != nil {
		return nil, &Error{Op: op, Exporter: m.Exporter(), Err: err, Detail: neuronExportDetail(err)}
	}
	b := newBuffer(int(fd), m.Exporter(), start-base, length, CloseNever)
	b.OneImporter = true
	return b, nil
}

func neuronExportDetail(err error) string {
	switch err {
	case syscall.EPROTONOSUPPORT:
		return "the driver was built for a kernel before 5.15, which has no dma-bufs of this kind; take a newer kernel"
	case syscall.EINVAL:
		return "the driver finds no mapping of its memory there in this process, or is too old to export"
	}
	return fdDetail(err)
}

// Close frees the memory. Buffers must be deregistered before: the driver looks
// the mapping up when a NIC registers, and takes descriptors back only while
// the process has the device open.
func (m *neuronMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd < 0 {
		return nil
	}
	closedMemory(m.cleanup)
	return m.release()
}

func (m *neuronMemory) release() error {
	var errs []error
	if m.data != nil {
		errs = append(errs, unix.Munmap(m.data))
		m.data = nil
	}
	if m.allocated {
		arg := neuronMemFree{m.handle}
		if err := ioctlRetry(m.fd, ioctlNeuronMemFree, unsafe.Pointer(&arg)); err != nil {
			errs = append(errs, &Error{Op: "NEURON_IOCTL_MEM_FREE", Exporter: m.Exporter(), Err: err})
		}
		m.allocated = false
	}
	errs = append(errs, unix.Close(m.fd))
	m.fd = -1
	return errors.Join(errs...)
}
