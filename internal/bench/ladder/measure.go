package ladder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// measurement is what a rung did in a round.
type measurement struct {
	gbps  float64
	ops   float64       // pages a second
	first time.Duration // until the first operation had ended
}

// memory is how much of it pages are drawn from, on each side.
const memory = 16 << 20

// measure moves pages drawn at random from one node to places drawn at random of
// another, and takes the time from the first submission to the last completion.
// Nodes, devices and connections are new: unless the rung warms them up, they are
// cold. A sum over the bytes would be the machine's work and not the engine's: the
// engine's tests compare bytes.
func measure(ctx context.Context, o Options, g rung, pages int) (m measurement, err error) {
	// What an interrupted node did to the other is not what happened.
	defer func(ctx context.Context) {
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}(ctx)
	p, err := open(ctx, o, g)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if g.warm {
		if err := p.to.Warm(ctx); err != nil {
			return m, err
		}
	}
	// What the slowest rung may take; nothing that works needs it.
	limit := max(10*time.Second, 20*o.Duration)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	begun := time.Now()
	if m.first, err = p.move(ctx, o, g, pages); err != nil {
		return m, err
	}
	took := time.Since(begun).Seconds()
	m.gbps, m.ops = float64(pages)*float64(o.PageSize)*8/1e9/took, float64(pages)/took
	return m, nil
}

// pair is two nodes, one of which writes.
type pair struct {
	fabric  *transfer.Embedded
	engines []*engine.Engine
	buffers []*verbs.Buffer
	local   *engine.Region
	remote  *engine.Target
	to      *engine.Peer
}

func open(ctx context.Context, o Options, g rung) (p *pair, err error) {
	p = new(pair)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.fabric, err = transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 2, NICs: g.nics, Gbps: o.Gbps}); err != nil {
		return p, err
	}
	var regions [2]*engine.Region
	for i := range 2 {
		// The target has nothing to do: RDMA needs no hand of its.
		eo, workers := engine.Options{}, 1
		if i == 0 {
			eo, workers = g.engine, g.workers
			if g.pinned {
				if eo.Workers, err = pin(g.workers); err != nil {
					return p, err
				}
			}
		}
		eo.Name = fmt.Sprintf("node%d", i)
		eo.Rails = engine.Specs(p.fabric.Node(i), transfer.Want{Peers: 1}, workers)
		e, err := engine.New(eo)
		if err != nil {
			return p, err
		}
		p.engines = append(p.engines, e)
		buf, err := verbs.NewBuffer(max(memory, o.PageSize), verbs.BufferOptions{Populate: true})
		if err != nil {
			return p, err
		}
		p.buffers = append(p.buffers, buf)
		if regions[i], err = e.Register(buf.Bytes()); err != nil {
			return p, err
		}
	}
	p.local = regions[0]
	d, l := engine.Pipe()
	type end struct {
		p   *engine.Peer
		err error
	}
	accepted := make(chan end, 1)
	target := p.engines[1] // p is a result: a return writes it
	go func() {
		to, err := target.Connect(ctx, l, false)
		accepted <- end{to, err}
	}()
	p.to, err = p.engines[0].Connect(ctx, d, true)
	theirs := <-accepted
	if err = errors.Join(err, theirs.err); err != nil {
		return p, err
	}
	if err = theirs.p.Grant("pages", regions[1], engine.Write); err != nil {
		return p, err
	}
	if p.remote, err = p.to.Target(ctx, "pages"); err != nil {
		return p, err
	}
	return p, p.up(ctx)
}

// up waits until every rail is connected.
func (p *pair) up(ctx context.Context) error {
	for {
		up := 0
		stats := p.engines[0].Stats()
		for _, s := range stats {
			up += s.Up
		}
		if up == len(stats) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d rails are connected: %w", up, len(stats), context.Cause(ctx))
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func (p *pair) close() error {
	var errs []error
	for _, e := range p.engines {
		errs = append(errs, e.Close())
	}
	for _, b := range p.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, p.fabric.Close())...)
}

// pin gives each worker a CPU of those that this process may use, in turn.
func pin(workers int) ([]engine.WorkerSpec, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("which CPUs this process may use: %w", err)
	}
	var cpus []int
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	specs := make([]engine.WorkerSpec, workers)
	for i := range specs {
		specs[i].CPUs = []int{cpus[i%len(cpus)]}
	}
	return specs, nil
}

// move submits operations of g.batch pages and waits for all, in the order of
// submission: so many at once that no rail ever waits for a submission.
func (p *pair) move(ctx context.Context, o Options, g rung, pages int) (first time.Duration, err error) {
	flight := make([]*engine.Transfer, max(2, 2*g.nics*depth/g.batch))
	if g.engine.Queue == 1 {
		flight = flight[:min(len(flight), fixed)]
	}
	rnd := rand.New(rand.NewPCG(1, uint64(pages)))
	places := uint32(max(memory, o.PageSize) / o.PageSize)
	index := make([]uint32, 4096+g.batch)
	for i := range index {
		index[i] = rnd.Uint32N(places)
	}
	begun := time.Now()
	ended := func(i int) error {
		t := flight[i]
		if t == nil {
			return nil
		}
		if err := t.Wait(ctx); err != nil {
			return err
		}
		if first == 0 {
			first = time.Since(begun)
		}
		t.Release()
		flight[i] = nil
		return nil
	}
	for i, left := 0, pages; left > 0; i++ {
		n := min(left, g.batch)
		left -= n
		if err := ended(i % len(flight)); err != nil {
			return first, err
		}
		from, to := rnd.IntN(4096), rnd.IntN(4096)
		if flight[i%len(flight)], err = p.to.Write(ctx, engine.Move{
			Local: p.local, Remote: p.remote, PageSize: uint64(o.PageSize),
			LocalPages: engine.Pages{Index: index[from : from+n]}, RemotePages: engine.Pages{Index: index[to : to+n]},
		}); err != nil {
			return first, err
		}
	}
	for i := range flight {
		if err := ended(i); err != nil {
			return first, err
		}
	}
	return first, nil
}

// depth is what an embedded rail's queue holds.
const depth = 128
