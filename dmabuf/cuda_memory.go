package dmabuf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

// cudaMemory is memory of a GPU. The CPU does not reach it: copies go by the
// GPU's own engines.
type cudaMemory struct {
	exporter *cudaExporter
	device   cuda.Device
	ctx      cuda.Context // the one to be current for calls about the memory
	address  uint64
	size     uint64
	kind     cudaKind     // the memory's, which an adopted one's exporter need not have
	free     func() error // nil for what was adopted

	mu     sync.RWMutex // read while the memory is in use
	closed bool

	cleanup runtime.Cleanup
}

func (m *cudaMemory) Exporter() string { return m.exporter.Name() }
func (m *cudaMemory) Address() uint64  { return m.address }
func (m *cudaMemory) Size() uint64     { return m.size }
func (m *cudaMemory) Bytes() []byte    { return nil }

// use calls f while the memory is open.
func (m *cudaMemory) use(op string, f func() error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return &Error{Op: op, Exporter: m.Exporter(), Err: ErrClosed}
	}
	return f()
}

// Identity is the driver's buffer ID, unique in the process; of memory that is
// mapped in several pieces, a hash of theirs. It is asked for each time: once
// adopted memory was freed by its owner, the same address gives an error, or
// what came after it.
func (m *cudaMemory) Identity() (id Identity, err error) {
	err = m.use("identity", func() error {
		gone := func(why any) error {
			return &Error{Op: "cuPointerGetAttribute", Exporter: m.Exporter(), Err: ErrClosed,
				Detail: fmt.Sprintf("%d bytes at %#x are no allocation any more, its owner freed it: %v", m.size, m.address, why)}
		}
		if m.kind == cudaVMM {
			ids, err := pieces(m.address, m.size)
			if err != nil {
				return gone(err)
			}
			id = Identity{Kind: "cuda", ID: ids[0]}
			if len(ids) > 1 {
				id = Identity{Kind: "cuda pieces", ID: hashIDs(ids)}
			}
			return nil
		}
		v, err := m.ctx.Attribute(cuda.PointerBufferID, m.address)
		if errors.Is(err, cuda.InvalidValue) {
			return gone(err)
		}
		id = Identity{Kind: "cuda", ID: v}
		return m.fail(err)
	})
	return id, err
}

func hashIDs(ids []uint64) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for _, id := range ids {
		binary.LittleEndian.PutUint64(b[:], id)
		h.Write(b[:])
	}
	return h.Sum64()
}

func (m *cudaMemory) fail(err error) error {
	if err == nil {
		return nil
	}
	return m.exporter.failed(err, "")
}

func (m *cudaMemory) ReadAt(p []byte, off int64) (int, error) {
	return m.copy("read", p, off, func(b []byte, at uint64) error { return m.ctx.CopyToHost(b, at) })
}

func (m *cudaMemory) WriteAt(p []byte, off int64) (int, error) {
	return m.copy("write", p, off, func(b []byte, at uint64) error { return m.ctx.CopyToDevice(at, b) })
}

func (m *cudaMemory) copy(op string, p []byte, off int64, f func(b []byte, at uint64) error) (n int, err error) {
	err = m.use(op, func() error {
		n, err = moveAt(op, m.Exporter(), m.size, p, off, func(b []byte, at uint64) error { return m.fail(f(b, m.address+at)) })
		return err
	})
	return n, err
}

// Export gives a dma-buf of whole pages of the host around the bytes, so that
// it may hold bytes of a neighbour: small allocations share a block. A buffer of
// memory that was mapped in pieces stands for the pieces that were mapped when
// it was made.
func (m *cudaMemory) Export(offset, length uint64) (b *Buffer, err error) {
	const op = "export"
	err = m.use(op, func() error {
		if err := within(op, m.Exporter(), offset, length, m.size); err != nil {
			return err
		}
		page := uint64(os.Getpagesize())
		start := m.address + offset
		base := start &^ (page - 1)
		end := (start + length + page - 1) &^ (page - 1)
		fd, err := m.exporter.export(m.ctx, base, end-base)
		if m.kind == cudaPool && errors.Is(err, cuda.InvalidValue) {
			// Of a pool, the driver (580) exports what lies inside one piece
			// of the pool's memory only from the piece's start on.
			if piece, e := m.ctx.Attribute(cuda.PointerMappingBase, start); e == nil && piece < base {
				base = piece
				fd, err = m.exporter.export(m.ctx, base, end-base)
			}
		}
		if err != nil {
			return m.exportError(err, base, end)
		}
		unix.CloseOnExec(fd)
		b = newBuffer(fd, m.Exporter(), start-base, length, CloseAnyTime)
		return nil
	})
	return b, err
}

// export asks for the mapping over PCIe first, which machines whose GPUs are on
// the CPU's own links tell from another. Drivers before 12.8 refuse the flag
// as an invalid value, others as not supported.
func (x *cudaExporter) export(ctx cuda.Context, base, size uint64) (fd int, err error) {
	if !x.noPCIe.Load() {
		fd, err = ctx.Export(base, size, cuda.MapPCIe)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, cuda.NotSupported):
			x.noPCIe.Store(true)
		case !errors.Is(err, cuda.InvalidValue):
			return -1, err
		}
	}
	return ctx.Export(base, size, 0)
}

// exportError adds what the status does not say.
func (m *cudaMemory) exportError(err error, base, end uint64) error {
	detail := fdDetail(descriptorLeft())
	switch {
	case detail != "":
	case errors.Is(err, cuda.InvalidValue):
		detail = fmt.Sprintf("the driver exports what is mapped throughout and was not freed; this is %s, and its pages are %#x to %#x", m.kind.owner(), base, end)
		if _, e := m.ctx.Attribute(cuda.PointerMemoryType, m.address); errors.Is(e, cuda.InvalidValue) {
			detail = fmt.Sprintf("the driver no longer knows %#x: its owner freed it, or destroyed the context or reset the device that it was of", m.address)
		}
	case errors.Is(err, cuda.NotSupported):
		detail = fmt.Sprintf("the driver exports no dma-buf of %s", m.kind.owner())
	}
	return m.exporter.failed(err, detail)
}

// Close frees the memory, unless it was adopted.
func (m *cudaMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	closedMemory(m.cleanup)
	var err error
	if m.free != nil {
		err = m.fail(m.free())
	}
	return errors.Join(err, m.fail(m.device.ReleasePrimary()))
}
