package path

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/transfer/report"
)

// rig is two GPUs with the memory, streams and events of all ways.
type rig struct {
	o       Options
	drv     driver
	beat    func()
	version string
	ends    [2]*end
	facts   [2]GPU
	lanes   [2]*lane
	can     [2]bool // whether a GPU reaches the other's memory
	enabled bool
	nodes   []int // NUMA nodes with memory, where there are several
	unbound error // why memory cannot be had of each
	grace   time.Duration
	pattern []byte
	check   []byte // pinned, for reading back
	streams []stream
	cleanup []func() error // in order of making
}

// piece is how much is read back at once.
const piece = 16 << 20

func (r *rig) open() error {
	n, version, err := r.drv.start()
	if err != nil {
		return err
	}
	r.version = version
	for _, ordinal := range r.o.GPUs {
		if ordinal >= n {
			return &MissingError{Ordinal: ordinal, Devices: n}
		}
	}
	for i, ordinal := range r.o.GPUs {
		e := &end{name: fmt.Sprintf("cuda:%d", ordinal)}
		if e.gpu, err = r.drv.open(ordinal); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		r.later(e.gpu.close)
		r.beat()
		if r.facts[i], err = e.gpu.facts(); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		r.facts[i].Name = e.name
		r.ends[i] = e
	}
	for i, e := range r.ends {
		if r.can[i], err = e.gpu.canAccess(r.ends[1-i].gpu); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	placed(r.o.Topology, &r.facts)
	if nodes := memoryNodes(r.o.Topology); len(nodes) > 1 {
		r.nodes = nodes
		r.unbound = r.tryNodes()
		if r.unbound != nil {
			r.nodes = nil
		}
	}
	return r.memory()
}

// tryNodes tells why memory of a node cannot be had: containers often forbid the call.
func (r *rig) tryNodes() error {
	for _, node := range r.nodes {
		g := r.ends[0].gpu
		b, err := r.drv.bound(g, node, 64<<10)
		if err != nil {
			return err
		}
		if err := r.drv.unbound(g, b); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) later(f func() error) { r.cleanup = append(r.cleanup, f) }

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
		if l.piped, err = r.pipe(l, node, 2, chunk); err != nil {
			return nil, err
		}
		for _, n := range r.nodes {
			p, err := r.pipe(l, n, 2, chunk)
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

// access enables or disables peer access in the directions that have it.
func (r *rig) access(on bool) error {
	if r.enabled == on {
		return nil
	}
	for i, e := range r.ends {
		if !r.can[i] {
			continue
		}
		change := e.gpu.disable
		if on {
			change = e.gpu.enable
		}
		if err := change(r.ends[1-i].gpu); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	r.enabled = on
	r.beat()
	return nil
}

// grace is what work of a measurement that was given up may still take.
const grace = 10 * time.Second

// close waits until the GPUs have done what is in the streams, and frees all. What
// they may still write to is not freed: it goes with the process. Of errors it gives
// the first, for after one of a GPU's all calls fail alike.
func (r *rig) close() (err error) {
	end := time.Now().Add(r.grace)
	for _, s := range r.streams {
		for {
			done, failed := s.done()
			err = cmp.Or(err, failed)
			if done || failed != nil { // then the context does nothing any more
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("nothing was freed: %w", errLate)
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
	for _, f := range slices.Backward(r.cleanup) {
		err = cmp.Or(err, f())
		r.beat()
	}
	r.cleanup = nil
	return err
}

// MissingError: the driver has no GPU of that number. ENODEV is in it.
type MissingError struct {
	Ordinal, Devices int
}

func (e *MissingError) Error() string {
	shows := fmt.Sprintf("the driver shows %d GPUs, numbered from 0", e.Devices)
	if e.Devices == 1 {
		shows = "the driver shows one GPU, cuda:0, and a path takes two"
	}
	return fmt.Sprintf("cuda:%d is not here: %s; see nvidia-smi -L and CUDA_VISIBLE_DEVICES", e.Ordinal, shows)
}

func (e *MissingError) Unwrap() error { return syscall.ENODEV }
