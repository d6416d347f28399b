package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"syscall"
)

// MaxPrivate is how much private data the interface can carry, in bytes. A
// transport may take less: on InfiniBand and RoCE a dial takes 56, an accept 196
// and a refusal 148.
const MaxPrivate = 255

// Params is what a side brings to a connection.
type Params struct {
	QPN                uint32 // the queue pair, on the device that Device names
	SRQ                bool   // its receives come from a shared queue
	ResponderResources uint8  // reads and atomics of the peer to serve at once
	InitiatorDepth     uint8  // reads and atomics to issue at once
	Private            []byte // for the peer to see; at most MaxPrivate bytes

	// Modify moves an InfiniBand or RoCE queue pair with the attributes of the
	// kernel, which leaves that to its owner: to INIT, to RTR and to RTS, in this
	// order and before the connection is reported. An iWARP queue pair must be
	// in INIT with its access flags; the kernel does the rest, and Modify is not
	// called.
	Modify func(QPAttr) error
}

func (p *Params) check() error {
	switch {
	case p.QPN == 0 || p.QPN >= 1<<24:
		return fmt.Errorf("queue pair number %#x is not within 1 and 0xffffff: %w", p.QPN, syscall.EINVAL)
	case len(p.Private) > MaxPrivate:
		return fmt.Errorf("%d bytes of private data, at most %d fit: %w", len(p.Private), MaxPrivate, syscall.EINVAL)
	}
	return nil
}

// modify moves a queue pair through states with the kernel's attributes.
func (x *id) modify(to func(QPAttr) error, adjust func(*QPAttr), states ...QPState) error {
	for _, state := range states {
		attr, err := x.attr(state)
		if err != nil {
			return err
		}
		// What iWARP has for INIT is not meant to be used (before a connect it
		// would take all access away), and it has nothing for RTR and RTS.
		// InfiniBand's INIT always names a P_Key, which iWARP does not know.
		if state == StateInit && attr.Mask&QPPKeyIndex == 0 {
			return nil
		}
		if adjust != nil {
			adjust(&attr)
		}
		if err := to(attr); err != nil {
			return err
		}
	}
	return nil
}

func (x *id) attr(state QPState) (QPAttr, error) {
	c := initQPAttr(x.num, state)
	if err := x.run(c); err != nil {
		return QPAttr{}, commandError(fmt.Sprintf("%s for %v", commandName(c.num), state), netip.AddrPort{}, err)
	}
	return decodeQPAttr(c.answer), nil
}

// A Conn is an established connection of a queue pair. Close it after the queue
// pair.
type Conn struct {
	id            *id
	dev           Device
	local, remote netip.AddrPort
	peer          Event
}

// LocalAddr is this side's address.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// Device is the device that carries the connection.
func (c *Conn) Device() Device { return c.dev }

// Peer is what the peer sent along with its request or its answer.
func (c *Conn) Peer() Event { return c.peer }

// Done is closed when the peer disconnects, the link or the device is lost, or
// the Conn is closed. Err then tells which.
func (c *Conn) Done() <-chan struct{} { return c.id.gone }

// Err is nil while the connection stands.
func (c *Conn) Err() error {
	c.id.mu.Lock()
	lost := c.id.lost
	c.id.mu.Unlock()
	var e *Error
	if !errors.As(lost, &e) {
		return lost
	}
	named := *e
	named.Addr = c.remote
	return &named
}

// Events gives what the connection manager reports of the connection, as it
// comes, until the context ends or the connection is gone.
func (c *Conn) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			ev, err := c.id.next(ctx)
			if err != nil || !yield(ev.Event) {
				return
			}
		}
	}
}

// Disconnect tells the peer that this is the end. An iWARP queue pair sends
// what is posted and closes; others are moved by their owner. It does not wait
// for the peer: Done does.
func (c *Conn) Disconnect() error {
	if err := c.id.run(disconnect(c.id.num)); err != nil {
		return commandError("disconnect", c.remote, err)
	}
	return nil
}

// QPAttr gives the kernel's attributes for moving the queue pair to a state.
func (c *Conn) QPAttr(state QPState) (QPAttr, error) { return c.id.attr(state) }

// Close gives the connection back to the kernel.
func (c *Conn) Close() error { return c.id.destroy() }
