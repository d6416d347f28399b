package dmabuf

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/dl"
	"github.com/peerdirect/peerdirect/internal/ze"
)

var zeFamily = family{name: "ze", list: listZE, open: openZE}

// zeExporter is a GPU of Intel's, as Level Zero counts them. Memory has to be
// allocated for export, so what other code allocated cannot be adopted.
type zeExporter struct{ number int }

// listZE asks the library how many GPUs there are. Only the machine that this
// process runs on has one to ask.
func listZE(root string) []Exporter {
	all := []Exporter{&zeExporter{}}
	if root != "/" || ze.Init() != nil {
		return all
	}
	devices, _ := ze.Devices()
	for i := 1; i < len(devices); i++ {
		all = append(all, &zeExporter{i})
	}
	return all
}

func openZE(_, rest string) (Exporter, error) {
	n, err := ordinal("ze", rest)
	if err != nil {
		return nil, err
	}
	return &zeExporter{n}, nil
}

func (x *zeExporter) Name() string { return fmt.Sprintf("ze:%d", x.number) }

func (x *zeExporter) Describe() string {
	const what = "GPU memory by Level Zero"
	d, err := x.device()
	if err != nil {
		return what
	}
	name, err := d.Name()
	if err != nil {
		return what
	}
	if pci, err := d.PCIAddress(); err == nil {
		name += " at " + pci
	}
	return what + ", " + name
}

func (x *zeExporter) device() (ze.Device, error) {
	if err := ze.Init(); err != nil {
		return ze.Device{}, x.noDriver(err)
	}
	devices, err := ze.Devices()
	if err != nil {
		return ze.Device{}, x.failed(err, "")
	}
	if x.number >= len(devices) {
		return ze.Device{}, &Error{Op: "zeDeviceGet", Exporter: x.Name(), Err: ErrNoDevice,
			Detail: fmt.Sprintf("Level Zero shows %d GPUs, numbered from 0", len(devices))}
	}
	return devices[x.number], nil
}

// noDriver says why Level Zero did not start.
func (x *zeExporter) noDriver(err error) error {
	var old *dl.TooOldError
	var failed *ze.Error
	switch {
	case errors.As(err, &failed):
		e := &Error{Op: failed.Op, Exporter: x.Name(), Err: failed.Result,
			Detail: "the loader is here, and no driver of a GPU: install intel-level-zero-gpu (libze-intel-gpu1), and see that /dev/dri/renderD* may be opened"}
		if !anyClass(e) {
			e.Err = withClass{failed.Result, ErrNoDevice}
		}
		return e
	case errors.As(err, &old):
		return &Error{Op: "dlopen " + ze.LibraryName, Exporter: x.Name(), Err: ErrUnsupported, Detail: fmt.Sprintf("%v; install a newer libze1", old)}
	}
	return &Error{Op: "dlopen " + ze.LibraryName, Exporter: x.Name(), Err: ErrNoDevice, Detail: fmt.Sprintf("%v; install libze1 and the GPU's driver", err)}
}

func (x *zeExporter) failed(err error, detail string) error {
	var e *ze.Error
	if !errors.As(err, &e) {
		return err
	}
	return &Error{Op: e.Op, Exporter: x.Name(), Err: e.Result, Detail: detail}
}

// Available starts Level Zero, which stays started.
func (x *zeExporter) Available() error {
	d, err := x.device()
	if err != nil {
		return err
	}
	exports, err := d.ExportsDMABuf()
	if err != nil {
		return x.failed(err, "")
	}
	if !exports {
		return &Error{Op: "zeDeviceGetExternalMemoryProperties", Exporter: x.Name(), Err: ErrUnsupported,
			Detail: "the driver exports no memory of this GPU as a dma-buf"}
	}
	return nil
}

// Allocate gives whole pages of memory that may be exported, and has the dma-buf
// of it shown at once.
func (x *zeExporter) Allocate(size uint64) (Memory, error) {
	if err := x.Available(); err != nil {
		return nil, err
	}
	size, err := allocation(x.Name(), size)
	if err != nil {
		return nil, err
	}
	d, c, err := x.context()
	if err != nil {
		return nil, err
	}
	p, err := c.Alloc(d, size, uint64(os.Getpagesize()))
	if err != nil {
		return nil, x.failed(err, "")
	}
	m, err := x.memory(d, c, p, size)
	if err != nil {
		return nil, errors.Join(err, x.failed(c.Free(p), ""))
	}
	m.allocated = true
	return m, nil
}

