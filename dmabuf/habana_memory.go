package dmabuf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The call for memory and its argument: drm/habanalabs_accel.h, version 7.3, and
// misc/habanalabs.h, version 6.1. Accel nodes had the number of the older class
// until the driver went through DRM (6.7).
const (
	ioctlHabanaDRM   = 0xc0286444 // DRM_IOCTL_HL_MEMORY
	ioctlHabanaClass = 0xc0284805 // HL_IOCTL_MEMORY

	habanaAlloc  = 0 // HL_MEM_OP_ALLOC
	habanaFree   = 1 // HL_MEM_OP_FREE
	habanaMap    = 2 // HL_MEM_OP_MAP
	habanaUnmap  = 3 // HL_MEM_OP_UNMAP
	habanaExport = 5 // HL_MEM_OP_EXPORT_DMABUF_FD
)

// habanaArgs is union hl_mem_args. The input has three words whose meaning is
// the operation's; the result lies over the first.
//
//	alloc   size, page size (0: the device's)       gives the handle
//	free    handle
//	map     address wanted (0: any), handle         gives the address
//	unmap   address
//	export  address or handle, size, offset         gives the descriptor
type habanaArgs struct {
	word          [3]uint64
	op, flags     uint32
	ctx, elements uint32
}

func (x *habanaExporter) call(fd int, n habanaNode, op string, arg *habanaArgs) error {
	request := uint(ioctlHabanaClass)
	if n.accel {
		request = ioctlHabanaDRM
	}
	err := ioctlRetry(fd, request, unsafe.Pointer(arg))
	if n.accel && err == syscall.ENOTTY {
		err = ioctlRetry(fd, ioctlHabanaClass, unsafe.Pointer(arg))
	}
	if err == nil {
		return nil
	}
	detail := fdDetail(err)
	switch {
	case err == syscall.ENOMEM && arg.op == habanaAlloc:
		detail = "the accelerator has not that much memory left"
	case err == syscall.EPERM && arg.op == habanaExport, err == syscall.EOPNOTSUPP && arg.op == habanaExport:
		detail = "the driver exports no memory of this device: peer-to-peer takes a PCI BAR over all of it"
	case err == syscall.EINVAL && arg.op == habanaExport:
		detail = "the address must be the one that the driver gave when the memory was mapped, and the bytes inside it"
	}
	return &Error{Op: op, Exporter: x.Name(), Err: err, Detail: detail}
}

// Allocate gives memory of the device, mapped in its address space. It opens the
// device, unless this process has it open, and keeps it until Close.
func (x *habanaExporter) Allocate(size uint64) (Memory, error) {
	n, err := x.node()
	if err != nil {
		return nil, err
	}
	if n.physical {
		return nil, &Error{Op: "allocate", Exporter: x.Name(), Err: ErrUnsupported,
			Detail: "the first Gaudi leaves its memory to its user to divide: adopt a physical address of it"}
	}
	if size, err = allocation(x.Name(), size); err != nil {
		return nil, err
	}
	fd, err := x.descriptor(n)
	if err != nil {
		return nil, err
	}
	m := &habanaMemory{exporter: x, node: n, fd: fd, size: size, serial: habanaSerial.Add(1)}
	arg := habanaArgs{word: [3]uint64{size}, op: habanaAlloc}
	if err := x.call(fd, n, "HL_MEM_OP_ALLOC", &arg); err != nil {
		unix.Close(fd)
		return nil, err
	}
	m.handle, m.allocated = arg.word[0], true
	arg = habanaArgs{word: [3]uint64{0, m.handle}, op: habanaMap}
	if err := x.call(fd, n, "HL_MEM_OP_MAP", &arg); err != nil {
		err = errors.Join(err, m.release())
		if m.fd >= 0 {
			unix.Close(m.fd)
		}
		return nil, err
	}
	m.address, m.mapped = arg.word[0], true
	m.cleanup = openMemory(m, x.Name(), size)
	return m, nil
}

// Adopt takes memory that other code of this process mapped, by the address that
// the driver gave for all of it; of the first Gaudi, by a physical address.
func (x *habanaExporter) Adopt(address, size uint64) (Memory, error) {
	n, err := x.node()
	if err != nil {
		return nil, err
	}
	if size == 0 || address+size < address {
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: syscall.EINVAL, Detail: fmt.Sprintf("%d bytes at %#x", size, address)}
	}
	if !n.accel && !n.physical {
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: ErrUnsupported,
			Detail: "this driver exports by handle, not by address (kernels before 6.2); allocate here, or Import what its library exported"}
	}
	fd, err := ownDescriptor(n.name)
	if detail := fdDetail(err); detail != "" {
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: err, Detail: detail}
	}
	if err != nil {
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: ErrNoDevice,
			Detail: "this process has not opened " + n.name + ", so that none of its memory is this process's"}
	}
	m := &habanaMemory{exporter: x, node: n, fd: fd, address: address, size: size}
	m.cleanup = openMemory(m, x.Name(), size)
	return m, nil
}

