package sim

import (
	"context"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// Node is an engine, its NICs and its cores.
type Node struct {
	w      *World
	index  int
	engine *engine.Engine
	nics   []*NIC
	cores  []*core
	mem    []byte
	region *engine.Region
	buffer *verbs.Buffer

	peers   []*engine.Peer   // by node
	targets []*engine.Target // the others' regions
}

// grantName is the name under which nodes grant their regions.
const grantName = "memory"

func (w *World) open(index int, o Options) (*Node, error) {
	n := &Node{w: w, index: index, mem: w.memory}
	for i := range w.shape.Workers {
		c := &core{node: n, worker: i, index: int32(len(w.cores))}
		n.cores = append(n.cores, c)
		w.cores = append(w.cores, c)
	}
	eo := o.Engine
	eo.Name = fmt.Sprintf("node%d", index)
	eo.Workers = make([]engine.WorkerSpec, w.shape.Workers)
	eo.Manual = &engine.Manual{After: w.later, Wake: func(worker int) {
		n.cores[worker].given++
		n.cores[worker].wake(w.Now())
	}}
	eo.Rails = nil
	for i := range w.shape.NICs {
		c := n.cores[i*w.shape.Workers/w.shape.NICs]
		nic := &NIC{w: w, core: c, index: len(w.nics), name: fmt.Sprintf("sim%d_%d", index, i)}
		c.nics = append(c.nics, nic)
		n.nics = append(n.nics, nic)
		w.nics = append(w.nics, nic)
		eo.Rails = append(eo.Rails, engine.RailSpec{Worker: c.worker, Open: func() (engine.Rail, error) { return nic, nil }})
	}
	var err error
	if n.engine, err = engine.New(eo); err != nil {
		return nil, err
	}
	if o.Bytes > 0 {
		if n.buffer, err = verbs.NewBuffer(o.Bytes, verbs.BufferOptions{}); err != nil {
			return nil, err
		}
		n.mem = n.buffer.Bytes()
	}
	n.region, err = n.engine.Register(n.mem)
	return n, err
}

// Engine is the node's engine, which takes steps while the world runs.
func (n *Node) Engine() *engine.Engine { return n.engine }

// Memory is the node's region, of a world that moves bytes.
func (n *Node) Memory() []byte { return n.mem }

// NIC is a NIC by its number.
func (n *Node) NIC(i int) *NIC { return n.nics[i] }

// Peer is another node as this one sees it, nil where they have not joined.
func (n *Node) Peer(of int) *engine.Peer {
	if of < len(n.peers) {
		return n.peers[of]
	}
	return nil
}

// Write begins to write into another node's region. Local, Remote and what must
// not wait are filled in.
func (n *Node) Write(to int, m engine.Move) (*engine.Transfer, error) {
	m.Local, m.Remote = n.region, n.targets[to]
	return n.peers[to].Write(context.Background(), m)
}

// Join has two nodes join each other by a control connection, at the time that it
// is now, and runs the world until every rail is connected. Each may write into
// the other's region then.
func (w *World) Join(a, b int) error {
	return w.JoinAll([][2]int{{a, b}})
}

// JoinAll joins pairs of nodes, all at once.
func (w *World) JoinAll(pairs [][2]int) error {
	for _, pair := range pairs {
		a, b := w.nodes[pair[0]], w.nodes[pair[1]]
		d, l := newWires(a, b)
		for _, e := range []*wire{d, l} {
			if err := e.node.engine.Begin(e); err != nil {
				return err
			}
		}
	}
	w.Run()
	for _, pair := range pairs {
		for _, side := range [][2]int{{pair[0], pair[1]}, {pair[1], pair[0]}} {
			n, of := w.nodes[side[0]], side[1]
			p := n.Peer(of)
			switch {
			case p == nil:
				return fmt.Errorf("node %d and node %d did not meet", side[0], of)
			case p.Err() != nil:
				return p.Err()
			case p.Up() != len(n.nics):
				return fmt.Errorf("node %d has %d rails to node %d", side[0], p.Up(), of)
			}
			t, err := p.Target(context.Background(), grantName)
			if err != nil {
				return err
			}
			for len(n.targets) < len(n.peers) {
				n.targets = append(n.targets, nil)
			}
			n.targets[of] = t
		}
	}
	return nil
}
