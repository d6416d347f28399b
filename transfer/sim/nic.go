package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/peerdirect/peerdirect/transfer"
)

// NIC is a modelled NIC: an engine's rail. Its sends go out one after the other,
// each for as long as its bytes take at the NIC's rate, or a request at least;
// what comes in waits for its port in the same way.
type NIC struct {
	w     *World
	core  *core
	index int // among the world's
	name  string

	conns   []*conn
	regions []region // by key, from 1 on
	out     int      // requests that were posted and whose completions were not polled
	sending Time     // when what was posted has gone out
	taking  Time     // when what came has been taken
	done    completions
	down    bool
	downAt  Time

	count Count
}

// Count is what a NIC has done.
type Count struct {
	Posted    uint64 // requests
	Completed uint64 // of them, done or failed, and polled
	Failed    uint64
	Bytes     uint64 // of those that were done
	Landed    uint64 // bytes that came in
	Notices   uint64
}

// conn is a peer of the NIC's, from an offer to the end.
type conn struct {
	nic  *NIC
	id   transfer.Peer
	to   *conn
	open bool
	lost bool // the cause was told

	awaiting int // messages that have not come back
}

type region struct {
	addr uint64
	mem  []byte
}

var errDown = errors.New("nothing acknowledged it in time")

// Count tells what the NIC has done so far.
func (n *NIC) Count() Count { return n.count }

// Down takes the NIC's link away, or gives it back. What comes to the NIC or goes
// out meanwhile is lost, and so is the acknowledgement of what had gone out before.
func (n *NIC) Down(down bool) {
	if down && !n.down {
		n.downAt = n.w.Now()
	}
	n.down = down
}

// Info describes the NIC.
func (n *NIC) Info() transfer.Info {
	return transfer.Info{Device: n.name, NICs: 1, Port: 1, Transport: "simulated", Queues: 1, Path: "simulated"}
}

// Register makes a region, whose key is its number.
func (n *NIC) Register(mem []byte) (*transfer.Region, error) {
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	n.regions = append(n.regions, region{addr, mem})
	key := uint32(len(n.regions))
	return transfer.NewRegion(addr, uint64(len(mem)), key, key, func() error { return nil }), nil
}

// RegisterExport is not modelled.
func (n *NIC) RegisterExport(*transfer.Export) (*transfer.Region, error) {
	return nil, errors.ErrUnsupported
}

// Offer names a new peer. Numbers are not used again.
func (n *NIC) Offer() (transfer.Peer, []byte, error) {
	c := &conn{nic: n, id: transfer.Peer(len(n.conns))}
	n.conns = append(n.conns, c)
	offer := binary.BigEndian.AppendUint32(nil, uint32(n.index))
	return c.id, binary.BigEndian.AppendUint32(offer, uint32(c.id)), nil
}

// Accept connects a peer.
func (n *NIC) Accept(p transfer.Peer, offer []byte) error {
	if len(offer) != 8 {
		return fmt.Errorf("an offer of %d bytes", len(offer))
	}
	far := n.w.nics[binary.BigEndian.Uint32(offer)]
	c := n.conns[p]
	c.to, c.open = far.conns[binary.BigEndian.Uint32(offer[4:])], true
	return nil
}

// Disconnect takes nothing more of a peer. What had come stays to be polled, and
// what is on its way comes back at once.
func (n *NIC) Disconnect(p transfer.Peer) error {
	c := n.conns[p]
	c.open = false
	for i := 0; c.awaiting > 0; i++ {
		m := &n.w.messages.all[i]
		if m.from == c && m.awaited {
			m.awaited = false
			c.awaiting--
			n.complete(n.w.Now(), transfer.Completion{Kind: transfer.Failed, Peer: p, ID: m.id, Err: transfer.ErrFlushed}, 0)
		}
	}
	return nil
}

// Post takes what there is room for.
func (n *NIC) Post(ops []transfer.Op) (int, error) {
	c := n.core
	c.clock += n.w.prices.doorbell
	took := min(len(ops), n.w.model.Depth-n.out)
	for i := range ops[:took] {
		op := &ops[i]
		if op.Kind == transfer.OpRead {
			return i, fmt.Errorf("operation %d is not modelled: %w", op.Kind, errors.ErrUnsupported)
		}
		c.clock += n.w.prices.post
		n.out++
		n.count.Posted++
		n.w.send(n, op)
	}
	return took, nil
}

// Poll gives what has completed by the time it is for the core.
func (n *NIC) Poll(out []transfer.Completion) (int, error) {
	n.core.clock += n.w.prices.poll
	at, took := n.core.clock, 0
	if n.w.closing {
		at = math.MaxInt64
	}
	for took < len(out) && len(n.done.heap) > 0 && n.done.heap[0].at <= at {
		one := n.done.pop()
		out[took] = one.Completion
		n.count.Bytes += one.bytes
		switch out[took].Kind {
		case transfer.Failed:
			n.count.Failed++
			fallthrough
		case transfer.Done:
			n.count.Completed++
			n.out--
		case transfer.Notice:
			n.count.Notices++
		}
		took++
	}
	n.core.clock += Time(took) * n.w.prices.completion
	return took, nil
}

// Wait is not for a NIC whose completions wake its core.
func (n *NIC) Wait(context.Context) error { return errors.ErrUnsupported }

// Depth is how many requests the NIC holds.
func (n *NIC) Depth() int { return n.w.model.Depth }

// Receives is how many notices and messages a peer may send ahead.
func (n *NIC) Receives() int { return n.w.model.Receives }

// Close leaves the NIC to the world.
func (n *NIC) Close() error { return nil }

// complete has Poll give a completion from a time on.
func (n *NIC) complete(at Time, c transfer.Completion, bytes uint64) {
	n.done.push(at, told{c, bytes})
	n.core.wake(at)
}
