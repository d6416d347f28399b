package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// Two rails connect by swapping offers; one writes and notifies with one request.
// Whoever needs more than that takes package engine, which stands on this.
func ExampleRail() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nodes, err := transfer.NewEmbedded(transfer.EmbeddedOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	buf, err := verbs.NewBuffer(8192, verbs.BufferOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close() // when no rail reaches it any more

	var rails [2]transfer.Rail
	var regions [2]*transfer.Region
	var peers [2]transfer.Peer
	var offers [2][]byte
	for i := range rails {
		if rails[i], err = nodes.Node(i).Open(transfer.Want{}); err != nil {
			log.Fatal(err)
		}
		defer rails[i].Close()
		if regions[i], err = rails[i].Register(buf.Bytes()[i*4096:][:4096]); err != nil {
			log.Fatal(err)
		}
		if peers[i], offers[i], err = rails[i].Offer(); err != nil {
			log.Fatal(err)
		}
	}
	for i := range rails { // offers and descriptors travel by whatever the two have
		if err := rails[i].Accept(peers[i], offers[1-i]); err != nil {
			log.Fatal(err)
		}
	}

	copy(buf.Bytes(), "over the rail")
	n, err := rails[0].Post([]transfer.Op{{Kind: transfer.OpNotify, Peer: peers[0], Imm: 7, ID: 1,
		Local: regions[0].At(0, 13), Remote: regions[1].Descriptor().At(100)}})
	if err != nil || n != 1 {
		log.Fatal(n, err)
	}
	notice, err := next(ctx, rails[1])
	if err != nil {
		log.Fatal(err)
	}
	done, err := next(ctx, rails[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("number %d: %q; operation %d is done: %v\n", notice.Imm, buf.Bytes()[4096+100:][:13], done.ID, done.Kind == transfer.Done)
	// Output: number 7: "over the rail"; operation 1 is done: true
}

// next waits for a completion; a rail belongs to the goroutine that does.
func next(ctx context.Context, r transfer.Rail) (transfer.Completion, error) {
	var out [1]transfer.Completion
	for {
		if n, err := r.Poll(out[:]); n > 0 || err != nil {
			return out[0], errors.Join(err, out[0].Err)
		}
		if err := r.Wait(ctx); err != nil {
			return transfer.Completion{}, err
		}
	}
}

// Devices have names: those of the kernel, or of nodes in this process.
func ExampleParseEmbedded() {
	for _, name := range []string{"embedded:nics=4,latency=20us", "efa_0", "embedded:nics=1000"} {
		o, ok, err := transfer.ParseEmbedded(name)
		var wrong *transfer.OptionError
		fmt.Println(name, ok, o.NICs, o.Latency, errors.As(err, &wrong))
	}
	// Output:
	// embedded:nics=4,latency=20us true 4 20µs false
	// efa_0 false 0 0s false
	// embedded:nics=1000 true 1000 0s true
}
