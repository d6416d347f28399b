package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestWarm: every rail carries something both ways, nothing is counted, and both
// sides may at once.
func TestWarm(t *testing.T) {
	for _, batch := range []int{1, 16} {
		c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 4}, Workers: 2, Engine: engine.Options{Batch: batch}})
		a, b := c.nodes[0], c.nodes[1]
		for _, n := range c.nodes {
			n.allUp()
		}
		fill(a.mem, 1)
		want := append([]byte(nil), b.mem...)
		for range 3 {
			theirs := make(chan error, 1)
			go func() { theirs <- b.peers[a].Warm(within(t)) }()
			if err := a.peers[b].Warm(within(t)); err != nil {
				t.Fatal(err)
			}
			if err := <-theirs; err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.nodes {
			for i, s := range n.Stats() {
				// Six times, by two requests each; those of the last may not show yet.
				if s.Done < 10 {
					t.Errorf("rail %d carried %+v", i, s)
				}
			}
		}
		same(t, "a region that was granted", b.mem, want)
		a.done(a.write(b, engine.Counts(0), engine.Segment{Length: 100}))
		b.counted(a, 0, 1)
	}
}

// TestWarmWithoutAnswer: a rail that fails meanwhile is told, or has come too late;
// nothing hangs, and what follows goes by the other.
func TestWarmWithoutAnswer(t *testing.T) {
	c := newCluster(t, quick(2, 2))
	a, b := c.nodes[0], c.nodes[1]
	c.faults(1, 1).Set(device.FaultPlan{Unresponsive: true})
	begun := time.Now()
	if err := a.peers[b].Warm(within(t)); err != nil {
		t.Logf("after %v: %v", time.Since(begun), err)
	}
	a.done(a.write(b, engine.Counts(0), engine.Segment{Length: 100_000}))
	b.counted(a, 0, 1)
	c.faults(1, 1).Clear()
}

// TestWarmThatIsGivenUp: who does not wait may ask again, while the peer is still about
// it and when it has ended.
func TestWarmThatIsGivenUp(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, NICs: 2}})
	a, b := c.nodes[0], c.nodes[1]
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for round := range 30 {
		a.peers[b].Warm(over)
		if round%3 == 0 {
			if err := a.peers[b].Warm(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(a.peers[b].Err(), b.peers[a].Err()); err != nil {
		t.Error(err)
	}
}

// TestReserved: users cannot grant or notify what the engine does itself.
func TestReserved(t *testing.T) {
	c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2}})
	a, b := c.nodes[0], c.nodes[1]
	if err := a.peers[b].Grant("\x00warm", a.region, engine.Write); err == nil {
		t.Error("granted")
	}
	own := engine.Number(engine.MaxNumber + 1)
	if _, err := a.peers[b].Notify(within(t), own); err == nil {
		t.Error("notified")
	}
	move := engine.Move{Local: a.region, Remote: a.target[b], Segments: []engine.Segment{{Length: 1}}, Notify: engine.Counts(own)}
	if _, err := a.peers[b].Write(within(t), move); err == nil {
		t.Error("written with a notice")
	}
	if _, err := a.Scatter(within(t), []engine.Move{move}); err == nil {
		t.Error("scattered with a notice")
	}
	if a.peers[b].Counter(own) != nil {
		t.Error("it can be read")
	}
	if err := a.peers[b].Warm(within(t)); err != nil {
		t.Fatal(err)
	}
	a.done(a.write(b, engine.Counts(engine.MaxNumber), engine.Segment{Length: 1}))
	b.counted(a, engine.MaxNumber, 1)
	if n := b.peers[a].Counter(engine.MaxNumber).Count(); n != 1 {
		t.Errorf("counted %d times", n)
	}
}