func (x *zeExporter) context() (ze.Device, ze.Context, error) {
	d, err := x.device()
	if err != nil {
		return d, ze.Context{}, err
	}
	c, err := d.Context()
	if err != nil {
		return d, c, x.failed(err, "")
	}
	return d, c, nil
}

// Adopt takes parts of memory that an exporter of this process allocated. Of
// other code's Level Zero tells nothing here, and what was not allocated for
// export cannot be exported.
func (x *zeExporter) Adopt(address, size uint64) (Memory, error) {
	if size == 0 || address+size < address {
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: syscall.EINVAL, Detail: fmt.Sprintf("%d bytes at %#x", size, address)}
	}
	d, c, err := x.context()
	if err != nil {
		return nil, err
	}
	owner, ok, err := c.Owner(address)
	switch {
	case err != nil || !ok:
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: ErrUnsupported,
			Detail: fmt.Sprintf("%#x was not allocated by this exporter; memory that is to be exported must be allocated for it: allocate here, or Import the descriptor that its owner got", address)}
	case !owner.Is(d):
		return nil, &Error{Op: "adopt", Exporter: x.Name(), Err: syscall.EINVAL, Detail: fmt.Sprintf("%#x is memory of another GPU", address)}
	}
	m, err := x.memory(d, c, address, size)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// memory finds the dma-buf of what is at an address. A driver may report success
// and have left the descriptor alone, so what it gave is looked at.
func (x *zeExporter) memory(d ze.Device, c ze.Context, address, size uint64) (*zeMemory, error) {
	base, length, err := c.Range(address)
	if err != nil {
		return nil, x.failed(err, "")
	}
	const op = "zeMemGetAllocProperties"
	if err := within(op, x.Name(), address-base, size, length); err != nil {
		return nil, err
	}
	theirs, err := c.Export(address)
	if err != nil {
		return nil, x.failed(err, "")
	}
	info, err := stat(theirs)
	switch {
	case theirs < 0:
		return nil, &Error{Op: op, Exporter: x.Name(), Err: ErrUnsupported, Detail: "the driver reports success and gives no descriptor; update the GPU's driver"}
	case err != nil:
		return nil, &Error{Op: op, Exporter: x.Name(), Err: err, Detail: fmt.Sprintf("what the driver gave, descriptor %d, is no dma-buf", theirs)}
	case info.Size < address-base+size:
		return nil, &Error{Op: op, Exporter: x.Name(), Err: ErrUnsupported, Detail: fmt.Sprintf("the driver's dma-buf has %d bytes, and the memory ends at %d in it", info.Size, address-base+size)}
	}
	// The driver keeps its descriptor for the allocation's life: ours is another.
	fd, err := unix.FcntlInt(uintptr(theirs), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: op, Exporter: x.Name(), Err: err, Detail: fdDetail(err)}
	}
	return &zeMemory{hostMemory: newHostMemory(x.Name(), fd, nil, size), x: x, device: d, context: c, address: address, offset: address - base}, nil
}

// zeMemory is memory of a GPU. Copies go by its engines.
type zeMemory struct {
	*hostMemory
	x         *zeExporter
	device    ze.Device
	context   ze.Context
	address   uint64
	offset    uint64 // of the address in the dma-buf, which holds all of the allocation
	allocated bool
}

func (m *zeMemory) Address() uint64 { return m.address }

// Export adds where the bytes begin in the allocation.
func (m *zeMemory) Export(offset, length uint64) (*Buffer, error) {
	b, err := m.hostMemory.Export(offset, length)
	if err == nil {
		b.Offset += m.offset
	}
	return b, err
}

func (m *zeMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.move("read", p, off, func(b []byte, at uint64) error {
		return m.x.failed(m.context.CopyToHost(m.device, b, m.address+at), "")
	})
}

func (m *zeMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.move("write", p, off, func(b []byte, at uint64) error {
		return m.x.failed(m.context.CopyToDevice(m.device, m.address+at, b), "")
	})
}

// Close frees the memory; buffers of it stay valid.
func (m *zeMemory) Close() error {
	if err := m.hostMemory.Close(); err != nil || !m.allocated {
		return err
	}
	m.allocated = false
	return m.x.failed(m.context.Free(m.address), "")
}
