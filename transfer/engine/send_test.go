package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// letters sends count messages of many lengths to another node, which receives
// them: each once and in order.
func letters(ctx context.Context, from, to *node, count int, seed uint64) error {
	sent := make(chan error, 1)
	go func() {
		r := rand.New(rand.NewPCG(seed, 1))
		buffer := make([]byte, engine.MaxSend)
		for n := range count {
			one := buffer[:8+r.IntN(len(buffer)-8)]
			binary.BigEndian.PutUint64(one, uint64(n))
			fill(one[8:], uint64(n)^seed)
			if err := from.peers[to].Send(ctx, one); err != nil {
				sent <- fmt.Errorf("send message %d: %w", n, err)
				return
			}
		}
		sent <- nil
	}()
	r := rand.New(rand.NewPCG(seed, 1))
	want := make([]byte, engine.MaxSend)
	for n := range count {
		one := want[:8+r.IntN(len(want)-8)]
		binary.BigEndian.PutUint64(one, uint64(n))
		fill(one[8:], uint64(n)^seed)
		got, err := to.peers[from].Receive(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("receive message %d: %w", n, err)
		case string(got) != string(one):
			return fmt.Errorf("message %d of %d bytes came as number %d of %d", n, len(one), binary.BigEndian.Uint64(got), len(got))
		}
	}
	return <-sent
}

// TestMessages: both ways at once, over several rails and workers.
func TestMessages(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 4}, Workers: 2})
	a, b := c.nodes[0], c.nodes[1]
	back := make(chan error, 1)
	go func() { back <- letters(within(t), b, a, 1000, 2) }()
	if err := letters(within(t), a, b, 1000, 1); err != nil {
		t.Error(err)
	}
	if err := <-back; err != nil {
		t.Error(err)
	}
}

// TestNobodyReceives: 32 messages are taken, the next waits, and notices and writes
// go on meanwhile.
func TestNobodyReceives(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2}})
	a, b := c.nodes[0], c.nodes[1]
	const window = 32
	for i := range window {
		if err := a.peers[b].Send(within(t), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := a.peers[b].Send(short, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("message 33: %v", err)
	}
	const writes = 500 // more than the rails have receives
	for range writes {
		a.done(a.write(b, engine.Counts(1), engine.Segment{Length: 100}))
	}
	b.counted(a, 1, writes)
	next := make(chan error, 1)
	go func() { next <- a.peers[b].Send(within(t), []byte{window}) }()
	for i := range window + 1 {
		if got, err := b.peers[a].Receive(within(t)); err != nil || len(got) != 1 || got[0] != byte(i) {
			t.Fatalf("message %d: %v, %v", i, got, err)
		}
	}
	if err := <-next; err != nil {
		t.Error(err)
	}
	if _, err := b.peers[a].Receive(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a message that nobody sent: %v", err)
	}
}

// TestMessagesAcrossFaults: rails fail and come again; each message comes once and
// in order, notices of one piece beside them count once with their bytes, and
// barriers pass.
func TestMessagesAcrossFaults(t *testing.T) {
	c := newCluster(t, quick(2, 3))
	ctx := within(t)
	stop := make(chan struct{})
	var breaking, moving sync.WaitGroup
	breaking.Go(func() {
		r := rand.New(rand.NewPCG(3, 1))
		for {
			f := c.faults(r.IntN(2), r.IntN(2)) // the third rail stays
			f.Set(device.FaultPlan{
				Seed: r.Uint64(), Loss: 0.02, Duplicate: 0.02, Delay: 0.02, AckLoss: 0.05,
				Abort: 0.05 * float64(r.IntN(2)), LinkDown: r.IntN(3) == 0, Unresponsive: r.IntN(3) == 0,
			})
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(r.IntN(40)) * time.Millisecond):
			}
			f.Clear()
		}
	})
	for i, from := range c.nodes {
		to := c.nodes[1-i]
		moving.Go(func() {
			for round := range 500 {
				if err := from.Barrier(ctx, from.others(), "step"); err != nil {
					t.Errorf("round %d of node %d: %v", round, i, err)
					return
				}
			}
		})
		moving.Go(func() {
			if err := letters(ctx, from, to, 3000, uint64(i)); err != nil {
				t.Errorf("from node %d: %v", i, err)
			}
		})
		moving.Go(func() {
			const size = 4000 // one piece: it goes with its notice
			place := uint64(i) * size
			for n := range uint64(2000) {
				fill(from.mem[place:place+size], n)
				w, err := from.peers[to].Write(ctx, engine.Move{Local: from.region, Remote: from.target[to],
					Segments: []engine.Segment{{Local: place, Remote: place, Length: size}}, Notify: engine.Counts(5)})
				if err == nil {
					err = to.peers[from].Counter(5).Wait(ctx, n+1)
				}
				if err == nil {
					same(t, "after the notice", to.mem[place:place+size], from.mem[place:place+size])
					to.mem[place] ^= 0xff // who has counted may put it to use
					if err = w.Wait(ctx); to.mem[place] == from.mem[place] {
						t.Errorf("transfer %d from node %d: bytes landed after they were counted", n, i)
					}
				}
				if err != nil {
					t.Errorf("transfer %d from node %d: %v", n, i, err)
					return
				}
			}
			if n := to.peers[from].Counter(5).Count(); n != 2000 {
				t.Errorf("%d notices", n)
			}
		})
	}
	moving.Wait()
	close(stop)
	breaking.Wait()
	c.metFaults()
}

// TestNoticeGoesWithItsBytes: a write of one piece is one request.
func TestNoticeGoesWithItsBytes(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2}})
	a, b := c.nodes[0], c.nodes[1]
	posted := func() (n uint64) {
		for _, s := range a.Stats() {
			n += s.Posted
		}
		return n
	}
	for _, test := range []struct{ size, requests uint64 }{{1, 1}, {64 << 10, 1}, {64<<10 + 1, 3}, {0, 1}} {
		before := posted()
		fill(a.mem, test.size)
		a.done(a.write(b, engine.Counts(engine.Number(test.size%7)), engine.Segment{Local: 8, Length: test.size}))
		if n := posted() - before; n != test.requests {
			t.Errorf("%d bytes and a notice took %d requests, want %d", test.size, n, test.requests)
		}
		same(t, "what came", b.mem[:test.size], a.mem[8:8+test.size])
	}
}

// TestNotify: a number without bytes, and who is gone is known at once.
func TestNotify(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2}, Workers: 2})
	a, b := c.nodes[0], c.nodes[1]
	for range 100 {
		w, err := a.peers[b].Notify(within(t), 9)
		if err != nil {
			t.Fatal(err)
		}
		a.done(w)
		w.Release()
	}
	b.counted(a, 9, 100)
	select {
	case <-b.peers[a].Gone():
		t.Error("it is said to be gone")
	default:
	}
	a.Close()
	<-b.peers[a].Gone()
	if err := b.peers[a].Err(); !errors.Is(err, engine.ErrLost) {
		t.Errorf("gone: %v", err)
	}
	if _, err := b.peers[a].Notify(within(t), 9); !errors.Is(err, engine.ErrLost) {
		t.Errorf("notifying one that is gone: %v", err)
	}
}
