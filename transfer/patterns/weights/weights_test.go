package weights_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/weights"
)

// TestVersions: some versions one after the other, each byte right at every receiver,
// over NICs that lose, double and delay packets.
func TestVersions(t *testing.T) {
	for _, shape := range [][2]int{{4, 2}, {2, 3}, {3, 1}} {
		t.Run(fmt.Sprintf("%d to %d", shape[0], shape[1]), func(t *testing.T) {
			g := newRig(t, shape[0], shape[1], transfer.EmbeddedOptions{NICs: 2, Seed: 1})
			for _, nics := range g.nodes.NICs {
				for _, d := range nics {
					d.Faults().Set(device.FaultPlan{Seed: 9, Loss: 0.01, Duplicate: 0.05, Delay: 0.05, AckLoss: 0.01})
				}
			}
			for v := range uint64(4) {
				g.version(10 + v)
			}
		})
	}
}

// TestReceiverRestarts: a receiver dies between the pieces of a version. The others
// get it; the one that comes again gets it from all, and the next with the others.
func TestReceiverRestarts(t *testing.T) {
	const senders, receivers, dies = 3, 3, 1
	g := newRig(t, senders, receivers, transfer.EmbeddedOptions{Seed: 2})
	g.version(1)
	ctx := within(t)
	sent, received := g.both(func(s int) error {
		g.train(s, 2)
		return g.senders[s].Send(ctx, 2)
	}, func(r int) error {
		if r != dies {
			return g.receivers[r].Receive(ctx, 2)
		}
		// It asks, and dies before it has everything, or at least before it knows.
		ended := make(chan error, 1)
		go func() { ended <- g.receivers[r].Receive(ctx, 2) }()
		time.Sleep(2 * time.Millisecond)
		err := g.nodes.Restart(senders + dies)
		return errors.Join(err, <-ended)
	})
	for s, err := range sent {
		if err != nil && (!errors.Is(err, engine.ErrLost) || !strings.Contains(err.Error(), "receiver 1") || strings.Contains(err.Error(), "receiver 2")) {
			t.Errorf("sender %d: %v", s, err)
		}
	}
	for r, err := range received {
		if r != dies {
			if err != nil {
				t.Errorf("receiver %d: %v", r, err)
			}
			g.holds(r, 2)
		}
	}
	if err := errors.Join(g.receivers[dies].Close(), g.mem[senders+dies].Close()); err != nil {
		t.Error(err)
	}
	g.receiver(dies)
	for s := range senders {
		g.attach(s, dies)
	}
	sent, received = g.both(func(s int) error { return g.senders[s].Send(ctx, 2, dies) }, func(r int) error {
		if r != dies {
			return nil
		}
		return g.receivers[r].Receive(ctx, 2)
	})
	if err := errors.Join(append(sent, received...)...); err != nil {
		t.Fatal(err)
	}
	g.holds(dies, 2)
	g.version(3)
}

// TestSenderRestarts: what the other senders gave stays, and the receivers wait for
// the one that comes again.
func TestSenderRestarts(t *testing.T) {
	const senders, receivers, dies = 3, 2, 2
	g := newRig(t, senders, receivers, transfer.EmbeddedOptions{Seed: 3})
	g.version(1)
	ctx := within(t)
	sent, received := g.both(func(s int) error {
		if s == dies {
			return g.nodes.Restart(s)
		}
		g.train(s, 2)
		return g.senders[s].Send(ctx, 2)
	}, func(r int) error { return g.receivers[r].Receive(ctx, 2) })
	for s, err := range sent {
		// A receiver that finds the sender gone before it has asked the others asks
		// them all the same.
		if err != nil {
			t.Errorf("sender %d: %v", s, err)
		}
	}
	for r, err := range received {
		if !errors.Is(err, engine.ErrLost) || !strings.Contains(err.Error(), "sender 2") {
			t.Errorf("receiver %d: %v", r, err)
		}
		if err := g.receivers[r].Receive(ctx, 3); !errors.Is(err, weights.ErrVersion) {
			t.Errorf("receiver %d began version 3 in the middle of 2: %v", r, err)
		}
	}
	if err := errors.Join(g.senders[dies].Close(), g.mem[dies].Close()); err != nil {
		t.Error(err)
	}
	g.sender(dies)
	g.train(dies, 2)
	for r := range receivers {
		g.attach(dies, r)
	}
	sent, received = g.both(func(s int) error {
		if s != dies {
			return nil
		}
		return g.senders[s].Send(ctx, 2)
	}, func(r int) error { return g.receivers[r].Receive(ctx, 2) })
	if err := errors.Join(append(sent, received...)...); err != nil {
		t.Fatal(err)
	}
	for r := range receivers {
		g.holds(r, 2)
	}
	g.version(3)
}

