package dmabuf

import (
	"errors"
	"os"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

// Allocate gives whole pages of the host, so that they can be exported: of
// cuMemAlloc, of a pool of their own, or in pieces of cudaPiece.
func (x *cudaExporter) Allocate(size uint64) (Memory, error) {
	if err := x.Available(); err != nil {
		return nil, err
	}
	size, err := allocation(x.Name(), size)
	if err != nil {
		return nil, err
	}
	d, err := x.device()
	if err != nil {
		return nil, err
	}
	ctx, err := d.RetainPrimary()
	if err != nil {
		return nil, x.failed(err, "")
	}
	var m *cudaMemory
	switch x.kind {
	case cudaPool:
		m, err = x.allocatePool(d, ctx, size)
	case cudaVMM:
		m, err = x.allocateVMM(d, ctx, size, cudaPiece)
	default:
		m, err = x.allocatePlain(ctx, size)
	}
	if err != nil {
		return nil, errors.Join(x.failed(err, ""), d.ReleasePrimary())
	}
	m.exporter, m.device, m.ctx = x, d, ctx
	m.cleanup = openMemory(m, x.Name(), m.size)
	return m, nil
}

// allocatePlain asks for a page more where the driver did not begin at a page:
// small allocations share a block, and what others took of it goes before.
func (x *cudaExporter) allocatePlain(ctx cuda.Context, size uint64) (*cudaMemory, error) {
	page := uint64(os.Getpagesize())
	p, err := ctx.Alloc(size)
	if err != nil {
		return nil, err
	}
	at := p
	if p%page != 0 {
		if err := ctx.Free(p); err != nil {
			return nil, err
		}
		if p, err = ctx.Alloc(size + page); err != nil {
			return nil, err
		}
		at = (p + page - 1) &^ (page - 1)
	}
	// A NIC does not see what the driver still holds back of a copy.
	if err := ctx.SyncMemops(p); err != nil {
		return nil, errors.Join(err, ctx.Free(p))
	}
	return &cudaMemory{address: at, size: size, kind: cudaPlain, free: func() error { return ctx.Free(p) }}, nil
}

// allocatePool makes a pool for the one allocation, so that none of its blocks
// is shared.
func (x *cudaExporter) allocatePool(d cuda.Device, ctx cuda.Context, size uint64) (*cudaMemory, error) {
	pool, err := d.CreatePool(true)
	if err != nil {
		return nil, err
	}
	p, err := ctx.AllocFromPool(pool, size)
	if err != nil {
		return nil, errors.Join(err, pool.Destroy())
	}
	return &cudaMemory{address: p, size: size, kind: cudaPool, free: func() error {
		return errors.Join(ctx.FreeAsync(p), pool.Destroy())
	}}, nil
}

// cudaPiece is how large the pieces of physical memory are that one range is
// made of: what PyTorch's expandable segments take for large blocks.
const cudaPiece = 20 << 20

// allocateVMM reserves addresses and maps pieces of physical memory there, one
// after the other; the last is as small as it can be.
func (x *cudaExporter) allocateVMM(d cuda.Device, ctx cuda.Context, size, piece uint64) (*cudaMemory, error) {
	granule, err := d.Granularity()
	if err != nil {
		return nil, err
	}
	size = (size + granule - 1) / granule * granule
	piece = max(piece/granule*granule, granule)
	at, err := ctx.Reserve(size)
	if err != nil {
		return nil, err
	}
	mapped := uint64(0)
	free := func() error {
		var errs []error
		for mapped > 0 {
			// Pieces are unmapped as they were mapped.
			last := (mapped - 1) / piece * piece
			if err := ctx.Unmap(at+last, mapped-last); err != nil {
				errs = append(errs, err)
			}
			mapped = last
		}
		return errors.Join(append(errs, ctx.Unreserve(at, size))...)
	}
	for mapped < size {
		n := min(piece, size-mapped)
		if err := ctx.Map(d, at+mapped, n, true); err != nil {
			return nil, errors.Join(err, free())
		}
		mapped += n
	}
	return &cudaMemory{address: at, size: size, kind: cudaVMM, free: free}, nil
}
