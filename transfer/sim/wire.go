package sim

import (
	"context"
	"errors"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// wire is one end of a control connection: messages come in order, each after the
// way that control messages have.
type wire struct {
	w       *World
	node    *Node
	other   *wire
	dialled bool
	peer    *engine.Peer // once the other side's first message came
	last    Time         // when the last message comes to the other side
	closed  bool
	err     error
}

func newWires(a, b *Node) (dialled, accepted *wire) {
	d := &wire{w: a.w, node: a, dialled: true}
	l := &wire{w: a.w, node: b, other: d}
	d.other = l
	return d, l
}

var errWireClosed = errors.New("the connection is closed")

// Send has the message come to the other side.
func (c *wire) Send(kind uint16, payload []byte) error {
	if c.closed || c.other.closed {
		return errWireClosed
	}
	c.deliver(func() { c.other.heard(kind, payload) })
	return nil
}

func (c *wire) deliver(f func()) {
	// Cores of one node are at times of their own; order is kept.
	c.last = max(c.last, c.w.Now()+c.w.control)
	c.w.todo.push(c.last, eventCall, c.w.calls.put(f))
}

// heard acts on a message: the first makes the peer, to whom the region is granted.
func (c *wire) heard(kind uint16, payload []byte) {
	if c.closed {
		return
	}
	if c.peer != nil {
		c.peer.Deliver(kind, payload)
		return
	}
	n, of := c.node, c.other.node.index
	if c.peer, c.err = n.engine.Meet(c, c.dialled, kind, payload); c.err != nil {
		c.Close()
		return
	}
	for len(n.peers) <= of {
		n.peers = append(n.peers, nil)
	}
	n.peers[of] = c.peer
	if c.err = c.peer.Grant(grantName, n.region, engine.Read|engine.Write); c.err != nil {
		c.Close()
	}
}

// Receive is not for an engine that its caller drives.
func (c *wire) Receive(context.Context) (uint16, []byte, error) {
	return 0, nil, errors.ErrUnsupported
}

// Identity is the other node.
func (c *wire) Identity() string { return "simulated" }

// Left is true: nothing but a Close ends it.
func (c *wire) Left() bool { return true }

// Close ends the connection, which the other side hears in its turn.
func (c *wire) Close() error {
	if !c.closed {
		c.closed = true
		c.deliver(func() {
			if p := c.other.peer; p != nil && !c.other.closed {
				p.Hangup()
			}
		})
	}
	return nil
}
