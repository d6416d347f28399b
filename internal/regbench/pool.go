package regbench

import (
	"errors"
	"os"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// pool is the memory whose pieces are registered.
type pool struct {
	size uint64
	host *verbs.Buffer
	mem  dmabuf.Memory
}

// newPool allocates, and touches every page: what is measured is not the first
// use of memory.
func newPool(from dmabuf.Exporter, size uint64) (*pool, error) {
	p := &pool{size: size}
	var err error
	if from == nil {
		if p.host, err = verbs.NewBuffer(int(size), verbs.BufferOptions{Populate: true}); err != nil {
			return nil, err
		}
		return p, nil
	}
	if err := from.Available(); err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	if p.mem, err = from.Allocate((size + page - 1) / page * page); err != nil {
		return nil, err
	}
	return p, nil
}

// piece is a registered part of the pool.
type piece struct {
	region *transfer.Region
	export *transfer.Export // nil for host memory
}

// register registers length bytes from offset on. Of an exporter's memory it
// exports the piece first: who registers for a transfer has to.
func (p *pool) register(rail transfer.Rail, offset, length uint64) (*piece, error) {
	if p.host != nil {
		region, err := rail.Register(p.host.Bytes()[offset:][:length])
		if err != nil {
			return nil, err
		}
		return &piece{region: region}, nil
	}
	e := transfer.NewExport(p.mem, offset, length)
	region, err := rail.RegisterExport(e)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	x := &piece{region, e}
	if err := e.Registered(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close deregisters, and gives the dma-buf up.
func (x *piece) Close() error {
	if err := x.region.Close(); err != nil || x.export == nil {
		return err
	}
	return x.export.Close()
}

// close frees the memory; it may be called on nil.
func (p *pool) close() error {
	switch {
	case p == nil:
		return nil
	case p.host != nil:
		return p.host.Close()
	}
	return p.mem.Close()
}
