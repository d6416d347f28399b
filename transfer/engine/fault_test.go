package engine_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestPeerLeaves: transfers to a peer that leaves fail with ErrLost, told once;
// nothing of the leaver lands after its fence; the others go on.
func TestPeerLeaves(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3, NICs: 2}, Workers: 2})
	a, b, other := c.nodes[0], c.nodes[1], c.nodes[2]
	ctx := within(t)
	var running atomic.Bool
	running.Store(true)
	flood := make(chan error, 1)
	go func() {
		for running.Load() {
			w, err := a.peers[b].Write(ctx, engine.Move{Local: a.region, Remote: a.target[b], Segments: []engine.Segment{{Length: 100_000}}})
			if err == nil {
				err = w.Wait(ctx)
			}
			if err != nil {
				flood <- err
				return
			}
		}
		flood <- nil
	}()
	time.Sleep(20 * time.Millisecond)
	if err := b.peers[a].Close(); err != nil {
		t.Fatal(err)
	}
	seen := append([]byte(nil), b.mem...)
	fill(a.mem, 99)
	if err := <-flood; !errors.Is(err, engine.ErrLost) {
		t.Errorf("the writer's error: %v", err)
	}
	<-a.peers[b].Fenced()
	same(t, "after the fence", b.mem, seen)
	running.Store(false)
	if _, err := a.peers[b].Write(ctx, engine.Move{Local: a.region, Remote: a.target[b]}); !errors.Is(err, engine.ErrLost) {
		t.Errorf("a transfer to a peer that is gone: %v", err)
	}
	if err := a.peers[b].Counter(1).Wait(ctx, 1); !errors.Is(err, engine.ErrLost) {
		t.Errorf("waiting for a peer that is gone: %v", err)
	}
	a.done(a.write(other, engine.Counts(1), engine.Segment{Length: 1000}))
	other.counted(a, 1, 1)
	// It comes again, as another peer.
	c.join(a, b)
	a.done(a.write(b, engine.Counts(1), engine.Segment{Length: 1000}))
	b.counted(a, 1, 1)
	same(t, "after it came again", b.mem[:1000], a.mem[:1000])
}

// TestCancel: a cancelled transfer ends with ErrCancelled, and from then on
// nothing of it lands.
func TestCancel(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2, Gbps: 0.05}, Bytes: 32 << 20, Engine: engine.Options{MaxPiece: 16 << 10}})
	a, b := c.nodes[0], c.nodes[1]
	fill(a.mem, 5)
	w := a.write(b, engine.Counts(1), engine.Segment{Length: 32 << 20})
	for moved := uint64(0); moved == 0; moved, _ = w.Progress() {
		time.Sleep(time.Millisecond)
	}
	w.Cancel()
	if err := w.Wait(within(t)); !errors.Is(err, engine.ErrCancelled) {
		t.Fatalf("a cancelled transfer: %v", err)
	}
	seen := append([]byte(nil), b.mem...)
	a.done(a.write(b, engine.Counts(2)))
	b.counted(a, 2, 1)
	time.Sleep(20 * time.Millisecond)
	same(t, "after the cancel", b.mem, seen)
	if n := b.peers[a].Counter(1).Count(); n != 0 {
		t.Errorf("the cancelled transfer gave %d notices", n)
	}
}

// TestWithdraw: when the target's owner has a region back, nothing lands there.
func TestWithdraw(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2, Gbps: 0.05}, Bytes: 32 << 20, Engine: engine.Options{MaxPiece: 16 << 10}})
	a, b := c.nodes[0], c.nodes[1]
	fill(a.mem, 6)
	w := a.write(b, engine.Notify{}, engine.Segment{Length: 32 << 20})
	for moved := uint64(0); moved == 0; moved, _ = w.Progress() {
		time.Sleep(time.Millisecond)
	}
	if err := b.peers[a].Withdraw(within(t), "memory"); err != nil {
		t.Fatal(err)
	}
	seen := append([]byte(nil), b.mem...)
	if err := w.Wait(within(t)); !errors.Is(err, engine.ErrRights) {
		t.Errorf("a transfer whose region was withdrawn: %v", err)
	}
	time.Sleep(20 * time.Millisecond)
	same(t, "after the withdrawal", b.mem, seen)
	if _, err := a.peers[b].Write(within(t), engine.Move{Local: a.region, Remote: a.target[b]}); !errors.Is(err, engine.ErrRights) {
		t.Errorf("a transfer to a withdrawn region: %v", err)
	}
	if err := b.peers[a].Grant("memory", b.region, engine.Write); err != nil {
		t.Fatal(err)
	}
	target, err := a.peers[b].Target(within(t), "memory")
	if err != nil {
		t.Fatal(err)
	}
	a.target[b] = target
	a.done(a.write(b, engine.Notify{}, engine.Segment{Length: 100}))
}

// TestNothingIsLeft: goroutines, before and after.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("work", func(t *testing.T) {
		c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3, NICs: 2}, Workers: 2})
		a, b := c.nodes[0], c.nodes[1]
		for range 10 {
			a.done(a.write(b, engine.Counts(1), engine.Segment{Length: 5000}))
		}
	})
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestConnectToNobody: a control connection that ends before the hello.
func TestConnectToNobody(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2}})
	d, l := engine.Pipe()
	l.Close()
	if _, err := c.nodes[0].Connect(within(t), d, true); err == nil {
		t.Error("joined nobody")
	}
	over, end := context.WithCancel(t.Context())
	end()
	if d, l = engine.Pipe(); l.Close() != nil {
		t.Fatal("closing")
	}
	if _, err := c.nodes[0].Connect(over, d, true); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted, as the other side was: %v", err)
	}
	d, _ = engine.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.nodes[0].Connect(ctx, d, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("joining one that says nothing: %v", err)
	}
}
