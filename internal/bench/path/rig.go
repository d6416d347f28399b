package path

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"
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
