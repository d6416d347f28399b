package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// node is an engine on embedded devices, with a region of memory.
type node struct {
	*engine.Engine
	t      testing.TB
	mem    []byte
	region *engine.Region
	peers  map[*node]*engine.Peer
	target map[*node]*engine.Target // of the other, as this one sees it
}

// cluster is several of them on one fabric.
type cluster struct {
	t      testing.TB
	fabric *transfer.Embedded
	nodes  []*node
	o      clusterOptions
	nics   map[*device.Device]nicOf
}

// nicOf says whose a device is.
type nicOf struct {
	node int
	name string
}

type clusterOptions struct {
	transfer.EmbeddedOptions
	Workers int
	Alone   bool // nobody is joined
	Bytes   int  // of each node's region; default 1 MiB
	Engine  engine.Options
}

// patience is how long a test waits for what has to come.
const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newCluster makes the nodes and joins each with each.
func newCluster(t testing.TB, o clusterOptions) *cluster {
	t.Helper()
	fabric, err := transfer.NewEmbedded(o.EmbeddedOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fabric.Close() })
	if o.Bytes == 0 {
		o.Bytes = 1 << 20
	}
	c := &cluster{t: t, fabric: fabric, o: o, nics: make(map[*device.Device]nicOf)}
	for i := range fabric.Nodes() {
		c.nodes = append(c.nodes, c.open(i))
	}
	for i, a := range c.nodes {
		if o.Alone {
			break
		}
		for _, b := range c.nodes[i+1:] {
			c.join(a, b)
		}
	}
	return c
}

// open opens the engine of a node, alone.
func (c *cluster) open(i int) *node {
	c.t.Helper()
	o := c.o.Engine
	o.Name = fmt.Sprintf("node%d", i)
	o.Rails = engine.Specs(c.fabric.Node(i), transfer.Want{Peers: 2 * c.fabric.Nodes()}, c.o.Workers)
	e, err := engine.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, d := range c.fabric.Fabric().Devices() {
		if _, known := c.nics[d]; !known {
			c.nics[d] = nicOf{i, d.Name()}
		}
	}
	n := &node{Engine: e, t: c.t, peers: make(map[*node]*engine.Peer), target: make(map[*node]*engine.Target)}
	c.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			c.t.Errorf("closing %s: %v", o.Name, err)
		}
	})
	buf, err := verbs.NewBuffer(c.o.Bytes, verbs.BufferOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { buf.Close() })
	c.t.Cleanup(func() { e.Close() }) // before the memory goes
	n.mem = buf.Bytes()
	if n.region, err = e.Register(n.mem); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// join joins two nodes and has each grant its region to the other.
func (c *cluster) join(a, b *node) {
	c.t.Helper()
	ctx := within(c.t)
	d, l := engine.Pipe()
	type end struct {
		p   *engine.Peer
		err error
	}
	accepted := make(chan end, 1)
	go func() {
		p, err := b.Connect(ctx, l, false)
		accepted <- end{p, err}
	}()
	pa, err := a.Connect(ctx, d, true)
	if err != nil {
		c.t.Fatal(err)
	}
	pb := <-accepted
	if pb.err != nil {
		c.t.Fatal(pb.err)
	}
	a.peers[b], b.peers[a] = pa, pb.p
	for _, side := range []struct{ from, to *node }{{a, b}, {b, a}} {
		if err := side.from.peers[side.to].Grant("memory", side.from.region, engine.Read|engine.Write); err != nil {
			c.t.Fatal(err)
		}
		if side.to.target[side.from], err = side.to.peers[side.from].Target(ctx, "memory"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// allUp waits until every rail is connected to every peer.
func (n *node) allUp() {
	n.t.Helper()
	ctx := within(n.t)
	for i := range n.Rails() {
		for ; n.Stats()[i].Up < len(n.peers); time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				n.t.Fatalf("rail %d is not connected: %+v", i, n.Stats())
			}
		}
	}
}

// write writes segments into another node's region.
func (n *node) write(to *node, notify engine.Notify, segments ...engine.Segment) *engine.Transfer {
	n.t.Helper()
	t, err := n.peers[to].Write(within(n.t), engine.Move{Local: n.region, Remote: n.target[to], Segments: segments, Notify: notify})
	if err != nil {
		n.t.Fatal(err)
	}
	return t
}

func (n *node) done(t *engine.Transfer) {
	n.t.Helper()
	if err := t.Wait(within(n.t)); err != nil {
		n.t.Fatal(err)
	}
}

// counted waits until a node was notified.
func (n *node) counted(by *node, number engine.Number, count uint64) {
	n.t.Helper()
	if err := n.peers[by].Counter(number).Wait(within(n.t), count); err != nil {
		n.t.Fatal(err)
	}
}

func fill(mem []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(len(mem))))
	for i := 0; i+8 <= len(mem); i += 8 {
		binary.LittleEndian.PutUint64(mem[i:], r.Uint64())
	}
}

func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i])
		}
	}
}

// metFaults checks that some connection was lost: without, a test of faults shows
// nothing.
func (c *cluster) metFaults() {
	c.t.Helper()
	var losses uint64
	for _, n := range c.nodes {
		for _, s := range n.Stats() {
			losses += s.Losses
		}
	}
	c.t.Logf("connections lost: %d", losses)
	if losses == 0 {
		c.t.Error("no fault was met: the test shows nothing")
	}
}
