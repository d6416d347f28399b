package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// World is the nodes, the fabric between them, and the clock. It belongs to one
// goroutine.
type World struct {
	shape  Shape
	model  Model
	prices prices
	rand   *rand.Rand

	now    Time
	active *core // whose step it is: its clock is ahead of the world's
	todo   agenda
	calls  slab[func()]

	nodes    []*Node
	nics     []*NIC
	cores    []*core
	messages slab[message]
	coreFree Time // when the fabric's core has taken what entered it
	coreByte float64

	latency, jitter, request, timeout, control Time

	moves   bool // bytes are moved as well
	closing bool
	stop    func() bool              // tells now and then that Run is to end, if set
	posted  func(*NIC, *transfer.Op) // is told of each request, if set
	memory  []byte
}

// Options are what a world has beside shape and model.
type Options struct {
	Seed uint64
	// Engine is what the engines are opened with; rails, workers and name are the
	// world's.
	Engine engine.Options
	// Bytes gives each node so much memory and has it moved; default: the nodes
	// have regions of RegionSize bytes that nobody touches.
	Bytes int
}

// RegionSize is how many bytes a node's region has where none are moved.
const RegionSize = 64 << 30

// New makes a world of so many nodes, which have not joined each other.
func New(shape Shape, nodes int, model Model, o Options) (*World, error) {
	if err := model.defaults(shape); err != nil {
		return nil, err
	}
	if nodes < 1 || nodes > 1<<14 {
		return nil, fmt.Errorf("%d nodes", nodes)
	}
	w := &World{
		shape: shape, model: model, prices: model.Costs.prices(), rand: rand.New(rand.NewPCG(o.Seed, 0)),
		latency: Of(model.Latency), jitter: Of(model.Jitter), request: Of(model.Request),
		timeout: Of(model.Timeout), control: Of(model.Control), moves: o.Bytes > 0,
	}
	if model.Oversubscribed > 1 {
		w.coreByte = 8e12 * model.Oversubscribed / (shape.Rate() * float64(nodes))
	}
	if !w.moves {
		// Addresses without memory: a fault tells if somebody touches them.
		var err error
		if w.memory, err = unix.Mmap(-1, 0, RegionSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE); err != nil {
			return nil, fmt.Errorf("reserve addresses: %w", err)
		}
	}
	for i := range nodes {
		n, err := w.open(i, o)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.nodes = append(w.nodes, n)
	}
	return w, nil
}

// Node is a node by its number.
func (w *World) Node(i int) *Node { return w.nodes[i] }

// Nodes are how many there are.
func (w *World) Nodes() int { return len(w.nodes) }

// Now is the time: in what a worker calls, its core's.
func (w *World) Now() Time {
	if w.active != nil {
		return w.active.clock
	}
	return w.now
}

// After calls f later.
func (w *World) After(d Time, f func()) { w.todo.push(w.Now()+d, eventCall, w.calls.put(f)) }

// Run goes on until nothing is to come.
func (w *World) Run() {
	for n := 0; len(w.todo.events) > 0; n++ {
		if n%4096 == 0 && w.stop != nil && w.stop() {
			return
		}
		e := w.todo.pop()
		w.now = e.at
		switch e.kind {
		case eventStep:
			w.cores[e.index].step(e.at)
		case eventEnter:
			w.enter(e.index)
		case eventArrive:
			w.arrive(e.index)
		case eventTimeout:
			w.expire(e.index)
		case eventCall:
			w.calls.take(e.index)()
		}
	}
}

// later is After for an engine, which may think better of it.
func (w *World) later(d time.Duration, f func()) (stop func()) {
	stopped := false
	w.After(Of(d), func() {
		if !stopped {
			f()
		}
	})
	return func() { stopped = true }
}

// Close ends the engines.
func (w *World) Close() error {
	var errs []error
	w.closing = true
	for _, n := range w.nodes {
		errs = append(errs, n.engine.Close())
		if n.buffer != nil {
			errs = append(errs, n.buffer.Close())
		}
	}
	w.nodes = nil
	if w.memory != nil {
		errs = append(errs, unix.Munmap(w.memory))
		w.memory = nil
	}
	return errors.Join(errs...)
}

// slab is a store of values by number.
type slab[T any] struct {
	all  []T
	free []int32
}

func (s *slab[T]) put(v T) int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.all[i] = v
		return i
	}
	s.all = append(s.all, v)
	return int32(len(s.all) - 1)
}

func (s *slab[T]) take(i int32) T {
	v := s.all[i]
	var none T
	s.all[i] = none
	s.free = append(s.free, i)
	return v
}
