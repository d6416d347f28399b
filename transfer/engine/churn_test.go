package engine_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

var (
	churnFaults = flag.Int("faults", 200, "faults that TestChurn injects; 10000 take minutes")
	churnSeed   = flag.Uint64("seed", 0, "seed of TestChurn; 0: another each time")
)

// TestChurn: transfers between nodes of which some leave and come again, while
// grants are withdrawn, transfers cancelled, links go down, NICs fall silent and
// reset, packets and answers are lost, late and doubled, and the order is
// scrambled. Each byte is right when its notice is counted, each notice counts
// once, every operation ends, nothing is left.
func TestChurn(t *testing.T) {
	seed := *churnSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to see it again: go test -run TestChurn -seed %d -faults %d", seed, *churnFaults)
	before := runtime.NumGoroutine()
	var injected uint64
	t.Run("nodes", func(t *testing.T) {
		o := quick(3, 2)
		o.Alone, o.Seed, o.Workers = true, seed, 2
		o.Engine.MaxPiece, o.Engine.CoolDown = 4096, 5*time.Millisecond
		o.Engine.FenceTime, o.Engine.RailTime = patience, patience
		c := &churn{cluster: newCluster(t, o), seed: seed}
		ctx, cancel := context.WithTimeout(t.Context(), patience+time.Duration(*churnFaults)*100*time.Millisecond)
		defer cancel()
		var lives sync.WaitGroup
		for i, a := range c.nodes {
			for k := i + 1; k < len(c.nodes); k++ {
				lives.Go(func() { c.pair(ctx, a, c.nodes[k], uint64(i*3+k)) })
			}
		}
		injected = c.breaks(ctx)
		c.over.Store(true)
		lives.Wait()
		t.Logf("%d faults by plans, %d packets met them; %d joins, %d transfers done, %d ended otherwise", *churnFaults, injected, c.joins.Load(), c.done.Load(), c.ended.Load())
		if c.done.Load() == 0 || c.ended.Load() == 0 || injected == 0 {
			t.Error("the test shows nothing")
		}
	})
	nothingIsLeft(t, before)
}

type churn struct {
	*cluster
	seed               uint64
	over               atomic.Bool
	joins, done, ended atomic.Uint64
}

// breaks injects faults, one plan after the other.
func (c *churn) breaks(ctx context.Context) (met uint64) {
	r := rand.New(rand.NewPCG(c.seed, 1000))
	for range *churnFaults {
		f := c.faults(r.IntN(3), r.IntN(2))
		f.Set(device.FaultPlan{
			Seed: r.Uint64(), Loss: 0.05 * r.Float64(), Duplicate: 0.05 * r.Float64(), Delay: 0.05 * r.Float64(), AckLoss: 0.05 * r.Float64(),
			RNR: 0.02 * r.Float64(), Abort: 0.02 * float64(r.IntN(2)), LinkDown: r.IntN(5) == 0, Unresponsive: r.IntN(5) == 0,
		})
		select {
		case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
			c.t.Error("faults took too long")
		}
		f.Clear()
	}
	for _, d := range c.fabric.Fabric().Devices() {
		met += d.Faults().Counts().Total()
	}
	return met
}

// pair has two nodes meet again and again, and write to each other while they are
// joined.
func (c *churn) pair(ctx context.Context, a, b *node, stream uint64) {
	r := rand.New(rand.NewPCG(c.seed, stream))
	for !c.over.Load() {
		d, l := engine.Pipe()
		var ends [2]*engine.Peer
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() { ends[0], errs[0] = a.Connect(ctx, d, true) })
		both.Go(func() { ends[1], errs[1] = b.Connect(ctx, l, false) })
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			c.t.Errorf("joining: %v", err)
			return
		}
		c.joins.Add(1)
		leaves := r.IntN(2)
		for i, n := range []*node{a, b} {
			place := (stream*2 + uint64(i)) * churnSlot
			own, other, seed := ends[i], ends[1-i], r.Uint64()
			to := []*node{b, a}[i]
			rounds := 5 + r.IntN(40)
			both.Go(func() {
				c.writes(ctx, churner{from: n, to: to, own: own, other: other, place: place, r: rand.New(rand.NewPCG(seed, 0))}, rounds)
				if i == leaves {
					own.Close()
				}
			})
		}
		both.Wait()
		for _, p := range ends {
			p.Close()
		}
	}
}

const churnSlot = 24 << 10

// churner is one direction of a pair.
type churner struct {
	from, to   *node
	own, other *engine.Peer
	place      uint64
	r          *rand.Rand
}

// writes writes until the peer is gone, or so often.
func (c *churn) writes(ctx context.Context, w churner, rounds int) {
	gone := func(what string, err error) {
		c.ended.Add(1)
		if ctx.Err() != nil || !errors.Is(err, engine.ErrLost) && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrCancelled) && !errors.Is(err, engine.ErrRights) {
			c.t.Errorf("%s: %v", what, err)
		}
	}
	buffer := make([]byte, churnSlot)
	var sure, most uint64 // notices that were given, and those that may have been
	granted := false
	var target *engine.Target
	for round := range rounds {
		if !granted {
			name := fmt.Sprint("slot", round)
			if err := w.other.Grant(name, w.to.region, engine.Read|engine.Write); err != nil {
				gone("grant", err)
				return
			}
			var err error
			if target, err = w.own.Target(ctx, name); err != nil {
				gone("target", err)
				return
			}
			granted = true
		}
		fill(buffer, w.r.Uint64())
		copy(w.from.mem[w.place:], buffer)
		t, err := w.own.Write(ctx, engine.Move{Local: w.from.region, Remote: target, Notify: engine.Counts(2),
			Segments: []engine.Segment{{Local: w.place, Remote: w.place, Length: churnSlot / 2}, {Local: w.place + churnSlot/2, Remote: w.place + churnSlot/2, Length: churnSlot / 2}}})
		if err != nil {
			gone("write", err)
			return
		}
		most++
		switch w.r.IntN(12) {
		case 0:
			t.Cancel()
		case 1:
			if err := w.other.Withdraw(ctx, target.Name()); err != nil {
				gone("withdraw", err)
				return
			}
			granted = false
			then := bytes.Clone(w.to.mem[w.place:][:churnSlot])
			runtime.Gosched()
			if w.other.Err() == nil && !bytes.Equal(then, w.to.mem[w.place:][:churnSlot]) {
				c.t.Error("bytes came after the withdrawal")
			}
		}
		if err := t.Wait(ctx); err != nil {
			gone("transfer", err)
			if errors.Is(err, engine.ErrCancelled) || errors.Is(err, engine.ErrRights) {
				continue // its notice may have counted, if its rail failed behind it
			}
			return
		}
		sure++
		c.done.Add(1)
		if err := w.other.Counter(2).Wait(ctx, sure); err != nil {
			gone("notice", err)
			return
		}
		same(c.t, "after the notice", w.to.mem[w.place:][:churnSlot], buffer)
		if got := w.other.Counter(2).Count(); got > most {
			c.t.Errorf("%d notices for %d transfers", got, most)
			return
		}
	}
}
