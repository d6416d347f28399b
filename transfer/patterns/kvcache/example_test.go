package kvcache_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
	"github.com/peerdirect/peerdirect/transfer/patterns/kvcache"
)

// A decode node has a request prefilled and uses each layer as it comes; it takes
// another request back and gives its pages away.
func Example() {
	shape := kvcache.Shape{Layers: 3, Pages: 8, PageSize: 4096, Lanes: 4, MaxPages: 8}
	ctx := context.Background()
	// In this process; nodes of their own open and join as in package engine's example.
	cluster, err := local.New(transfer.EmbeddedOptions{Nodes: 2, NICs: 2}, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	atDecode, atPrefill, err := cluster.Join(ctx, 0, 1)
	if err != nil {
		log.Fatal(err)
	}

	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- prefill(serving, cluster.Nodes[1], atPrefill, shape) }()

	cache, err := memory.Allocate(cluster.Nodes[0], int(shape.Bytes()))
	if err != nil {
		log.Fatal(err)
	}
	decode, err := kvcache.NewDecode(ctx, cluster.Nodes[0], atDecode, cache.Region, shape)
	if err != nil {
		log.Fatal(err)
	}
	pages := []uint32{5, 2}
	request, err := decode.Start(ctx, pages)
	if err != nil {
		log.Fatal(err)
	}
	for layer := range shape.Layers {
		if err := request.Layer(ctx, layer); err != nil {
			log.Fatal(err)
		}
		for _, page := range pages {
			at := (layer*shape.Pages + int(page)) * int(shape.PageSize)
			fmt.Printf("layer %d, page %d: %s\n", layer, page, cache.Bytes[at:][:20])
		}
	}
	if err := request.Wait(ctx); err != nil {
		log.Fatal(err)
	}

	long, err := decode.Start(ctx, pages) // which nobody waits for any more
	if err != nil {
		log.Fatal(err)
	}
	if err := long.Cancel(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("cancelled:", errors.Is(long.Wait(ctx), engine.ErrCancelled), "- its pages are free")

	stop()
	<-served
	if err := errors.Join(decode.Close(), cache.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// layer 0, page 5: request 1: K0 and V0
	// layer 0, page 2: request 1: K0 and V0
	// layer 1, page 5: request 1: K1 and V1
	// layer 1, page 2: request 1: K1 and V1
	// layer 2, page 5: request 1: K2 and V2
	// layer 2, page 2: request 1: K2 and V2
	// cancelled: true - its pages are free
}

// prefill is the other node. The second request takes it for ever.
func prefill(ctx context.Context, e *engine.Engine, decode *engine.Peer, shape kvcache.Shape) error {
	cache, err := memory.Allocate(e, int(shape.Bytes()))
	if err != nil {
		return err
	}
	f, err := kvcache.NewPrefill(ctx, e, decode, cache.Region, shape)
	if err != nil {
		return err
	}
	err = f.Serve(ctx, kvcache.Handler{Compute: func(ctx context.Context, j *kvcache.Job) error {
		local := []uint32{0, 1} // where this node has the request's pages
		for layer := range shape.Layers {
			if j.ID() == 2 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			for _, page := range local {
				at := (layer*shape.Pages + int(page)) * int(shape.PageSize)
				copy(cache.Bytes[at:], fmt.Sprintf("request %d: K%d and V%d", j.ID(), layer, layer))
			}
			if err := j.Layer(layer, local); err != nil {
				return err
			}
		}
		return nil
	}})
	return errors.Join(err, f.Close(), cache.Close())
}
