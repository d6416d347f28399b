package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// sharedDevice is a rail two of whose peers are on one device, as two processes of a
// node are: with that of the first, the device stays admitted.
type sharedDevice struct {
	Rail
	first, other transfer.Peer
	told         atomic.Bool
	known        bool // by whom else
}

func (r *sharedDevice) Disconnect(p transfer.Peer) error {
	if err := r.Rail.Disconnect(p); err != nil || p != r.first || r.told.Swap(true) {
		return err
	}
	if !r.known {
		return transfer.ErrNotFenced
	}
	return &transfer.NotFencedError{Device: "theirs", Peers: []transfer.Peer{r.other}}
}

// TestSharedDevice: when a peer leaves, those on the same device are disconnected
// until that is shut out, and come again; where the rail knows which they are, the
// rest notices nothing.
func TestSharedDevice(t *testing.T) {
	for _, known := range []bool{true, false} {
		const peers = 3
		fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: peers + 1})
		if err != nil {
			t.Fatal(err)
		}
		defer fabric.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		specs := Specs(fabric.Node(peers), transfer.Want{Peers: 2 * peers}, 1)
		open := specs[0].Open
		specs[0].Open = func() (Rail, error) {
			r, err := open()
			return &sharedDevice{Rail: r, first: 0, other: 1, known: known}, err
		}
		hub, err := New(Options{Rails: specs, CoolDown: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		var joined [peers]*Peer
		for i := range joined {
			e, err := New(Options{Rails: Specs(fabric.Node(i), transfer.Want{Peers: 2}, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			d, l := Pipe()
			accepted := make(chan error, 1)
			go func() {
				_, err := e.Connect(ctx, l, false)
				accepted <- err
			}()
			if joined[i], err = hub.Connect(ctx, d, true); err != nil {
				t.Fatal(err)
			}
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
		}
		joined[0].Close()
		want := map[bool]uint64{true: 1, false: 2}[known]
		if s := hub.Stats()[0]; s.Losses != want {
			t.Errorf("known %v: %d connections were lost for the sake of a device, want %d", known, s.Losses, want)
		}
		for hub.Stats()[0].Up != 2 {
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				t.Fatalf("they do not come again: %+v", hub.Stats())
			}
		}
		for _, p := range joined[1:] {
			if w, err := p.Notify(ctx, 1); err != nil || w.Wait(ctx) != nil {
				t.Errorf("known %v: %v, %v", known, err, w)
			}
		}
	}
}