var habanaSerial atomic.Uint64

// habanaMemory is memory of an accelerator. Only the accelerator's own engines
// copy to and from it.
type habanaMemory struct {
	exporter          *habanaExporter
	node              habanaNode
	address, size     uint64
	handle            uint64
	serial            uint64 // 0 for what was adopted
	allocated, mapped bool

	mu sync.RWMutex // read while the memory is in use
	fd int          // of the device, -1 once closed

	cleanup runtime.Cleanup
}

func (m *habanaMemory) Exporter() string { return m.exporter.Name() }
func (m *habanaMemory) Address() uint64  { return m.address }
func (m *habanaMemory) Size() uint64     { return m.size }
func (m *habanaMemory) Bytes() []byte    { return nil }

// Identity: the driver has none to give, so only what Allocate gave has one.
func (m *habanaMemory) Identity() (Identity, error) {
	if m.serial == 0 {
		return Identity{}, &Error{Op: "identity", Exporter: m.Exporter(), Err: ErrUnsupported,
			Detail: "the driver does not tell one allocation from the next at its address"}
	}
	return Identity{Kind: "habana", ID: m.serial}, nil
}

func (m *habanaMemory) noCopy(op string) (int, error) {
	return 0, &Error{Op: op, Exporter: m.Exporter(), Err: ErrUnsupported, Detail: "the CPU does not reach this memory; copy with the accelerator's own library"}
}

func (m *habanaMemory) ReadAt([]byte, int64) (int, error)  { return m.noCopy("read") }
func (m *habanaMemory) WriteAt([]byte, int64) (int, error) { return m.noCopy("write") }

// Export gives a buffer of whole pages around the bytes. The driver keeps the
// device open for it, and for its registrations, so both go before the device
// can be another process's.
func (m *habanaMemory) Export(offset, length uint64) (*Buffer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	const op = "HL_MEM_OP_EXPORT_DMABUF_FD"
	if m.fd < 0 {
		return nil, &Error{Op: op, Exporter: m.Exporter(), Err: ErrClosed}
	}
	if err := within(op, m.Exporter(), offset, length, m.size); err != nil {
		return nil, err
	}
	arg, at := m.exportArgs(offset, length)
	if err := m.exporter.call(m.fd, m.node, op, &arg); err != nil {
		return nil, err
	}
	return newBuffer(int(int32(arg.word[0])), m.Exporter(), at, length, CloseAfterDeregister), nil
}

// exportArgs says what to ask for, and where in the buffer the bytes begin.
func (m *habanaMemory) exportArgs(offset, length uint64) (arg habanaArgs, at uint64) {
	arg.op, arg.flags = habanaExport, unix.O_CLOEXEC|unix.O_RDWR
	page := uint64(os.Getpagesize())
	switch {
	case m.node.physical: // a physical address, and no offset
		start := m.address + offset
		base := start &^ (page - 1)
		arg.word = [3]uint64{base, (start + length - base + page - 1) &^ (page - 1)}
		return arg, start - base
	case !m.node.accel: // the handle, for all of the allocation
		arg.word = [3]uint64{m.handle, m.size}
		return arg, offset
	}
	base := offset &^ (page - 1)
	arg.word = [3]uint64{m.address, (offset + length - base + page - 1) &^ (page - 1), base}
	return arg, offset - base
}

// Close frees the memory. Where buffers of it are open still the driver refuses;
// the memory then stays open, and Close can be called again.
func (m *habanaMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd < 0 {
		return nil
	}
	if err := m.release(); err != nil {
		return err
	}
	closedMemory(m.cleanup)
	return nil
}

// release takes back what was done, the last first.
func (m *habanaMemory) release() error {
	if m.mapped {
		arg := habanaArgs{word: [3]uint64{m.address}, op: habanaUnmap}
		if err := m.exporter.call(m.fd, m.node, "HL_MEM_OP_UNMAP", &arg); err != nil {
			var errno syscall.Errno
			errors.As(err, &errno)
			return &Error{Op: "HL_MEM_OP_UNMAP", Exporter: m.Exporter(), Err: withClass{errno, syscall.EBUSY},
				Detail: "the driver keeps memory that is exported: deregister it and close its buffers first"}
		}
		m.mapped = false
	}
	if m.allocated {
		arg := habanaArgs{word: [3]uint64{m.handle}, op: habanaFree}
		if err := m.exporter.call(m.fd, m.node, "HL_MEM_OP_FREE", &arg); err != nil {
			return err
		}
		m.allocated = false
	}
	err := unix.Close(m.fd)
	m.fd = -1
	return err
}
