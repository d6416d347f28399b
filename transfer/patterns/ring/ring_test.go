package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
)

// lengths are of vectors: fewer elements than nodes, parts that differ, parts of
// several chunks (of 100 elements), the last of them short.
var lengths = []int{0, 1, 2, 3, 7, 100, 499, 1000, 1501, 4099}

// vectors are those of the nodes. Sums of their elements depend on the order.
func vectors(nodes, n int) [][]float32 {
	r := rand.New(rand.NewPCG(uint64(nodes), uint64(n)))
	v := make([][]float32, nodes)
	for i := range v {
		v[i] = make([]float32, n)
		for k := range v[i] {
			v[i][k] = float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(8))))
		}
	}
	return v
}

// sum is the sum in the order that the package defines.
func sum(r *ring.Ring, v [][]float32) []float32 {
	n := len(v[0])
	s := make([]float32, n)
	for p := range v {
		from, to := r.Part(p, n)
		for k := from; k < to; k++ {
			s[k] = v[(p+1)%len(v)][k]
			for hop := 2; hop <= len(v); hop++ {
				s[k] += v[(p+hop)%len(v)][k]
			}
		}
	}
	return s
}

func same(a, b []float32) error {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return fmt.Errorf("element %d of %d is %g, want %g", i, len(b), a[i], b[i])
		}
	}
	return nil
}

// TestOperations: results are those of the reference to the bit, at every node.
func TestOperations(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			g := newRig(t, nodes, patience, 100)
			for _, n := range lengths {
				v := vectors(nodes, n)
				total := sum(g.rings[0], v)
				errs := g.each(func(i int, r *ring.Ring) error {
					ctx := within(t)
					from, to := r.Part(i, n)
					x := slices.Clone(v[i])
					if err := r.ReduceScatter(ctx, x); err != nil {
						return err
					}
					if err := same(x[from:to], total[from:to]); err != nil {
						return fmt.Errorf("reduce-scatter at %d: %w", i, err)
					}
					y := make([]float32, n)
					copy(y[from:to], total[from:to])
					if err := r.AllGather(ctx, y); err != nil {
						return err
					}
					if err := same(y, total); err != nil {
						return fmt.Errorf("all-gather at %d: %w", i, err)
					}
					z := slices.Clone(v[i])
					if err := r.AllReduce(ctx, z); err != nil {
						return err
					}
					if err := same(z, total); err != nil {
						return fmt.Errorf("all-reduce at %d: %w", i, err)
					}
					return nil
				})
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSlowNodeAndBadWire: credits hold the others back while one node is slow, and
// packets that are lost, late and doubled change nothing.
func TestSlowNodeAndBadWire(t *testing.T) {
	const nodes, n = 3, 2000
	g := newRig(t, nodes, patience, 64)
	for _, d := range g.nodes.Fabric.Fabric().Devices() {
		d.Faults().Set(device.FaultPlan{Seed: 7, Loss: 0.01, Duplicate: 0.05, Delay: 0.1, AckLoss: 0.01})
	}
	errs := g.each(func(i int, r *ring.Ring) error {
		for round := range 5 {
			v := vectors(nodes, n+round)
			if i == round%nodes {
				time.Sleep(5 * time.Millisecond)
			}
			x := slices.Clone(v[i])
			if err := r.AllReduce(within(t), x); err != nil {
				return err
			}
			if err := same(x, sum(r, v)); err != nil {
				return fmt.Errorf("round %d at %d: %w", round, i, err)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestNodeDies: whatever ends a node, all others end with an error.
func TestNodeDies(t *testing.T) {
	for _, test := range []struct {
		name string
		die  func(g *rig, at int) error
	}{
		{"its process ends", func(g *rig, at int) error { return g.nodes.Nodes[at].Close() }},
		{"it leaves the ring", func(g *rig, at int) error { return g.rings[at].Close(within(g.t)) }},
		{"its NIC falls silent", func(g *rig, at int) error {
			g.nodes.NICs[at][0].Faults().Set(device.FaultPlan{LinkDown: true})
			return nil
		}},
	} {
		for _, nodes := range []int{2, 5} {
			t.Run(fmt.Sprintf("%s, %d nodes", test.name, nodes), func(t *testing.T) {
				g := newRig(t, nodes, short, 50)
				const dead = 1
				errs := g.each(func(i int, r *ring.Ring) error {
					x := make([]float32, 3000)
					for round := 0; ; round++ {
						if i == dead && round == 3 {
							if err := test.die(g, dead); err != nil {
								return err
							}
						}
						if err := r.AllReduce(within(t), x); err != nil {
							return err
						}
					}
				})
				for i, err := range errs {
					if !errors.Is(err, engine.ErrLost) && !errors.Is(err, ring.ErrSilent) && !(i == dead && errors.Is(err, engine.ErrClosed)) {
						t.Errorf("node %d: %v", i, err)
					}
				}
				for i, err := range g.each(func(_ int, r *ring.Ring) error { return r.AllReduce(within(t), nil) }) {
					if err == nil {
						t.Errorf("node %d goes on", i)
					}
				}
			})
		}
	}
}

// TestNodeTakesNoPart: the others do not wait for ever.
func TestNodeTakesNoPart(t *testing.T) {
	for _, wait := range []time.Duration{50 * time.Millisecond, patience} { // the contexts'
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			g := newRig(t, 4, short, 50)
			errs := g.each(func(i int, r *ring.Ring) error {
				if i == 2 {
					return nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				return r.AllReduce(ctx, make([]float32, 1000))
			})
			for i, err := range errs {
				if i != 2 && !errors.Is(err, engine.ErrLost) && !errors.Is(err, ring.ErrSilent) && (wait == patience || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("node %d: %v", i, err)
				}
			}
			if err := g.rings[2].AllReduce(within(t), make([]float32, 1000)); !errors.Is(err, engine.ErrLost) {
				t.Errorf("the node that comes too late: %v", err)
			}
		})
	}
}

// TestMismatch: nodes that do not do the same find out.
func TestMismatch(t *testing.T) {
	for name, f := range map[string]func(ctx context.Context, i int, r *ring.Ring) error{
		"lengths": func(ctx context.Context, i int, r *ring.Ring) error {
			return r.AllReduce(ctx, make([]float32, 900+i/2))
		},
		"operations": func(ctx context.Context, i int, r *ring.Ring) error {
			if i == 1 {
				return r.AllGather(ctx, make([]float32, 900))
			}
			return r.AllReduce(ctx, make([]float32, 900))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, 3, patience, 1000)
			errs := g.each(func(i int, r *ring.Ring) error { return f(within(t), i, r) })
			if err := errors.Join(errs...); !errors.Is(err, ring.ErrMismatch) {
				t.Errorf("nobody has found out: %v", err)
			}
			for i, err := range errs {
				if err == nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
	t.Run("chunks", func(t *testing.T) { newRig(t, 3, patience, 100, 101, 102) })
}

// TestRefused: places that make no sense.
func TestRefused(t *testing.T) {
	for _, place := range []struct{ rank, size, chunk int }{{0, 0, 0}, {-1, 3, 0}, {3, 3, 0}, {0, 1, -1}, {0, 2, 0}} {
		if _, err := ring.Join(within(t), nil, nil, nil, place.rank, place.size, ring.Options{Chunk: place.chunk}); err == nil {
			t.Errorf("%+v was taken", place)
		}
	}
}
