package engine_test

import (
	"context"
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

// faults are those of a node's NIC.
func (c *cluster) faults(node, nic int) *device.Faults {
	for d, of := range c.nics {
		if of == (nicOf{node, fmt.Sprintf("efa_%d", nic)}) {
			return d.Faults()
		}
	}
	c.t.Fatalf("node %d has no NIC %d", node, nic)
	return nil
}

func quick(nodes, nics int) clusterOptions {
	return clusterOptions{
		EmbeddedOptions: transfer.EmbeddedOptions{Nodes: nodes, NICs: nics, PeerTimeout: 100 * time.Millisecond},
		Engine:          engine.Options{CoolDown: 20 * time.Millisecond, FenceTime: patience, MaxPiece: 4096},
	}
}

// TestRailIsLost: what was on a rail that fails goes by the others, each byte
// right and each notice once; the rail comes again.
func TestRailIsLost(t *testing.T) {
	for _, fault := range []struct {
		name string
		plan device.FaultPlan
	}{
		{"its link goes down", device.FaultPlan{LinkDown: true}},
		{"the peer's NIC does not answer", device.FaultPlan{Unresponsive: true}},
		{"the peer's NIC resets connections", device.FaultPlan{Abort: 0.3, Seed: 3}},
		{"answers are lost", device.FaultPlan{AckLoss: 0.3, Seed: 4}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := newCluster(t, quick(2, 3))
			a, b := c.nodes[0], c.nodes[1]
			fill(a.mem, 1)
			const rounds, size = 60, 50_000
			hurt := c.faults(1, 1)
			var counted uint64
			for i := range rounds {
				switch i {
				case 20:
					hurt.Set(fault.plan)
				case 40:
					hurt.Clear()
				}
				from := uint64(i) * 1000
				w := a.write(b, engine.Counts(1), engine.Segment{Local: from, Remote: 1000, Length: size})
				counted++
				b.counted(a, 1, counted)
				same(t, fmt.Sprintf("round %d", i), b.mem[1000:1000+size], a.mem[from:from+size])
				a.done(w)
			}
			if got := b.peers[a].Counter(1).Count(); got != counted {
				t.Errorf("%d notices for %d transfers", got, counted)
			}
			// The rail carries again.
			before := a.Stats()[1].Done
			for deadline := time.Now().Add(patience); a.Stats()[1].Done == before || a.Stats()[1].Up == 0; {
				if time.Now().After(deadline) {
					t.Fatalf("the rail did not come again: %+v", a.Stats())
				}
				a.done(a.write(b, engine.Notify{}, engine.Segment{Length: size}))
			}
		})
	}
}

// TestRandomFaults: transfers between three nodes while links go down and come
// again, NICs fall silent and reset, answers and packets are lost, late and
// doubled. Each byte is right when its notice is counted, each notice counts
// once, nothing hangs.
func TestRandomFaults(t *testing.T) {
	seed := uint64(1)
	c := newCluster(t, quick(3, 2))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	const each, slot = 2000, 16 << 10
	stop := make(chan struct{})
	var breaking, moving sync.WaitGroup
	breaking.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1))
		for {
			f := c.faults(r.IntN(3), r.IntN(2))
			f.Set(device.FaultPlan{
				Seed: r.Uint64(), Loss: 0.02, Duplicate: 0.02, Delay: 0.02, AckLoss: 0.02,
				Abort: 0.02 * float64(r.IntN(2)), LinkDown: r.IntN(4) == 0, Unresponsive: r.IntN(4) == 0,
			})
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(r.IntN(40)) * time.Millisecond):
			}
			f.Clear()
		}
	})
	var failed sync.Map
	for i, from := range c.nodes {
		for k, to := range c.nodes {
			if from == to {
				continue
			}
			moving.Go(func() {
				// A slot of the peer's region for each of the two writers.
				place := uint64(i*3+k) * slot
				r := rand.New(rand.NewPCG(seed, uint64(i*3+k)))
				buffer := make([]byte, slot)
				for n := range uint64(each) {
					fill(buffer, r.Uint64())
					copy(from.mem[place:place+slot], buffer)
					w, err := from.peers[to].Write(ctx, engine.Move{Local: from.region, Remote: from.target[to],
						Segments: []engine.Segment{{Local: place, Remote: place, Length: slot}}, Notify: engine.Counts(9)})
					if err == nil {
						err = to.peers[from].Counter(9).Wait(ctx, n+1)
					}
					if err == nil {
						same(t, "after the notice", to.mem[place:place+slot], buffer)
						err = w.Wait(ctx)
					}
					if err != nil {
						failed.Store(i*3+k, fmt.Errorf("transfer %d from node %d to node %d: %w", n, i, k, err))
						return
					}
				}
				if got := to.peers[from].Counter(9).Count(); got != each {
					failed.Store(i*3+k, fmt.Errorf("%d notices for %d transfers", got, each))
				}
			})
		}
	}
	moving.Wait()
	close(stop)
	breaking.Wait()
	failed.Range(func(_, err any) bool { t.Error(err); return true })
	c.metFaults()
}

// TestWrongKeyBlamesTheRequest: a request that the peer's NIC refuses fails its
// own transfer, and no other.
func TestWrongKeyBlamesTheRequest(t *testing.T) {
	c := newCluster(t, quick(2, 2))
	a, b := c.nodes[0], c.nodes[1]
	if err := b.region.Close(); err != nil { // without a word to the peer
		t.Fatal(err)
	}
	w := a.write(b, engine.Counts(1), engine.Segment{Length: 100})
	var lost *transfer.LostError
	if err := w.Wait(within(t)); !errors.As(err, &lost) || !lost.Request {
		t.Errorf("a write into memory that is not registered: %v", err)
	}
	if n := b.peers[a].Counter(1).Count(); n != 0 {
		t.Errorf("it gave %d notices", n)
	}
	var err error
	if b.region, err = b.Register(b.mem); err != nil {
		t.Fatal(err)
	}
	if err := b.peers[a].Grant("again", b.region, engine.Write); err != nil {
		t.Fatal(err)
	}
	if a.target[b], err = a.peers[b].Target(within(t), "again"); err != nil {
		t.Fatal(err)
	}
	a.done(a.write(b, engine.Counts(1), engine.Segment{Length: 100}))
	b.counted(a, 1, 1)
}

// TestRailsThatCarryNothing: a peer whose only NIC is cut off while its control
// connection lives is taken for lost, by who writes and, told by that, by who waits.
func TestRailsThatCarryNothing(t *testing.T) {
	o := quick(2, 1)
	o.Engine.RailTime = 500 * time.Millisecond
	c := newCluster(t, o)
	a, b := c.nodes[0], c.nodes[1]
	a.done(a.write(b, engine.Counts(1), engine.Segment{Length: 100}))
	c.faults(1, 0).Set(device.FaultPlan{LinkDown: true})
	w := a.write(b, engine.Counts(1), engine.Segment{Length: 100})
	if err := w.Wait(within(t)); !errors.Is(err, engine.ErrLost) {
		t.Errorf("a write to a NIC that is cut off: %v", err)
	}
	if err := b.peers[a].Counter(1).Wait(within(t), 2); !errors.Is(err, engine.ErrLost) {
		t.Errorf("waiting behind a NIC that is cut off: %v", err)
	}
}
