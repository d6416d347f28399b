package dmabuf

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/dl"
	"github.com/peerdirect/peerdirect/internal/hsa"
)

// Adopt takes a device pointer of the ROCm runtime in this process, as hipMalloc
// gives it, and exports its allocation at once: the buffers are descriptors of
// the same dma-buf.
func (x *amdExporter) Adopt(address, size uint64) (Memory, error) {
	const op = "adopt"
	refuse := func(err error, format string, a ...any) (Memory, error) {
		return nil, &Error{Op: op, Exporter: x.Name(), Err: err, Detail: fmt.Sprintf(format, a...)}
	}
	if size == 0 || address+size < address {
		return refuse(syscall.EINVAL, "%d bytes at %#x", size, address)
	}
	n, err := x.node()
	if err != nil {
		return nil, err
	}
	if err := hsa.Init(); err != nil {
		return nil, x.noRuntime(err)
	}
	p, err := hsa.PointerInfo(address)
	if err != nil {
		return nil, x.failed(err, "")
	}
	switch {
	case p.Type == hsa.TypeUnknown:
		return refuse(syscall.EFAULT, "the ROCm runtime does not know %#x: it is no pointer of hipMalloc's in this process, or was freed", address)
	case p.Type == hsa.TypeLocked:
		return refuse(ErrUnsupported, "%#x is memory of the host; register it as that", address)
	case address < p.Base || size > p.Size || address-p.Base > p.Size-size:
		return refuse(ErrRange, "the allocation at %#x has %d bytes, and %d from %#x on were asked for", p.Base, p.Size, size, address)
	}
	domain, bdf, err := hsa.AgentAddress(p.Owner)
	if err != nil {
		return nil, x.failed(err, fmt.Sprintf("%#x has no GPU for an owner that this process sees", address))
	}
	if domain != n.domain || bdf != n.bdf {
		return refuse(syscall.EINVAL, "%#x is memory of the device at %s, and %s is at %s", address, kfdNode{domain: domain, bdf: bdf}.address(), x.Name(), n.address())
	}
	fd, offset, err := hsa.Export(address, size)
	if err != nil {
		return nil, x.failed(err, "")
	}
	unix.CloseOnExec(fd)
	return &hsaMemory{newHostMemory(x.Name(), fd, nil, size), x, address, offset}, nil
}

// hsaMemory is memory that the ROCm runtime allocated.
type hsaMemory struct {
	*hostMemory
	x       *amdExporter
	address uint64
	offset  uint64 // of the address in the dma-buf, which holds all of the allocation
}

func (m *hsaMemory) Address() uint64 { return m.address }

// Export adds where the adopted bytes begin in the buffer.
func (m *hsaMemory) Export(offset, length uint64) (*Buffer, error) {
	b, err := m.hostMemory.Export(offset, length)
	if err == nil {
		b.Offset += m.offset
	}
	return b, err
}

func (m *hsaMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.move("read", p, off, func(b []byte, at uint64) error {
		return m.x.failed(hsa.CopyToHost(b, m.address+at), "")
	})
}

func (m *hsaMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.move("write", p, off, func(b []byte, at uint64) error {
		return m.x.failed(hsa.CopyToDevice(m.address+at, b), "")
	})
}

// noRuntime says why the runtime did not start.
func (x *amdExporter) noRuntime(err error) error {
	var old *dl.TooOldError
	var failed *hsa.Error
	switch {
	case errors.As(err, &failed):
		return &Error{Op: failed.Op, Exporter: x.Name(), Err: withClass{failed.Status, ErrNoDevice},
			Detail: "the runtime found no GPU that it may open: look at /dev/kfd, /dev/dri/renderD* and ROCR_VISIBLE_DEVICES"}
	case errors.As(err, &old):
		return &Error{Op: "dlopen " + hsa.LibraryName, Exporter: x.Name(), Err: ErrUnsupported, Detail: fmt.Sprintf("%v; install ROCm from 5.6 on", old)}
	}
	return &Error{Op: "dlopen " + hsa.LibraryName, Exporter: x.Name(), Err: ErrNoDevice, Detail: fmt.Sprintf("%v; adopting takes ROCm's runtime (package hsa-rocr)", err)}
}

func (x *amdExporter) failed(err error, detail string) error {
	var e *hsa.Error
	if !errors.As(err, &e) {
		return err
	}
	if detail == "" && errors.Is(err, hsa.OutOfResources) {
		detail = fdDetail(descriptorLeft())
	}
	return &Error{Op: e.Op, Exporter: x.Name(), Err: e.Status, Detail: detail}
}
