package collective

import (
	"context"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
)

// measure does an operation so many times by a path, of new vectors where the command
// names a run: then the result is compared, and is one operation's.
func (n *node) measure(ctx context.Context, c command) (t took, err error) {
	v := run{number: c.Run, op: c.Operation, nodes: n.size, n: int(c.Size / 4)}
	if c.Run > 0 {
		if err := n.memory.fill(v, n.rank); err != nil {
			return t, err
		}
	}
	before := n.ring.Spent()
	begun := time.Now()
	for range c.Iterations {
		if err := n.once(ctx, c.Path, v, &t); err != nil {
			return t, err
		}
	}
	t.Total = time.Since(begun).Seconds()
	after := n.ring.Spent()
	t.Wait, t.Copy, t.Sum = (after.Wait - before.Wait).Seconds(), (after.Copy - before.Copy).Seconds(), (after.Sum - before.Sum).Seconds()
	if c.Run > 0 && c.Iterations == 1 {
		if n.damage != nil {
			n.damage(n.rank, n.memory.floats(v.n))
		}
		return t, n.memory.check(v, n.rank)
	}
	return t, nil
}

// once does one operation.
func (n *node) once(ctx context.Context, path string, v run, t *took) error {
	switch path {
	case Direct:
		return operate(ctx, n.vector, v)
	case Staged:
		if n.staged != nil {
			return operate(ctx, n.staged, v)
		}
		if x := n.memory.floats(v.n); v.op == AllReduce {
			return n.ring.AllReduce(ctx, x)
		} else {
			return n.ring.AllGather(ctx, x)
		}
	case TCP:
		return n.tcp.do(ctx, v)
	case Registered:
		return n.registered(ctx, v, t)
	}
	return fmt.Errorf("%q is no path", path)
}

// operate does it on what is registered, or outside of the process.
func operate(ctx context.Context, on interface {
	AllReduce(context.Context, int) error
	AllGather(context.Context, int) error
}, v run) error {
	if v.op == AllReduce {
		return on.AllReduce(ctx, v.n)
	}
	return on.AllGather(ctx, v.n)
}

// registered registers the memory, tells the neighbours, does the operation, and takes
// it all back.
func (n *node) registered(ctx context.Context, v run, t *took) error {
	whole := n.memory.size
	n.memory.size = 4 * uint64(v.n)
	defer func() { n.memory.size = whole }()
	begun := time.Now()
	region, err := n.memory.register(n.e)
	if err != nil {
		return err
	}
	t.Register += time.Since(begun).Seconds()
	var x *ring.Vector
	if x, err = n.newVector(ctx, region); err != nil {
		return err
	}
	if err := operate(ctx, x, v); err != nil {
		return err
	}
	if err := x.Close(ctx); err != nil {
		return err
	}
	begun = time.Now()
	err = region.Close()
	t.Register += time.Since(begun).Seconds()
	return err
}

// hop has one node write to the next one alone, so many times.
func (n *node) hop(ctx context.Context, c command) (seconds float64, err error) {
	for range c.Iterations {
		d, err := n.vector.Hop(ctx, c.From, int(c.Size/4))
		if err != nil {
			return 0, err
		}
		seconds += d.Seconds()
	}
	return seconds / float64(c.Iterations), nil
}
