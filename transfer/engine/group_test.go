package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// moves are a scatter of a node's to all others: to each another part of its region.
func (n *node) moves(c *cluster, size uint64, notify engine.Notify) (moves []engine.Move) {
	for i, to := range c.nodes {
		if to != n {
			moves = append(moves, engine.Move{Local: n.region, Remote: n.target[to], Notify: notify,
				Segments: []engine.Segment{{Local: uint64(i) * size, Remote: 64, Length: size}}})
		}
	}
	return moves
}

// TestScatter: each peer has its own bytes once it counts; a group that was
// released serves again.
func TestScatter(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 5, NICs: 2}, Workers: 2})
	a := c.nodes[0]
	for round, size := range []uint64{1, 4096, 65536, 200_000} {
		fill(a.mem, uint64(round))
		g, err := a.Scatter(within(t), a.moves(c, size, engine.Counts(3)))
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Transfers()) != 4 {
			t.Fatalf("%d parts", len(g.Transfers()))
		}
		for i, to := range c.nodes[1:] {
			to.counted(a, 3, uint64(round)+1)
			same(t, "a part", to.mem[64:64+size], a.mem[uint64(i+1)*size:][:size])
		}
		if err := g.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		if moved, of := g.Progress(); moved != of || of != 4*size || !g.Ended() || g.Err() != nil {
			t.Errorf("%d of %d bytes, ended %v, %v", moved, of, g.Ended(), g.Err())
		}
		g.Release()
	}
	g, err := a.Scatter(within(t), nil)
	if err != nil || !g.Ended() || g.Wait(within(t)) != nil {
		t.Errorf("a scatter to nobody: %v", err)
	}
}

// TestScatterIsCheckedWhole: where one part makes no sense nothing is written.
func TestScatterIsCheckedWhole(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3}})
	a, b := c.nodes[0], c.nodes[1]
	fill(a.mem, 1)
	for _, bad := range []struct {
		name, want string
		edit       func(*engine.Move)
	}{
		{"no target", "names no region", func(m *engine.Move) { m.Remote = nil }},
		{"no region", "a region of each side", func(m *engine.Move) { m.Local = nil }},
		{"another engine's peer", "another engine's", func(m *engine.Move) { m.Remote = b.target[a] }},
		{"out of range", "outside the region", func(m *engine.Move) { m.Segments[0].Remote = 1 << 20 }},
	} {
		moves := a.moves(c, 100, engine.Counts(1))
		bad.edit(&moves[1])
		if _, err := a.Scatter(within(t), moves); err == nil || !strings.Contains(err.Error(), bad.want) || !strings.Contains(err.Error(), "part 1") {
			t.Errorf("%s: %v; want %q", bad.name, err, bad.want)
		}
	}
	// What was prepared has let its target go: the owner gets it back.
	if err := b.peers[a].Withdraw(within(t), "memory"); err != nil {
		t.Error(err)
	}
	if n := b.peers[a].Counter(1).Count(); n != 0 {
		t.Errorf("%d notices", n)
	}
	same(t, "the first peer's region", b.mem, make([]byte, len(b.mem)))
}

// TestScatterToTheLost: a peer that is gone fails its part, by name, and no other.
func TestScatterToTheLost(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 4, NICs: 2}, Workers: 2})
	a, gone := c.nodes[0], c.nodes[2]
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	<-a.peers[gone].Fenced()
	g, err := a.Scatter(within(t), a.moves(c, 50_000, engine.Counts(1)))
	if err != nil {
		t.Fatal(err)
	}
	err = g.Wait(within(t))
	var failed *engine.GroupError
	if !errors.As(err, &failed) || !errors.Is(err, engine.ErrLost) || len(failed.Parts) != 1 || failed.Parts[0].Part != 1 || failed.Parts[0].Peer != "node2" ||
		!strings.Contains(err.Error(), "1 of 3 parts failed: node2 (part 1)") {
		t.Errorf("%v", err)
	}
	for _, to := range []*node{c.nodes[1], c.nodes[3]} {
		to.counted(a, 1, 1)
	}
}

// TestScatterIsCancelled: all parts end, and nothing lands from then on.
func TestScatterIsCancelled(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3, NICs: 2, Gbps: 0.05}, Bytes: 32 << 20, Engine: engine.Options{MaxPiece: 16 << 10}})
	a := c.nodes[0]
	fill(a.mem, 3)
	g, err := a.Scatter(within(t), a.moves(c, 10<<20, engine.Counts(1)))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Wait(short); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting while it goes on: %v", err)
	}
	g.Cancel()
	if err := g.Wait(within(t)); !errors.Is(err, engine.ErrCancelled) {
		t.Fatalf("a cancelled scatter: %v", err)
	}
	seen := append([]byte(nil), c.nodes[1].mem...)
	a.done(a.write(c.nodes[1], engine.Counts(2)))
	same(t, "after the cancel", c.nodes[1].mem, seen)
}
