package dmabuf

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

// Adopt takes a device pointer that other code of this process got of CUDA, of
// whatever kind it is, and checks that all of the bytes are memory of this GPU.
func (x *cudaExporter) Adopt(address, size uint64) (Memory, error) {
	const op = "adopt"
	refuse := func(err error, format string, a ...any) (Memory, error) {
		return nil, &Error{Op: op, Exporter: x.Name(), Err: err, Detail: fmt.Sprintf(format, a...)}
	}
	if size == 0 || address+size < address {
		return refuse(syscall.EINVAL, "%d bytes at %#x", size, address)
	}
	d, err := x.device()
	if err != nil {
		return nil, err
	}
	p, err := pointer(address)
	switch {
	case errors.Is(err, cuda.InvalidValue):
		return refuse(withClass{cuda.InvalidValue, syscall.EFAULT},
			"CUDA does not know %#x: it is no pointer of CUDA's in this process, or was freed; for memory of the host use exporter memfd", address)
	case err != nil:
		return nil, x.failed(err, "")
	case p.managed:
		// The driver is not asked: libraries have crashed in the export of
		// managed memory of a pool.
		return refuse(ErrUnsupported, "%#x is managed memory, which moves between host and GPU; allocate with cuMemAlloc", address)
	case p.memoryType != cuda.TypeDevice:
		return refuse(ErrUnsupported, "%#x is page-locked memory of the host; register it as host memory, without a dma-buf", address)
	case p.device != x.ordinal:
		return refuse(syscall.EINVAL, "%#x is memory of cuda:%d", address, p.device)
	case address+size > p.start+p.size:
		return refuse(ErrRange, "%s at %#x has %d bytes, and %d from %#x on were asked for", p.kind.owner(), p.start, p.size, size, address)
	}
	if p.kind == cudaVMM {
		if _, err := pieces(address, size); err != nil {
			return refuse(ErrRange, "%d bytes from %#x on: %v", size, address, err)
		}
	}
	// The primary context serves for memory of every context of the device.
	// The one that it was allocated in may be destroyed at any time, and the
	// driver crashes when it is given a context that is gone.
	ctx, err := d.RetainPrimary()
	if err != nil {
		return nil, x.failed(err, "")
	}
	m := &cudaMemory{exporter: x, device: d, ctx: ctx, address: address, size: size, kind: p.kind}
	m.cleanup = openMemory(m, x.Name(), size)
	return m, nil
}

// cudaPointer is what the driver knows of an address.
type cudaPointer struct {
	memoryType  uint64 // cuda.TypeHost or TypeDevice
	device      int
	managed     bool
	kind        cudaKind
	start, size uint64 // of the allocation; of memory mapped in pieces, of the reserved addresses
}

func pointer(address uint64) (p cudaPointer, err error) {
	var device, managed, pool, ipc uint64
	for _, a := range []struct {
		attribute cuda.PointerAttribute
		v         *uint64
	}{
		{cuda.PointerMemoryType, &p.memoryType},
		{cuda.PointerIsManaged, &managed},
		{cuda.PointerDevice, &device},
		{cuda.PointerRangeStart, &p.start},
		{cuda.PointerRangeSize, &p.size},
		{cuda.PointerLegacyIPC, &ipc},
		{cuda.PointerPool, &pool},
	} {
		if *a.v, err = cuda.Context(0).Attribute(a.attribute, address); err != nil {
			return p, err
		}
	}
	p.device, p.managed = int(device), managed != 0
	switch {
	case pool != 0:
		p.kind = cudaPool
	case ipc == 0: // the older way to share takes memory of cuMemAlloc alone
		p.kind = cudaVMM
	}
	return p, nil
}

// pieces gives the buffer IDs of the pieces of physical memory that are mapped
// at size bytes from address on; there must be no hole.
func pieces(address, size uint64) ([]uint64, error) {
	var ids []uint64
	for at := address; at < address+size; {
		var mapped, base, length, id uint64
		for _, a := range []struct {
			attribute cuda.PointerAttribute
			v         *uint64
		}{
			{cuda.PointerMapped, &mapped},
			{cuda.PointerMappingBase, &base},
			{cuda.PointerMappingSize, &length},
			{cuda.PointerBufferID, &id},
		} {
			v, err := cuda.Context(0).Attribute(a.attribute, at)
			if err != nil && !errors.Is(err, cuda.InvalidValue) {
				return nil, err
			}
			*a.v = v
		}
		if mapped == 0 || base > at || base+length <= at {
			return nil, fmt.Errorf("nothing is mapped at %#x", at)
		}
		ids = append(ids, id)
		at = base + length
	}
	return ids, nil
}