// TestVersionsDiffer: nobody gets a mixture without being told.
func TestVersionsDiffer(t *testing.T) {
	g := newRig(t, 2, 1, transfer.EmbeddedOptions{Seed: 4})
	ctx := within(t)
	receiving, cancel := context.WithCancel(ctx)
	defer cancel()
	var sending atomic.Int32
	sending.Store(2)
	sent, received := g.both(func(s int) error {
		err := g.senders[s].Send(ctx, uint64(5+s))
		if sending.Add(-1) == 0 {
			cancel()
		}
		return err
	}, func(int) error { return g.receivers[0].Receive(receiving, 5) })
	if sent[0] != nil || !errors.Is(sent[1], weights.ErrVersion) {
		t.Errorf("sending: %v", sent)
	}
	if !errors.Is(received[0], context.Canceled) {
		t.Errorf("receiving: %v", received)
	}
	// The sender finds the right one, and it goes on from there.
	for s := range 2 {
		g.train(s, 5)
	}
	if err := g.senders[1].Send(ctx, 5); err != nil {
		t.Error(err)
	}
	if err := g.receivers[0].Receive(ctx, 5); err != nil {
		t.Error(err)
	}
	g.version(6)
}

// TestNotAsked: what a receiver has not asked for is not written.
func TestNotAsked(t *testing.T) {
	g := newRig(t, 2, 1, transfer.EmbeddedOptions{Seed: 5})
	g.version(1)
	g.train(0, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := g.senders[0].Send(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sending to one that has not asked: %v", err)
	}
	g.holds(0, 1)
	g.version(3)
}

// TestAttachFails: a side that waits in vain leaves the peer, and attaches another.
func TestAttachFails(t *testing.T) {
	g := newRig(t, 2, 1, transfer.EmbeddedOptions{Seed: 6})
	g.version(1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(g.senders[1].Close(), g.mem[1].Close()); err != nil {
		t.Error(err)
	}
	g.sender(1)
	for name, attach := range map[string]func(a, b *engine.Peer) (*engine.Peer, error){
		"sender":   func(a, _ *engine.Peer) (*engine.Peer, error) { return a, g.senders[1].Attach(ended, 0, a) },
		"receiver": func(_, b *engine.Peer) (*engine.Peer, error) { return b, g.receivers[0].Attach(ended, 1, b) },
	} {
		a, b, err := g.nodes.Join(within(t), 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		own, err := attach(a, b)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := own.Target(within(t), "x"); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: the peer was not left: %v", name, err)
		}
	}
	if err := g.receivers[0].Receive(within(t), 2); err == nil || !strings.Contains(err.Error(), "sender 1: it is not attached") {
		t.Errorf("without sender 1: %v", err)
	}
	g.attach(1, 0)
	g.version(2)
}

// TestRefused: ranks and memory that make no sense.
func TestRefused(t *testing.T) {
	g := newRig(t, 2, 1, transfer.EmbeddedOptions{})
	e, region := g.nodes.Nodes[0], g.mem[0].Region
	large, err := weights.Plan([]weights.Tensor{{Name: "a", Shape: []int{1 << 20}, Element: 8, From: weights.Replicated(0), To: weights.Replicated(0)}}, 1, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"no such sender":   func() error { _, err := weights.NewSender(e, g.plan, 2, region); return err },
		"no such receiver": func() error { _, err := weights.NewReceiver(e, g.plan, -1, region); return err },
		"little memory":    func() error { _, err := weights.NewSender(e, large, 0, region); return err },
		"less memory":      func() error { _, err := weights.NewReceiver(e, large, 0, region); return err },
		"attach nobody":    func() error { return g.senders[0].Attach(t.Context(), 1, nil) },
		"attach no sender": func() error { return g.receivers[0].Attach(t.Context(), 2, nil) },
		"send to nobody":   func() error { return g.senders[0].Send(t.Context(), 1, 7) },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
