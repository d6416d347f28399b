package ring_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
)

// TestVectorOfNothing: memory that holds no element makes no vector.
func TestVectorOfNothing(t *testing.T) {
	g := newRig(t, 2, patience, 100)
	for _, host := range [][]byte{nil, {}, make([]byte, 3)} {
		for i, r := range g.rings {
			if v, err := r.Vector(within(t), nil, host, nil); v != nil || err == nil || !strings.Contains(err.Error(), "needs memory") {
				t.Errorf("node %d, %d bytes: %v", i, len(host), err)
			}
		}
	}
}

// TestVectorsEnd: a node that dies, memory that breaks, and nodes that do not do the
// same end the operation at all of them.
func TestVectorsEnd(t *testing.T) {
	for _, test := range []struct {
		name    string
		outside bool
		silence time.Duration
		is      error // what one of them says
		do      func(g *vectorRig, i int, ctx context.Context, round int) error
	}{
		{"a node dies", false, patience, engine.ErrLost, func(g *vectorRig, i int, ctx context.Context, round int) error {
			if i == 1 && round == 3 {
				return errors.Join(errBroken, g.nodes.Nodes[1].Close())
			}
			return g.vectors[i].AllReduce(ctx, 3000)
		}},
		{"memory breaks", true, patience, errBroken, func(g *vectorRig, i int, ctx context.Context, round int) error {
			if i == 2 && round == 1 {
				g.mem[i].readable = 400
			}
			return g.vectors[i].AllReduce(ctx, 3000)
		}},
		{"lengths", false, patience, ring.ErrMismatch, func(g *vectorRig, i int, ctx context.Context, round int) error {
			return g.vectors[i].AllReduce(ctx, 900+i/2)
		}},
		{"operations", false, patience, ring.ErrMismatch, func(g *vectorRig, i int, ctx context.Context, round int) error {
			if i == 1 {
				return g.vectors[i].AllGather(ctx, 900)
			}
			return g.vectors[i].AllReduce(ctx, 900)
		}},
		{"by slots and without", false, short, ring.ErrSilent, func(g *vectorRig, i int, ctx context.Context, round int) error {
			if i == 1 {
				return g.rings[i].AllReduce(ctx, make([]float32, 900))
			}
			return g.vectors[i].AllReduce(ctx, 900)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newVectorRig(t, 4, test.silence, 50, test.outside)
			errs := g.each(func(i int, _ *ring.Ring) error {
				for round := 0; ; round++ {
					if err := test.do(g, i, within(t), round); err != nil {
						return err
					}
				}
			})
			if err := errors.Join(errs...); !errors.Is(err, test.is) {
				t.Errorf("nobody says %v: %v", test.is, err)
			}
			for i, err := range errs {
				if err == nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("node %d: %v", i, err)
				}
			}
		})
	}
}

// TestVectorRefused: lengths that do not fit, and vectors without memory.
func TestVectorRefused(t *testing.T) {
	g := newVectorRig(t, 2, patience, 100, false)
	for _, n := range []int{-1, vectorElements + 1} {
		if err := g.vectors[0].AllReduce(within(t), n); err == nil {
			t.Errorf("%d elements were taken", n)
		}
	}
	if _, err := g.rings[0].Vector(within(t), nil, nil, nil); err == nil {
		t.Error("a vector without memory was taken")
	}
	if errs := g.each(func(i int, r *ring.Ring) error { return g.both(within(t), i, r, vectors(2, 100)) }); errors.Join(errs...) != nil {
		t.Error(errs)
	}
}
