package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// Run takes a node's part. Node 0 gives the report, others nil.
func Run(ctx context.Context, o Options, p Place) (*Report, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := o.check(len(p.Peers)); err != nil {
		return nil, err
	}
	if p.Rank > 0 {
		return nil, follow(ctx, o, p)
	}
	l, err := control.Listen(ctx, p.Peers[0], p.Credentials, controlOptions(o, p))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return lead(ctx, o, p, l)
}

// leader is node 0.
type leader struct {
	Options
	node  *node
	star  *star
	run   uint64 // numbers vectors
	r     *Report
	done  int
	total int
}

func lead(ctx context.Context, o Options, p Place, listener *control.Listener) (r *Report, err error) {
	n, err := newNode(p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close(ctx)) }()
	l := &leader{Options: o, node: n, r: &Report{Schema: Schema}, total: len(o.Nodes) * len(o.Operations) * len(o.Sizes)}
	if l.star, err = gather(ctx, o, p, listener, n.about); err != nil {
		return nil, err
	}
	listener.Close()
	defer func() { l.star.end(err) }()
	for rank, a := range l.star.about {
		if a.Kind != n.about.Kind {
			return nil, fmt.Errorf("%s has %s NICs and node 0 %s: rails are of one kind", l.star.name(rank), a.Kind, n.about.Kind)
		}
	}
	for i, k := range o.Nodes {
		if err := l.count(ctx, k, i == len(o.Nodes)-1); err != nil {
			return nil, err
		}
	}
	l.r.complete(o, l.star.about)
	return l.r, nil
}

func (l *leader) ask(ctx context.Context, nodes int, c command) ([]reply, error) {
	c.Nodes, c.Timeout = nodes, l.Timeout
	return l.star.ask(ctx, nodes, c, l.node.do)
}

// count measures with so many nodes.
func (l *leader) count(ctx context.Context, nodes int, last bool) error {
	most := l.Sizes[len(l.Sizes)-1]
	opened, err := l.ask(ctx, nodes, command{Do: "open", Bytes: most})
	if err != nil {
		return err
	}
	var addrs []string
	for _, r := range opened {
		addrs = append(addrs, r.Addr)
	}
	l.r.Conditions.rails(l.node.e.Rails())
	if _, err := l.ask(ctx, nodes, command{Do: "join", Addrs: addrs}); err != nil {
		return err
	}
	for _, op := range l.Operations {
		for _, size := range l.Sizes {
			if l.Tell != nil {
				l.Tell(Progress{l.done, l.total, fmt.Sprintf("%s of %d bytes among %d nodes", op, size, nodes)})
			}
			l.done++
			if err := l.measure(ctx, nodes, op, size); err != nil {
				return err
			}
		}
	}
	if last {
		if err := l.placement(ctx, nodes, most); err != nil {
			return err
		}
	}
	_, err = l.ask(ctx, nodes, command{Do: "close"})
	return err
}

// The most operations of a measurement, and how many say how many these are.
const (
	maxIterations = 100_000
	trial         = 2
)

// measure takes the times of one operation and size by every path, in alternating
// rounds. Vectors are compared before and after.
func (l *leader) measure(ctx context.Context, nodes int, op string, size uint64) error {
	one := func(path string, iterations int, verify bool) (t took, err error) {
		c := command{Do: "run", Path: path, Operation: op, Size: size, Iterations: iterations}
		if verify {
			l.run++
			c.Run = l.run
		}
		replies, err := l.ask(ctx, nodes, c)
		if err != nil {
			return t, fmt.Errorf("%s by %s among %d nodes: %w", op, path, nodes, err)
		}
		return together(replies, iterations), nil
	}
	verify := func(path string) error {
		if l.Unverified {
			return nil
		}
		_, err := one(path, 1, true)
		return err
	}
	iterations := make([]int, len(paths))
	rounds := make([][]took, len(paths))
	for i, path := range paths {
		if err := verify(path); err != nil {
			return err
		}
		t, err := one(path, trial, l.Unverified)
		if err != nil {
			return err
		}
		iterations[i] = max(1, min(maxIterations, int(l.Duration.Seconds()/max(t.Total, 1e-9))))
	}
	for range l.Rounds {
		for i, path := range paths {
			t, err := one(path, iterations[i], false)
			if err != nil {
				return err
			}
			rounds[i] = append(rounds[i], t)
		}
	}
	for i, path := range paths {
		if err := verify(path); err != nil {
			return err
		}
		l.r.Measurements = append(l.r.Measurements, measurement(op, path, nodes, size, iterations[i], rounds[i]))
	}
	return nil
}

// together is what an operation took: as long as the slowest node's; the parts are
// means.
func together(replies []reply, iterations int) (t took) {
	n, k := float64(iterations), float64(len(replies)*iterations)
	for _, r := range replies {
		t.Total = max(t.Total, r.Took.Total/n)
		t.Wait += r.Took.Wait / k
		t.Copy += r.Took.Copy / k
		t.Sum += r.Took.Sum / k
		t.Register += r.Took.Register / k
	}
	return t
}

// placement has each hop move the largest size alone, and asks what went by which rail.
func (l *leader) placement(ctx context.Context, nodes int, size uint64) error {
	// As often as fills the time, by the first hop's first try; medians count.
	iterations := 1
	hop := func(from int) (float64, error) {
		replies, err := l.ask(ctx, nodes, command{Do: "hop", From: from, Size: size, Iterations: iterations})
		if err != nil {
			return 0, fmt.Errorf("the hop from node %d: %w", from, err)
		}
		return replies[from].Took.Total, nil
	}
	seconds, err := hop(0)
	if err != nil {
		return err
	}
	iterations = max(1, min(maxIterations, int(l.Duration.Seconds()/max(seconds, 1e-9))))
	rates := make([][]float64, nodes)
	for range l.Rounds {
		for from := range nodes {
			if seconds, err = hop(from); err != nil {
				return err
			}
			rates[from] = append(rates[from], algorithmBandwidth(size, seconds))
		}
	}
	for from := range nodes {
		l.r.Hops = append(l.r.Hops, Hop{From: from, To: (from + 1) % nodes, GBs: bench.Median(rates[from]), Most: slices.Max(rates[from])})
	}
	replies, err := l.ask(ctx, nodes, command{Do: "rails"})
	for rank, r := range replies {
		for _, rail := range r.Rails {
			rail.Node = rank
			l.r.Rails = append(l.r.Rails, rail)
		}
	}
	return err
}
