package transfer

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/peerdirect/peerdirect/dmabuf"
)

// Export is a piece of an exporter's memory on its way to be registered: one
// dma-buf for all NICs, or one for each where the exporter's driver wants that.
type Export struct {
	memory         dmabuf.Memory
	offset, length uint64

	mu      sync.Mutex
	buffers []*dmabuf.Buffer
	taken   bool // the last of them has its one importer
}

// NewExport is of length bytes from offset on. The memory must outlive it;
// nothing is exported before a rail asks.
func NewExport(m dmabuf.Memory, offset, length uint64) *Export {
	return &Export{memory: m, offset: offset, length: length}
}

// exportBase and a buffer's offset make the address by which a region of it is
// known: congruent to the offset in a page, as the kernel demands, and in the
// largest one, so that a driver may map the buffer by as large pages as it has.
const exportBase = 1 << 40

// buffer gives the dma-buf for one more NIC.
func (e *Export) buffer() (*dmabuf.Buffer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.buffers); n > 0 && !e.taken {
		return e.buffers[n-1], nil
	}
	b, err := e.memory.Export(e.offset, e.length)
	if err != nil {
		return nil, err
	}
	e.buffers, e.taken = append(e.buffers, b), b.OneImporter
	return b, nil
}

// register is what every rail's RegisterExport does around its own call.
func (e *Export) register(device string, reg func(b *dmabuf.Buffer, iova uint64) (*Region, error)) (*Region, error) {
	b, err := e.buffer()
	if err != nil {
		return nil, err
	}
	release, err := b.Hold()
	if err != nil {
		return nil, err
	}
	region, err := reg(b, exportBase+b.Offset)
	if err != nil {
		release()
		return nil, &MemoryError{Memory: e.memory.Exporter(), Device: device, Err: err}
	}
	deregister := region.close
	region.close = func() error {
		if err := deregister(); err != nil {
			return err
		}
		release()
		return nil
	}
	return region, nil
}

// Registered says that no more NICs will come. Descriptors that the regions do
// not need are closed, and those that no NIC took: a region is tried again, with a new
// one, for as long as it lives.
func (e *Export) Registered() error {
	return e.drop(func(b *dmabuf.Buffer) bool { return b.Closing != dmabuf.CloseNever }, syscall.EBUSY)
}

// Close gives up what is left, after the regions are closed.
func (e *Export) Close() error { return e.drop(func(*dmabuf.Buffer) bool { return true }, nil) }

// drop closes some of the buffers, and keeps what cannot be closed now; but is no error.
func (e *Export) drop(which func(*dmabuf.Buffer) bool, but error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	var kept []*dmabuf.Buffer
	for _, b := range e.buffers {
		if !which(b) {
			kept = append(kept, b)
		} else if err := b.Close(); err != nil {
			kept = append(kept, b)
			if but == nil || !errors.Is(err, but) {
				errs = append(errs, err)
			}
		}
	}
	e.buffers, e.taken = kept, true // who comes later gets a new one
	return errors.Join(errs...)
}

// MemoryError is a device that did not take an exporter's memory.
type MemoryError struct {
	Memory string // the exporter
	Device string
	Err    error
}

func (e *MemoryError) Error() string {
	remedy := ""
	switch {
	case errors.Is(e.Err, errors.ErrUnsupported):
		remedy = fmt.Sprintf("; --memory %s takes the pages through host memory instead, on any device", HostMemory)
	case errors.Is(e.Err, syscall.EREMOTEIO):
		remedy = fmt.Sprintf("; choose a NIC below the memory's switch with --device, or --memory %s, which takes the pages through host memory", HostMemory)
	}
	return fmt.Sprintf("%s memory on %s: %v%s", e.Memory, e.Device, e.Err, remedy)
}

func (e *MemoryError) Unwrap() error { return e.Err }
