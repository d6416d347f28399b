package path

import (
	"fmt"
	"slices"

	"github.com/peerdirect/peerdirect/transfer/report"
)

// piece is how much is read back at once.
const piece = 16 << 20

// memory allocates and fills everything.
func (r *rig) memory() error {
	span := r.o.span()
	r.pattern = pattern(span)
	for i, e := range r.ends {
		for _, at := range []*uint64{&e.out, &e.in} {
			p, err := e.gpu.alloc(span + guard)
			if err != nil {
				return fmt.Errorf("%v on %s: %w; a smaller --max takes less", report.Bytes(span+guard), e.name, err)
			}
			r.later(func() error { return e.gpu.free(p) })
			*at = p
			r.beat()
		}
		for off := uint64(0); off < span; off += piece {
			n := min(piece, span-off)
			if err := e.gpu.toDevice(e.out+off, r.pattern[uint64(i*shift)+off:][:n]); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			r.beat()
		}
	}
	var err error
	if r.check, err = r.pin(r.ends[0], -1, int(min(piece, span+guard))); err != nil {
		return err
	}
	for i := range r.lanes {
		if r.lanes[i], err = r.lane(r.ends[i], r.ends[1-i], r.facts[i].Node); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) lane(from, to *end, near *int) (l *lane, err error) {
	l = &lane{from: from, to: to}
	if l.down, err = r.stream(from); err != nil {
		return nil, err
	}
	if l.up, err = r.stream(to); err != nil {
		return nil, err
	}
	node := -1
	if near != nil && slices.Contains(r.nodes, *near) {
		node = *near
	}
	want := func(w Way) bool { return slices.Contains(r.o.Ways, w) }
	chunk := int(min(r.o.Chunk, r.o.Max))
	if want(Piped) {
		if l.piped, err = r.pipe(l, node, r.o.Buffers, chunk); err != nil {
			return nil, err
		}
		for _, n := range r.nodes {
			p, err := r.pipe(l, n, r.o.Buffers, chunk)
			if err != nil {
				return nil, err
			}
			l.nodes = append(l.nodes, p)
		}
	}
	if want(Plain) {
		if l.plain, err = r.pipe(l, node, 1, int(r.o.Max)); err != nil {
			return nil, err
		}
	}
	if want(Pageable) {
		l.pageable = make([]byte, r.o.Max)
		for i := range l.pageable { // there before it is measured
			l.pageable[i] = poison
		}
	}
	return l, nil
}

func (r *rig) stream(e *end) (stream, error) {
	s, err := e.gpu.stream()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	r.later(s.close)
	r.streams = append(r.streams, s)
	return s, nil
}

func (r *rig) pipe(l *lane, node, buffers, chunk int) (*pipe, error) {
	p := new(pipe)
	for range buffers {
		b, err := r.pin(l.from, node, chunk)
		if err != nil {
			return nil, err
		}
		p.buffers = append(p.buffers, b)
		for _, of := range []struct {
			at *[]event
			of *end
		}{{&p.full, l.from}, {&p.emptied, l.to}} {
			e, err := of.of.gpu.event()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", of.of.name, err)
			}
			r.later(e.close)
			*of.at = append(*of.at, e)
		}
	}
	return p, nil
}

// pin gives pinned memory of a NUMA node, or where the driver puts it if that is -1.
func (r *rig) pin(e *end, node, size int) (b []byte, err error) {
	defer r.beat()
	if node < 0 {
		b, err = e.gpu.pinned(size)
		r.laterIf(err, func() error { return e.gpu.unpinned(b) })
	} else {
		b, err = r.drv.bound(e.gpu, node, size)
		r.laterIf(err, func() error { return r.drv.unbound(e.gpu, b) })
	}
	if err != nil {
		where := ""
		if node >= 0 {
			where = fmt.Sprintf(" of NUMA node %d", node)
		}
		return nil, fmt.Errorf("%v of pinned memory%s: %w; a smaller --max takes less", report.Bytes(size), where, err)
	}
	return b, nil
}

func (r *rig) laterIf(err error, f func() error) {
	if err == nil {
		r.later(f)
	}
}
