package weights_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
	"github.com/peerdirect/peerdirect/transfer/patterns/weights"
)

// Two nodes train a matrix by rows; two serve it by columns.
func Example() {
	plan, err := weights.Plan([]weights.Tensor{{
		Name: "w", Shape: []int{4, 8}, Element: 1,
		From: weights.Sharded(0, 0, 1),
		To:   weights.Sharded(1, 0, 1),
	}}, 2, 2, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	for s := range plan.Senders {
		for _, p := range plan.Sent(s) {
			fmt.Printf("sender %d to receiver %d: %d bytes in %d rows\n", s, p.To, p.Bytes, len(p.Segments))
		}
	}

	ctx := context.Background()
	// In this process; nodes of their own open and join as in package engine's example.
	cluster, err := local.New(transfer.EmbeddedOptions{Nodes: 4}, engine.Options{}) // two and two
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	var at, from [2][2]*engine.Peer // receivers as senders see them; senders as receivers do
	for s := range 2 {
		for r := range 2 {
			if at[s][r], from[r][s], err = cluster.Join(ctx, s, 2+r); err != nil {
				log.Fatal(err)
			}
		}
	}

	train := func(rank int) error { // what each training node does
		mem, err := memory.Allocate(cluster.Nodes[rank], plan.SenderBytes(rank))
		if err != nil {
			return err
		}
		for i := range 2 * 8 {
			mem.Bytes[i] = byte('a' + rank*16 + i)
		}
		sender, err := weights.NewSender(cluster.Nodes[rank], plan, rank, mem.Region)
		for r := range at[rank] {
			if err == nil {
				err = sender.Attach(ctx, r, at[rank][r])
			}
		}
		if err == nil {
			err = sender.Send(ctx, 1)
		}
		return err
	}
	var served [2]string
	serve := func(rank int) error { // and each serving node
		mem, err := memory.Allocate(cluster.Nodes[2+rank], plan.ReceiverBytes(rank))
		if err != nil {
			return err
		}
		receiver, err := weights.NewReceiver(cluster.Nodes[2+rank], plan, rank, mem.Region)
		for s := range from[rank] {
			if err == nil {
				err = receiver.Attach(ctx, s, from[rank][s])
			}
		}
		if err == nil {
			err = receiver.Receive(ctx, 1)
		}
		served[rank] = fmt.Sprintf("%q", mem.Bytes[:4*4])
		return err
	}

	var errs [4]error
	var all sync.WaitGroup
	for rank := range 2 {
		all.Go(func() { errs[rank] = train(rank) })
		all.Go(func() { errs[2+rank] = serve(rank) })
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		log.Fatal(err)
	}
	for rank, s := range served {
		fmt.Printf("receiver %d: %s\n", rank, s)
	}
	// Output:
	// sender 0 to receiver 0: 8 bytes in 2 rows
	// sender 0 to receiver 1: 8 bytes in 2 rows
	// sender 1 to receiver 1: 8 bytes in 2 rows
	// sender 1 to receiver 0: 8 bytes in 2 rows
	// receiver 0: "abcdijklqrstyz{|"
	// receiver 1: "efghmnopuvwx}~\x7f\x80"
}
