//go:build lab

package engine_test

import (
	"bytes"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// accelerators are the exporters of the machine's, if its NICs take dma-bufs: rxe
// does not.
func accelerators() []string {
	if all := os.Getenv("PEERDIRECT_ACCELERATORS"); all != "" && os.Getenv("PEERDIRECT_EFA") != "" {
		return strings.Split(all, ",")
	}
	return nil
}

// accelerated is memory of a node's accelerator, registered with the NICs below its
// switch: what is exchanged goes from accelerator to accelerator, and the CPU looks
// at it through the exporter only.
type accelerated struct {
	n      *labNode
	memory dmabuf.Memory
	region *engine.Region
	target []*engine.Target
}

// slot is what each node has in every node's accelerator, bytes; one behind the
// last is where a node writes from.
const slot = area / 2

// accelerator is memory of the first accelerator, if the machine has any. It is
// freed after the engine is closed.
func (l *lab) accelerator() dmabuf.Memory {
	l.t.Helper()
	all := accelerators()
	if all == nil {
		return nil
	}
	x, err := transfer.MemoryNamed(all[0])
	l.must(err)
	l.must(x.Available())
	m, err := x.Allocate(uint64(slot * (l.n + 1)))
	l.must(err)
	l.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			l.t.Error("freeing the accelerator's memory: ", err)
		}
	})
	return m
}

// accelerate registers memory of an accelerator, unless there is none.
func (n *labNode) accelerate(m dmabuf.Memory) {
	n.t.Helper()
	if m == nil {
		return
	}
	region, err := n.RegisterMemory(m, 0, uint64(slot*(n.n+1)))
	n.must(err)
	if near := len(region.Rails()); near == 0 || near >= len(n.Rails()) && len(n.Rails()) > 2 {
		n.t.Errorf("node %d: an accelerator's memory is registered with %d of %d rails: those below its switch were wanted", n.me, near, len(n.Rails()))
	}
	n.accel = &accelerated{n: n, memory: m, region: region, target: make([]*engine.Target, n.n)}
}

// joined exchanges grants.
func (a *accelerated) joined(at int, p *engine.Peer) {
	a.n.t.Helper()
	a.n.must(p.Grant("accelerator", a.region, engine.Write))
	var err error
	a.target[at], err = p.Target(a.n.ctx, "accelerator")
	a.n.must(err)
}

// write writes what the round has for a node.
func (a *accelerated) write(to int) {
	n := a.n
	n.t.Helper()
	from := uint64(slot * n.n)
	_, err := a.memory.WriteAt(pattern(n.me, to, n.sent[to]), int64(from))
	n.must(err)
	t, err := n.peers[to].Write(n.ctx, engine.Move{Local: a.region, Remote: a.target[to],
		Segments: []engine.Segment{{Local: from, Remote: uint64(slot * n.me), Length: slot}}, Notify: engine.Counts(7)})
	n.must(err)
	n.must(t.Wait(n.ctx))
}

// verify looks at what a node wrote in the round.
func (a *accelerated) verify(by int) {
	n := a.n
	n.t.Helper()
	n.must(n.peers[by].Counter(7).Wait(n.ctx, n.came[by]))
	got := make([]byte, slot)
	_, err := a.memory.ReadAt(got, int64(slot*by))
	n.must(err)
	if !bytes.Equal(got, pattern(by, n.me, n.came[by])) {
		n.t.Fatalf("node %d: what node %d wrote to the accelerator in round %d differs", n.me, by, n.came[by])
	}
}
