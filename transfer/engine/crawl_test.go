package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

var crawlSteps = flag.Int("crawl", 12, "steps of each operation at which TestPeersAreKilled kills")

// killer is a way in which a peer goes.
type killer struct {
	name string
	kill func(b *node, control engine.Control)
}

// killers are the ways.
var killers = []killer{
	{"its connection is cut", func(_ *node, c engine.Control) { c.Close() }},
	{"its engine is closed", func(b *node, _ engine.Control) { b.Close() }},
	{"it leaves", func(b *node, _ engine.Control) {
		for _, p := range b.Peers() {
			p.Close()
		}
	}},
}

// counting is a control connection that calls at after the n-th message of its
// side, sent or received, has passed.
type counting struct {
	engine.Control
	mu   sync.Mutex
	left int
	at   func()
}

func (c *counting) passed() {
	c.mu.Lock()
	c.left--
	now := c.left == 0
	c.mu.Unlock()
	if now {
		c.at()
	}
}

func (c *counting) Send(kind uint16, payload []byte) error {
	err := c.Control.Send(kind, payload)
	c.passed()
	return err
}

func (c *counting) Receive(ctx context.Context) (uint16, []byte, error) {
	kind, payload, err := c.Control.Receive(ctx)
	if err == nil {
		c.passed()
	}
	return kind, payload, err
}

// TestPeersAreKilled: a peer goes, in each of the ways, after each message of its
// side of a whole life: joining, granting, transfers of all kinds, a withdrawal.
// The other's operations end, with an error or done; it is fenced; a third goes on
// as if nothing had been; nothing is left.
func TestPeersAreKilled(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, k := range killers {
		for _, dialled := range []bool{true, false} {
			for step := 1; step <= *crawlSteps; step++ {
				t.Run(fmt.Sprintf("%s/dialled %v/step %d", k.name, dialled, step), func(t *testing.T) {
					c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 3, NICs: 2, PeerTimeout: 50 * time.Millisecond, Seed: uint64(step)},
						Alone: true, Bytes: 256 << 10, Workers: 2, Engine: engine.Options{MaxPiece: 16 << 10, CoolDown: 5 * time.Millisecond, FenceTime: patience, RailTime: patience}})
					c.killAt(k, dialled, step)
				})
			}
		}
	}
	nothingIsLeft(t, before)
}

func (c *cluster) killAt(k killer, dialled bool, step int) {
	a, b, third := c.nodes[0], c.nodes[1], c.nodes[2]
	c.join(a, third)
	d, l := engine.Pipe()
	killed := make(chan struct{})
	var dying sync.WaitGroup
	theirs := &counting{Control: l, left: step}
	if !dialled {
		theirs.Control = d
	}
	inner := theirs.Control
	theirs.at = func() {
		dying.Go(func() { k.kill(b, inner); close(killed) })
	}
	ctx := within(c.t)
	var life sync.WaitGroup
	ours := l
	if dialled {
		ours = d
	}
	life.Go(func() { a.live(ctx, ours, dialled) })
	life.Go(func() { b.live(ctx, theirs, !dialled) })
	for i := range 5 {
		w := a.write(third, engine.Counts(3), engine.Segment{Length: 100_000})
		third.counted(a, 3, uint64(i+1))
		a.done(w)
	}
	life.Wait()
	dying.Wait()
	a.done(a.write(third, engine.Counts(3), engine.Segment{Length: 100}))
}

// live is a peer's life, as far as the other lets it.
func (n *node) live(ctx context.Context, control engine.Control, dialled bool) {
	p, err := n.Connect(ctx, control, dialled)
	if err != nil {
		n.gone("connect", err)
		return
	}
	defer p.Close()
	if err := p.Grant("life", n.region, engine.Read|engine.Write); err != nil {
		n.gone("grant", err)
		return
	}
	target, err := p.Target(ctx, "life")
	if err != nil {
		n.gone("target", err)
		return
	}
	half := uint64(len(n.mem) / 2)
	for i := range uint64(4) {
		var transfers []*engine.Transfer
		segments := []engine.Segment{{Local: 0, Remote: half, Length: half}}
		w, err := p.Write(ctx, engine.Move{Local: n.region, Remote: target, Segments: segments, Notify: engine.Counts(1)})
		if err != nil {
			n.gone("write", err)
			return
		}
		transfers = append(transfers, w)
		if i == 2 {
			w.Cancel()
		}
		r, err := p.Read(ctx, engine.Move{Local: n.region, Remote: target, Segments: []engine.Segment{{Local: half, Remote: 0, Length: 64}}})
		if err == nil {
			transfers = append(transfers, r)
		} else {
			n.gone("read", err)
		}
		for _, t := range transfers {
			if err := t.Wait(ctx); err != nil && !errors.Is(err, engine.ErrCancelled) {
				n.gone("transfer", err)
			}
		}
		if i < 2 {
			if err := p.Counter(1).Wait(ctx, i+1); err != nil {
				n.gone("notice", err)
				return
			}
		}
	}
	if err := p.Withdraw(ctx, "life"); err != nil {
		n.gone("withdraw", err)
	}
}

// gone fails the test unless an error says that the peer is gone, or this side.
func (n *node) gone(what string, err error) {
	if !errors.Is(err, engine.ErrLost) && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrRights) && !strings.Contains(err.Error(), "connection is closed") {
		n.t.Errorf("%s: %v", what, err)
	}
}

// nothingIsLeft looks for goroutines, and for devices' objects.
func nothingIsLeft(t *testing.T, before int) {
	t.Helper()
	if live := efa.Live(); len(live) > 0 {
		t.Errorf("objects are left: %v", live)
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
