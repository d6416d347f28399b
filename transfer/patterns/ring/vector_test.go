package ring_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
	"github.com/peerdirect/peerdirect/verbs"
)

// counted is memory that is reached by copies, whose bytes are counted.
type counted struct {
	bytes    []byte
	out, in  atomic.Int64
	readable int // bytes that may be read; all if 0
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	if c.readable > 0 && off+int64(len(p)) > int64(c.readable) {
		return 0, errBroken
	}
	c.out.Add(int64(len(p)))
	return copy(p, c.bytes[off:]), nil
}

func (c *counted) WriteAt(p []byte, off int64) (int, error) {
	c.in.Add(int64(len(p)))
	return copy(c.bytes[off:], p), nil
}

var errBroken = errors.New("the memory is broken")

// vectorRig is a ring whose nodes have a vector each.
type vectorRig struct {
	*rig
	vectors []*ring.Vector
	x       [][]float32 // their elements
	mem     []*counted  // where they are outside
}

const vectorElements = 5000

func newVectorRig(t *testing.T, nodes int, silence time.Duration, chunk int, outside bool) *vectorRig {
	g := &vectorRig{rig: newRig(t, nodes, silence, chunk), vectors: make([]*ring.Vector, nodes), x: make([][]float32, nodes), mem: make([]*counted, nodes)}
	errs := g.each(func(i int, r *ring.Ring) error {
		buf, err := verbs.NewBuffer(4*vectorElements, verbs.BufferOptions{})
		if err != nil {
			return err
		}
		t.Cleanup(func() { buf.Close() })
		region, err := g.nodes.Nodes[i].Register(buf.Bytes())
		if err != nil {
			return err
		}
		g.x[i] = unsafe.Slice((*float32)(unsafe.Pointer(&buf.Bytes()[0])), vectorElements)
		host := buf.Bytes()
		var mem ring.Memory
		if outside {
			g.mem[i] = &counted{bytes: host}
			host, mem = nil, g.mem[i]
		}
		g.vectors[i], err = r.Vector(within(t), region, host, mem)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	// Before the rig closes the nodes, and with them the regions.
	t.Cleanup(func() {
		for i, err := range g.each(func(i int, _ *ring.Ring) error { return g.vectors[i].Close(within(t)) }) {
			if err != nil && !errors.Is(err, engine.ErrLost) && !errors.Is(err, engine.ErrClosed) {
				t.Errorf("node %d: closing the vector: %v", i, err)
			}
		}
	})
	return g
}

// both does an all-gather and an all-reduce of n elements and compares them.
func (g *vectorRig) both(ctx context.Context, i int, r *ring.Ring, v [][]float32) error {
	n := len(v[0])
	total := sum(r, v)
	from, to := r.Part(i, n)
	x := g.x[i][:n]
	clear(x)
	copy(x[from:to], total[from:to])
	if err := g.vectors[i].AllGather(ctx, n); err != nil {
		return err
	}
	if err := same(x, total); err != nil {
		return fmt.Errorf("all-gather at %d: %w", i, err)
	}
	copy(x, v[i])
	if err := g.vectors[i].AllReduce(ctx, n); err != nil {
		return err
	}
	if err := same(x, total); err != nil {
		return fmt.Errorf("all-reduce at %d: %w", i, err)
	}
	return nil
}

// TestVectors: operations straight between vectors give what those by slots do, and
// both kinds may follow each other.
func TestVectors(t *testing.T) {
	for _, outside := range []bool{false, true} {
		for _, nodes := range []int{1, 2, 3, 4, 5} {
			t.Run(fmt.Sprintf("%d nodes, outside %v", nodes, outside), func(t *testing.T) {
				g := newVectorRig(t, nodes, patience, 100, outside)
				for _, n := range append(slices.Clone(lengths), vectorElements) {
					v := vectors(nodes, n)
					errs := g.each(func(i int, r *ring.Ring) error {
						if err := g.both(within(t), i, r, v); err != nil {
							return err
						}
						x := slices.Clone(v[i])
						if err := r.AllReduce(within(t), x); err != nil {
							return err
						}
						return same(x, sum(r, v))
					})
					if err := errors.Join(errs...); err != nil {
						t.Fatalf("%d elements: %v", n, err)
					}
				}
			})
		}
	}
}

// TestStaged: memory outside of the process by way of slots, and which bytes are
// copied by either way.
func TestStaged(t *testing.T) {
	const nodes, n = 4, 4000
	g := newVectorRig(t, nodes, patience, 100, true)
	v := vectors(nodes, n)
	total := sum(g.rings[0], v)
	type copies struct{ out, in int64 }
	took := func(i int) (c copies) { return copies{g.mem[i].out.Swap(0) / 4, g.mem[i].in.Swap(0) / 4} }
	errs := g.each(func(i int, r *ring.Ring) error {
		staged := r.Staged(g.mem[i])
		from, to := r.Part(i, n)
		for _, c := range []struct {
			name   string
			gather bool
			do     func(context.Context, int) error
			want   copies
		}{
			{"staged all-gather", true, staged.AllGather, copies{n * 3 / 4, n * 3 / 4}},
			{"direct all-gather", true, g.vectors[i].AllGather, copies{}},
			{"staged all-reduce", false, staged.AllReduce, copies{n*3/4*2 + n*3/4, n * 3 / 4 * 2}},
			{"direct all-reduce", false, g.vectors[i].AllReduce, copies{n * 3 / 4, n / 4}},
		} {
			copy(g.x[i], v[i])
			if c.gather {
				clear(g.x[i][:n])
				copy(g.x[i][from:to], total[from:to])
			}
			if err := c.do(within(t), n); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err := same(g.x[i][:n], total); err != nil {
				return fmt.Errorf("%s at %d: %w", c.name, i, err)
			}
			if got := took(i); got != c.want {
				return fmt.Errorf("%s at %d copied %+v elements, want %+v", c.name, i, got, c.want)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestVectorsOnABadWire: as TestSlowNodeAndBadWire.
func TestVectorsOnABadWire(t *testing.T) {
	const nodes = 3
	g := newVectorRig(t, nodes, patience, 64, false)
	for _, d := range g.nodes.Fabric.Fabric().Devices() {
		d.Faults().Set(device.FaultPlan{Seed: 7, Loss: 0.01, Duplicate: 0.05, Delay: 0.1, AckLoss: 0.01})
	}
	errs := g.each(func(i int, r *ring.Ring) error {
		for round := range 5 {
			if i == round%nodes {
				time.Sleep(5 * time.Millisecond)
			}
			if err := g.both(within(t), i, r, vectors(nodes, 2000+round)); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestHop: the next node has what one wrote.
func TestHop(t *testing.T) {
	const nodes, n = 3, 1001
	g := newVectorRig(t, nodes, patience, 100, false)
	for from := range nodes {
		want := vectors(nodes, n)[from]
		copy(g.x[from], want)
		errs := g.each(func(i int, _ *ring.Ring) error {
			took, err := g.vectors[i].Hop(within(t), from, n)
			if (took > 0) != (i == from) {
				return fmt.Errorf("node %d took %v", i, took)
			}
			return err
		})
		if err := errors.Join(append(errs, same(g.x[(from+1)%nodes][:n], want))...); err != nil {
			t.Fatal(err)
		}
	}
}
