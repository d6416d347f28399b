package pages_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// 64 scattered pages go from one node in this process to another, and each is
// compared. Between machines one side is Open and Listen, the other Open and To.
func ExampleInside() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nodes, err := transfer.NewEmbedded(transfer.EmbeddedOptions{NICs: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	layout := pages.Layout{PageSize: 4096, Pages: 64, Stride: 3, Seed: 1}
	sent, received, err := pages.Inside(ctx, nodes, 0, 1, pages.Options{}, pages.SendOptions{Layout: layout}, nil)
	if err != nil {
		log.Fatal(err) // a *pages.VerifyError names the pages that differ
	}
	fmt.Println(sent.Bytes, "bytes in", sent.Writes, "writes over", sent.Conditions.NICs, "NICs; verified:", received.Verified)
	// Output: 262144 bytes in 64 writes over 2 NICs; verified: true
}

// A layout says which pages go where, without any machine: the same seed scatters
// them to the same places.
func ExampleLayout() {
	l := pages.Layout{PageSize: 4096, Pages: 4, Stride: 2, Seed: 5}
	if err := l.Validate(); err != nil {
		log.Fatal(err)
	}
	to := l.TargetSlots()
	for i := range l.Pages {
		fmt.Printf("page %d: slot %d of %d to slot %d\n", i, l.SourceSlot(i), l.Slots(), to(i))
	}
	// Output:
	// page 0: slot 0 of 8 to slot 3
	// page 1: slot 2 of 8 to slot 7
	// page 2: slot 4 of 8 to slot 5
	// page 3: slot 6 of 8 to slot 6
}
