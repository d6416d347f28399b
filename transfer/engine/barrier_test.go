package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// others are a node's peers.
func (n *node) others() (group []*engine.Peer) {
	for _, p := range n.peers {
		group = append(group, p)
	}
	return group
}

// TestBarrier: nobody passes before all have come, round by round, with two names
// at once.
func TestBarrier(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 4, NICs: 2}, Workers: 2})
	ctx := within(t)
	var names [2]struct{ came atomic.Int64 }
	var all sync.WaitGroup
	for i, n := range c.nodes {
		for k := range names {
			all.Go(func() {
				for round := range int64(50) {
					if i == int(round)%4 {
						time.Sleep(time.Millisecond)
					}
					names[k].came.Add(1)
					if err := n.Barrier(ctx, n.others(), fmt.Sprint("name", k)); err != nil {
						t.Errorf("node %d, name %d, round %d: %v", i, k, round, err)
						return
					}
					if came := names[k].came.Load(); came < 4*(round+1) {
						t.Errorf("node %d passed round %d of name %d when %d of %d had come", i, round, k, came, 4*(round+1))
					}
				}
			})
		}
	}
	all.Wait()
}

// TestBarrierIsBroken: whoever waits is told by whom it was broken, whatever the
// way in which that one went.
func TestBarrierIsBroken(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(c *cluster, late *node)
	}{
		{"a member is lost", func(_ *cluster, late *node) { late.Close() }},
		{"a member is lost to one", func(c *cluster, late *node) { c.nodes[0].peers[late].Close() }},
		{"a member gives up", func(c *cluster, late *node) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			if err := late.Barrier(ctx, late.others(), "step"); !errors.Is(err, context.DeadlineExceeded) {
				c.t.Errorf("who gave up: %v", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 4, NICs: 2}})
			// Node 2 does not come, so nobody can pass.
			errs := make(chan error, 2)
			for _, n := range c.nodes[:2] {
				go func() { errs <- n.Barrier(within(t), n.others(), "step") }()
			}
			time.Sleep(10 * time.Millisecond)
			test.act(c, c.nodes[3])
			for range cap(errs) {
				if err := <-errs; !errors.Is(err, engine.ErrBroken) || !strings.Contains(err.Error(), "node3") {
					t.Errorf("%v; want it to name node3", err)
				}
			}
		})
	}
}

// TestBarrierAfterABrokenOne: the next round is none the worse.
func TestBarrierAfterABrokenOne(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3, NICs: 2}})
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for round, ctx := range []context.Context{short, within(t)} {
		errs := make(chan error, 3)
		for i, n := range c.nodes {
			if round == 0 && i == 2 {
				time.Sleep(30 * time.Millisecond) // too late
			}
			go func() { errs <- n.Barrier(ctx, n.others(), "step") }()
		}
		for range c.nodes {
			if err := <-errs; err != nil && !(round == 0 && errors.Is(err, engine.ErrBroken)) {
				t.Errorf("round %d: %v", round, err)
			}
		}
	}
}

// TestBarrierWithoutAll: who comes when another has given up already is told at
// once, and what makes no sense is refused.
func TestBarrierWithoutAll(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2}})
	a, b := c.nodes[0], c.nodes[1]
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // in which it comes
	defer cancel()
	err := a.Barrier(short, a.others(), "step")
	if !errors.Is(err, engine.ErrBroken) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 1 have not come, node1 first") {
		t.Errorf("alone: %v", err)
	}
	// It had come, so node1 may pass; the second round is broken for node1.
	first := b.Barrier(within(t), b.others(), "step")
	if first != nil && !errors.Is(first, engine.ErrBroken) {
		t.Errorf("after it: %v", first)
	}
	for _, bad := range []struct {
		name, want string
		group      []*engine.Peer
	}{
		{"", "0 bytes", a.others()},
		{strings.Repeat("x", 256), "256 bytes", a.others()},
		{"twice", "twice", append(a.others(), a.others()...)},
		{"another's", "another engine's", b.others()},
	} {
		if err := a.Barrier(within(t), bad.group, bad.name); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%.10q: %v; want %q", bad.name, err, bad.want)
		}
	}
	if err := a.Barrier(within(t), nil, "nobody else"); err != nil {
		t.Errorf("of one: %v", err)
	}
	both := make(chan error, 1)
	go func() { both <- b.Barrier(within(t), b.others(), "twice") }()
	if err := errors.Join(a.Barrier(within(t), a.others(), "twice"), <-both); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}
