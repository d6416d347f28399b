package ring_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/internal/leaktest"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
)

const patience = 2 * time.Minute

// short is how long a neighbour may be silent in tests that have the time pass.
const short = time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// rig is a ring of nodes in this process.
type rig struct {
	t     *testing.T
	nodes *local.Cluster
	rings []*ring.Ring
}

func newRig(t *testing.T, n int, silence time.Duration, chunks ...int) *rig {
	t.Helper()
	left := leaktest.Check(t)
	nodes, err := local.New(transfer.EmbeddedOptions{Nodes: n, Seed: uint64(n), PeerTimeout: 100 * time.Millisecond},
		engine.Options{CoolDown: 20 * time.Millisecond, RailTime: silence})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, nodes: nodes, rings: make([]*ring.Ring, n)}
	t.Cleanup(func() {
		g.each(func(i int, r *ring.Ring) error {
			if r == nil {
				return nil
			}
			return r.Close(within(t))
		})
		if err := nodes.Close(); err != nil {
			t.Error(err)
		}
		left()
	})
	prev, next := make([]*engine.Peer, n), make([]*engine.Peer, n)
	for i := range n {
		k := (i + 1) % n
		switch {
		case n == 1:
		case n == 2 && i == 1:
			prev[0], next[1] = next[0], prev[1]
		default:
			if next[i], prev[k], err = nodes.Join(within(t), i, k); err != nil {
				t.Fatal(err)
			}
		}
	}
	joined := g.each(func(i int, _ *ring.Ring) (err error) {
		g.rings[i], err = ring.Join(within(t), nodes.Nodes[i], prev[i], next[i], i, n, ring.Options{Chunk: chunks[i%len(chunks)], Silence: silence})
		return err
	})
	if err := errors.Join(joined...); err != nil && len(chunks) == 1 {
		t.Fatal(err)
	} else if len(chunks) > 1 && !errors.Is(err, ring.ErrMismatch) {
		t.Errorf("chunks of %d elements in one ring: %v", chunks, err)
	}
	return g
}

// each has every node do something at once.
func (g *rig) each(f func(i int, r *ring.Ring) error) []error {
	errs := make([]error, len(g.rings))
	var all sync.WaitGroup
	for i, r := range g.rings {
		all.Go(func() { errs[i] = f(i, r) })
	}
	all.Wait()
	return errs
}
