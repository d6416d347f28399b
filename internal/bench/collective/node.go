package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
)

// node does what node 0 says. Everything that it has is opened for one number of
// nodes, and closed after.
type node struct {
	Place
	about   about
	timeout time.Duration

	rank, size int // size is how many take part now
	e          *engine.Engine
	listener   *engine.Listener
	memory     *memory
	region     *engine.Region
	ring       *ring.Ring
	vector     *ring.Vector
	staged     *ring.Staged
	tcp        *tcpRing
}

// newNode finds out, before others are waited for, that this node has what it needs.
func newNode(p Place) (*node, error) {
	n := &node{Place: p, rank: p.Rank}
	rail, err := p.Rails.Open(transfer.Want{Peers: 1})
	if err == nil {
		err = rail.Close()
	}
	if err == nil && p.Memory != nil {
		err = p.Memory.Available()
	}
	n.about = n.look()
	return n, err
}

// do does a command. A node that fails has closed everything.
func (n *node) do(ctx context.Context, c command) (r reply) {
	var err error
	switch c.Do {
	case "open":
		r.Addr, err = n.open(ctx, c)
	case "join":
		err = n.join(ctx, c)
	case "run":
		r.Took, err = n.measure(ctx, c)
	case "hop":
		r.Took.Total, err = n.hop(ctx, c)
	case "rails":
		r.Rails = n.rails()
	case "close":
		err = n.close(ctx)
	default:
		err = fmt.Errorf("%q is no command", c.Do)
	}
	if err == nil {
		return r
	}
	n.close(ctx) // what that could tell of follows from the error
	e := endingOf(err)
	if context.Cause(ctx) == context.Canceled {
		e = ending{"it was interrupted", classInterrupted}
	}
	r.Failed = &e
	return r
}

// open opens the NICs and gives the address where the node before joins.
func (n *node) open(ctx context.Context, c command) (string, error) {
	n.size, n.timeout = c.Nodes, c.Timeout
	var err error
	if n.e, err = n.engine(); err != nil {
		return "", err
	}
	n.listener, err = n.e.Listen(ctx, net.JoinHostPort(n.host(), "0"), n.Credentials, n.control())
	if err != nil {
		return "", err
	}
	if n.memory, err = newMemory(n.Memory, c.Bytes); err != nil {
		return "", err
	}
	n.region, err = n.memory.register(n.e)
	return n.listener.Addr().String(), err
}

// engine opens the NICs where the machine's topology wants them: the rails of each
// accelerator or NUMA node with a worker on that node's CPUs. Software NICs, and those
// of a machine whose topology cannot be read, are shared out among workers.
func (n *node) engine() (*engine.Engine, error) {
	want := transfer.Want{Peers: 4}
	o := engine.Options{Name: engineName(n.rank), FenceTime: n.timeout, RailTime: n.timeout}
	if n.about.Kind != transfer.KindEmbedded {
		if t, err := pci.Read(os.DirFS("/")); err == nil {
			placed, err := engine.Placed(t, n.Place.Rails, want, pci.PairOptions{})
			if err != nil {
				return nil, err
			}
			o.Rails, o.Workers, o.Near = placed.Rails, placed.Workers, placed.Near
			e, err := engine.New(o)
			if err == nil || !errors.Is(err, syscall.EINVAL) {
				return e, err
			}
			o.Workers = nil // a container's process may not run on all of a node's CPUs
			return engine.New(o)
		}
	}
	o.Rails = engine.Specs(n.Place.Rails, want, max(1, min(n.Place.Rails.NICs()/4, runtime.GOMAXPROCS(0))))
	return engine.New(o)
}

func engineName(rank int) string { return fmt.Sprintf("node%d", rank) }

func (n *node) control() control.Options {
	return control.Options{Window: n.timeout, Lease: n.timeout, Handshake: n.timeout}
}

// join joins the node before and the next one, and makes rings of them.
func (n *node) join(ctx context.Context, c command) error {
	ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, fmt.Errorf("the ring was not made within %v", n.timeout))
	defer cancel()
	after, before := (n.rank+1)%n.size, (n.rank+n.size-1)%n.size
	var prev, next *engine.Peer
	accepted := make(chan error, 1)
	if n.size > 2 || n.rank == 1 {
		go func() {
			var err error
			if prev, err = n.listener.Accept(ctx); err == nil && prev.Name() != engineName(before) {
				err = fmt.Errorf("who came is %q", prev.Name())
			}
			accepted <- err
		}()
	} else {
		accepted <- nil
	}
	var err error
	if n.size > 2 || n.rank == 0 {
		if next, err = n.e.Join(ctx, c.Addrs[after], n.Credentials, n.control()); err != nil {
			cancel()
			<-accepted
			return fmt.Errorf("joining %s: %w", nodeName(after, n.Peers), err)
		}
	}
	if err := <-accepted; err != nil {
		return fmt.Errorf("waiting for %s: %w", nodeName(before, n.Peers), err)
	}
	if n.size == 2 && n.rank == 0 {
		prev = next
	} else if n.size == 2 {
		next = prev
	}
	if err := n.warm(ctx, prev, next); err != nil {
		return err
	}
	if n.tcp, err = joinTCP(ctx, n.host(), prev, next, n.rank, n.size, n.memory, n.timeout); err != nil {
		return err
	}
	if n.ring, err = ring.Join(ctx, n.e, prev, next, n.rank, n.size, ring.Options{Silence: n.timeout}); err != nil {
		return err
	}
	if n.memory.mem != nil {
		n.staged = n.ring.Staged(n.memory.mem)
	}
	n.vector, err = n.newVector(ctx, n.region)
	return errors.Join(err, n.listener.Close())
}

func (n *node) newVector(ctx context.Context, region *engine.Region) (*ring.Vector, error) {
	if n.memory.mem != nil {
		return n.ring.Vector(ctx, region, nil, n.memory.mem)
	}
	return n.ring.Vector(ctx, region, n.memory.host(), nil)
}

// warm waits until every rail is connected, and uses each once.
func (n *node) warm(ctx context.Context, prev, next *engine.Peer) error {
	peers := []*engine.Peer{next, prev}
	if prev == next {
		peers = peers[:1]
	}
	for {
		up, want := 0, 0
		for _, s := range n.e.Stats() {
			up, want = up+s.Up, want+len(peers)
		}
		if up == want {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d connections of rails are there: %w", up, want, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
	return next.Warm(ctx)
}

// close closes all that was opened, in the order that regions, rings and engines want.
func (n *node) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(n.timeout, time.Millisecond))
	defer cancel()
	var errs []error
	n.tcp.close()
	if n.ring != nil {
		if n.vector != nil {
			errs = append(errs, n.vector.Close(ctx))
		}
		errs = append(errs, n.ring.Close(ctx))
	}
	if n.listener != nil {
		errs = append(errs, n.listener.Close())
	}
	if n.e != nil {
		errs = append(errs, n.e.Close())
	}
	errs = append(errs, n.memory.close())
	n.e, n.listener, n.memory, n.region, n.ring, n.vector, n.staged, n.tcp = nil, nil, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}
