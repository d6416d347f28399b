package pages

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// memory is where one side's pages lie: in this process, where they are read in
// place, or with an exporter, whose memory is copied in and out through it.
type memory struct {
	size     uint64
	host     *verbs.Buffer
	exported dmabuf.Memory
	region   *engine.Region
	chunk    []byte // of exported memory
}

// newMemory allocates; without an exporter it is the process's own. What an exporter
// gave is cleared, which the context may end.
func newMemory(ctx context.Context, from dmabuf.Exporter, size uint64) (*memory, error) {
	if from == nil {
		host, err := verbs.NewBuffer(int(size), verbs.BufferOptions{})
		if err != nil {
			return nil, err
		}
		return &memory{size: size, host: host}, nil
	}
	exported, err := from.Allocate(wholePages(size))
	if err != nil {
		return nil, err
	}
	m := &memory{size: size, exported: exported}
	if err := m.clear(ctx, size); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// clear makes what was just allocated zero, as the kernel gives memory of the
// process: an accelerator's may hold the pages of an earlier transfer, which would
// pass for those of this one.
func (m *memory) clear(ctx context.Context, size uint64) error {
	zero := make([]byte, min(size, chunkSize))
	for at := uint64(0); at < size; at += uint64(len(zero)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := m.exported.WriteAt(zero[:min(size-at, uint64(len(zero)))], int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// wholePages rounds up to pages, without which most exporters have no memory.
func wholePages(size uint64) uint64 {
	page := uint64(os.Getpagesize())
	return (size + page - 1) / page * page
}

// register makes the memory reachable by every rail of an engine.
func (m *memory) register(e *engine.Engine) (err error) {
	if m.host != nil {
		m.region, err = e.Register(m.host.Bytes())
	} else {
		m.region, err = e.RegisterMemory(m.exported, 0, m.size)
	}
	return err
}

// fill writes the source pages of an epoch.
func (m *memory) fill(ctx context.Context, l Layout, epoch uint32) error {
	if m.host != nil {
		return fill(ctx, m.host.Bytes(), l, epoch)
	}
	return m.walk(ctx, l, nil, l.SourceSlot, func(at int64, chunk []byte, pages []pagePlace) error {
		for _, p := range pages {
			fillPage(p.in(chunk, l), l, epoch, p.page)
		}
		_, err := m.exported.WriteAt(chunk, at)
		return err
	})
}

// sum reads the pages at the slots given. order is the pages by ascending slot,
// nil where that is their own.
func (m *memory) sum(ctx context.Context, sums pageSums, l Layout, order []uint32, slot func(int) int) error {
	if m.host != nil {
		return sums.compute(ctx, m.host.Bytes(), l, slot)
	}
	return m.walk(ctx, l, order, slot, func(at int64, chunk []byte, pages []pagePlace) error {
		if n, err := m.exported.ReadAt(chunk, at); n < len(chunk) {
			return err
		}
		for _, p := range pages {
			sums.sum(p.page, p.in(chunk, l))
		}
		return nil
	})
}

// order gives the pages by ascending slot where that is of use: memory that is
// copied is copied in large pieces.
func (m *memory) order(l Layout, slot func(int) int) []uint32 {
	if m.host != nil || l.Seed == 0 {
		return nil
	}
	order := make([]uint32, l.Pages)
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return slot(int(a)) - slot(int(b)) })
	return order
}

// chunkSize is how much exported memory is copied at once, if pages are smaller.
const chunkSize = 1 << 20

// pagePlace is a page and where it begins in a chunk.
type pagePlace struct{ page, at int }

func (p pagePlace) in(chunk []byte, l Layout) []byte { return chunk[p.at : p.at+l.PageSize] }

// walk gives a chunk of the memory's size and place after the other that hold
// all pages, in ascending order, and the pages in each.
func (m *memory) walk(ctx context.Context, l Layout, order []uint32, slot func(int) int, visit func(at int64, chunk []byte, pages []pagePlace) error) error {
	if m.chunk == nil {
		m.chunk = make([]byte, min(l.Span(), uint64(max(chunkSize, l.PageSize))))
	}
	var pages []pagePlace
	for i := 0; i < l.Pages; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pages = pages[:0]
		var start, end int
		for ; i < l.Pages; i++ {
			page := i
			if order != nil {
				page = int(order[i])
			}
			at := slot(page) * l.PageSize
			if len(pages) == 0 {
				start = at
			}
			if at+l.PageSize-start > len(m.chunk) {
				break
			}
			end = at + l.PageSize
			pages = append(pages, pagePlace{page, at - start})
		}
		if err := visit(int64(start), m.chunk[:end-start], pages); err != nil {
			return err
		}
	}
	return nil
}

// damage lets a test change the bytes.
func (m *memory) damage(how func(mem []byte)) error {
	if m.host != nil {
		how(m.host.Bytes())
		return nil
	}
	all := make([]byte, m.size)
	if _, err := m.exported.ReadAt(all, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	how(all)
	_, err := m.exported.WriteAt(all, 0)
	return err
}

// close deregisters and frees the memory, into which nothing may be on its way any
// more. It may be called on nil.
func (m *memory) close() error {
	if m == nil {
		return nil
	}
	if m.region != nil {
		if err := m.region.Close(); err != nil {
			return err // a device may still write it
		}
	}
	if m.host != nil {
		return m.host.Close()
	}
	return m.exported.Close()
}

// tryMemory finds out whether an exporter's memory can be copied into, and whether
// the engine's devices take it, with one page of it.
func tryMemory(e *engine.Engine, from dmabuf.Exporter) error {
	if from == nil {
		return nil
	}
	if err := from.Available(); err != nil {
		return err
	}
	m, err := newMemory(context.Background(), from, uint64(os.Getpagesize()))
	if err != nil {
		return err
	}
	return errors.Join(m.register(e), m.close())
}
