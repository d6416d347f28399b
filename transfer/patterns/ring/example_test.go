package ring_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
)

// Three nodes add up their gradients.
func Example() {
	const nodes = 3
	ctx := context.Background()
	// In this process; nodes of their own open and join as in package engine's example.
	cluster, err := local.New(transfer.EmbeddedOptions{Nodes: nodes}, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	var prev, next [nodes]*engine.Peer
	for i := range nodes {
		k := (i + 1) % nodes
		if next[i], prev[k], err = cluster.Join(ctx, i, k); err != nil {
			log.Fatal(err)
		}
	}

	var sums [nodes][]float32
	var errs [nodes]error
	var all sync.WaitGroup
	for rank := range nodes {
		all.Go(func() { // what each node does
			r, err := ring.Join(ctx, cluster.Nodes[rank], prev[rank], next[rank], rank, nodes, ring.Options{})
			if err != nil {
				errs[rank] = err
				return
			}
			gradients := []float32{1, 10, 100, 0.5}
			for i := range gradients {
				gradients[i] *= float32(rank + 1)
			}
			err = r.AllReduce(ctx, gradients)
			sums[rank], errs[rank] = gradients, errors.Join(err, r.Close(ctx))
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		log.Fatal(err)
	}
	for rank, s := range sums {
		fmt.Printf("node %d: %g\n", rank, s)
	}
	// Output:
	// node 0: [6 60 600 3]
	// node 1: [6 60 600 3]
	// node 2: [6 60 600 3]
}
