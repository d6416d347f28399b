//go:build lab

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// TestTwoNodesDisconnect runs on both of two machines with an RDMA device.
func TestTwoNodesDisconnect(t *testing.T) {
	device := os.Getenv("PEERDIRECT_DEVICE")
	if device == "" || strings.HasPrefix(device, "siw") {
		t.Skip("needs a lab guest with an InfiniBand or RoCE device")
	}
	disconnects(t, transfer.RCOptions{Device: device, SendDepth: 32, Queues: 2})
}

// TestTwoNodesEFADisconnect is that over EFA.
func TestTwoNodesEFADisconnect(t *testing.T) {
	disconnects(t, transfer.EFAOptions{Device: efaNames(t)[0], SendDepth: 32})
}

const typeLab = exchange.TypeUser + 50

// disconnects has node 1 flood node 0 with writes, and node 0 disconnect it:
// nothing may land from then on. Then both connect again.
func disconnects(t *testing.T, o transfer.Opener) {
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: lab run --nodes 2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	target := os.Getenv("PEERDIRECT_NODE") == "0"
	at := net.JoinHostPort(strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")[0], "18632")
	var conn *exchange.Conn
	var err error
	if target {
		l, lerr := exchange.Listen(ctx, at)
		must(lerr)
		conn, err = l.Accept(ctx)
		l.Close()
	} else {
		conn, err = exchange.DialOptions{Window: time.Minute}.Dial(ctx, at)
	}
	must(err)
	defer conn.Close()
	rail, err := o.Open(transfer.Want{})
	must(err)
	defer rail.Close()
	const size = 1 << 20
	buf, err := verbs.NewBuffer(size, verbs.BufferOptions{})
	must(err)
	defer buf.Close()
	mem := buf.Bytes()
	region, err := rail.Register(mem)
	must(err)

	for round := range byte(5) {
		var (
			theirs struct {
				Offer  []byte
				Region transfer.Descriptor
			}
			mine = theirs
		)
		p, offer, err := rail.Offer()
		must(err)
		mine.Offer, mine.Region = offer, region.Descriptor()
		must(conn.Send(ctx, typeLab, mine))
		must(conn.Receive(ctx, typeLab, &theirs))
		must(rail.Accept(p, theirs.Offer))
		for i := range mem {
			mem[i] = 0
			if !target {
				mem[i] = round + 1
			}
		}
		must(conn.Barrier(ctx))
		if target {
			time.Sleep(time.Duration(round) * 20 * time.Millisecond)
			must(rail.Disconnect(p))
			then := bytes.Clone(mem)
			time.Sleep(300 * time.Millisecond)
			if !bytes.Equal(mem, then) {
				t.Errorf("round %d: memory changed after the writer was disconnected", round)
			}
			t.Logf("round %d: %d of %d bytes had been written", round, size-bytes.Count(mem, []byte{0}), size)
			must(conn.Barrier(ctx))
			if !bytes.Equal(mem, then) {
				t.Errorf("round %d: memory changed at last", round)
			}
			continue
		}
		posted, done, failed := 0, 0, 0
		left := false
		for begun := time.Now(); !left || done+failed < posted; {
			if !left {
				at := uint64(posted*4096) % size
				n, err := rail.Post([]transfer.Op{{Kind: transfer.OpWrite, Peer: p, ID: uint64(posted), Local: region.At(0, 4096), Remote: theirs.Region.At(at)}})
				must(err)
				posted += n
			}
			if !left && time.Since(begun) > 400*time.Millisecond {
				left = true
				must(rail.Disconnect(p))
			}
			var got [32]transfer.Completion
			n, err := rail.Poll(got[:])
			must(err)
			for _, c := range got[:n] {
				switch {
				case c.Kind == transfer.Done:
					done++
				case c.Kind == transfer.Failed && (left && errors.Is(c.Err, transfer.ErrFlushed) || !left):
					failed++
				case c.Kind != transfer.Lost || left:
					t.Fatalf("%+v", c)
				}
			}
			must(ctx.Err())
		}
		t.Logf("round %d: %d writes done, %d failed", round, done, failed)
		must(conn.Barrier(ctx))
	}
}
