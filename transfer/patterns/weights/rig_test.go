package weights_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/internal/leaktest"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
	"github.com/peerdirect/peerdirect/transfer/patterns/weights"
)

const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// rig is senders, and then receivers, in this process.
type rig struct {
	t         *testing.T
	plan      *weights.Schedule
	nodes     *local.Cluster
	senders   []*weights.Sender
	receivers []*weights.Receiver
	mem       []*memory.Block // by node
}

func newRig(t *testing.T, senders, receivers int, o transfer.EmbeddedOptions) *rig {
	t.Helper()
	left := leaktest.Check(t)
	plan, err := weights.Plan(model(senders, receivers), senders, receivers, 512)
	if err != nil {
		t.Fatal(err)
	}
	o.Nodes, o.PeerTimeout = senders+receivers, 200*time.Millisecond
	nodes, err := local.New(o, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, plan: plan, nodes: nodes, senders: make([]*weights.Sender, senders), receivers: make([]*weights.Receiver, receivers), mem: make([]*memory.Block, senders+receivers)}
	t.Cleanup(func() {
		for _, s := range g.senders {
			err = errors.Join(err, s.Close())
		}
		for _, r := range g.receivers {
			err = errors.Join(err, r.Close())
		}
		for _, m := range g.mem {
			err = errors.Join(err, m.Close())
		}
		if err := errors.Join(err, nodes.Close()); err != nil {
			t.Error(err)
		}
		left()
	})
	for s := range senders {
		g.sender(s)
	}
	for r := range receivers {
		g.receiver(r)
		for s := range senders {
			g.attach(s, r)
		}
	}
	return g
}

func (g *rig) sender(s int) {
	g.t.Helper()
	g.allocate(s, g.plan.SenderBytes(s))
	var err error
	if g.senders[s], err = weights.NewSender(g.nodes.Nodes[s], g.plan, s, g.mem[s].Region); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) receiver(r int) {
	g.t.Helper()
	at := len(g.senders) + r
	g.allocate(at, g.plan.ReceiverBytes(r))
	var err error
	if g.receivers[r], err = weights.NewReceiver(g.nodes.Nodes[at], g.plan, r, g.mem[at].Region); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) allocate(node, bytes int) {
	g.t.Helper()
	var err error
	if g.mem[node], err = memory.Allocate(g.nodes.Nodes[node], bytes); err != nil {
		g.t.Fatal(err)
	}
}

// attach joins a sender and a receiver.
func (g *rig) attach(s, r int) {
	g.t.Helper()
	ctx := within(g.t)
	a, b, err := g.nodes.Join(ctx, s, len(g.senders)+r)
	if err != nil {
		g.t.Fatal(err)
	}
	attached := make(chan error, 1)
	go func() { attached <- g.senders[s].Attach(ctx, r, a) }()
	if err := errors.Join(g.receivers[r].Attach(ctx, s, b), <-attached); err != nil {
		g.t.Fatal(err)
	}
}

// value is a byte of a tensor of a version.
func value(version uint64, tensor, at int) byte {
	x := version*1_000_003 + uint64(tensor)*7919 + uint64(at)
	x *= 0x9e3779b97f4a7c15
	return byte(x >> 56)
}

// train makes the weights of a version at a sender.
func (g *rig) train(s int, version uint64) {
	for i, tensor := range g.plan.Tensors {
		for k, e := range part(tensor, tensor.From, s) {
			for b := range tensor.Element {
				g.mem[s].Bytes[g.plan.SenderPlace(i, s)+k*tensor.Element+b] = value(version, i, e*tensor.Element+b)
			}
		}
	}
}

// holds looks whether a receiver has the weights of a version.
func (g *rig) holds(r int, version uint64) {
	g.t.Helper()
	for i, tensor := range g.plan.Tensors {
		for k, e := range part(tensor, tensor.To, r) {
			for b := range tensor.Element {
				at := g.plan.ReceiverPlace(i, r) + k*tensor.Element + b
				if got := g.mem[len(g.senders)+r].Bytes[at]; got != value(version, i, e*tensor.Element+b) {
					g.t.Fatalf("receiver %d, version %d, %s: byte %d of element %d is wrong", r, version, tensor.Name, b, e)
				}
			}
		}
	}
}

// both has senders and receivers do something at once.
func (g *rig) both(send func(s int) error, receive func(r int) error) (sent, received []error) {
	sent, received = make([]error, len(g.senders)), make([]error, len(g.receivers))
	var all sync.WaitGroup
	for s := range g.senders {
		all.Go(func() { sent[s] = send(s) })
	}
	for r := range g.receivers {
		all.Go(func() { received[r] = receive(r) })
	}
	all.Wait()
	return sent, received
}

// version moves a version to all.
func (g *rig) version(v uint64) {
	g.t.Helper()
	ctx := within(g.t)
	sent, received := g.both(func(s int) error {
		g.train(s, v)
		return g.senders[s].Send(ctx, v)
	}, func(r int) error { return g.receivers[r].Receive(ctx, v) })
	if err := errors.Join(append(sent, received...)...); err != nil {
		g.t.Fatal(err)
	}
	for r := range g.receivers {
		g.holds(r, v)
	}
}
