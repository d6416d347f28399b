package pages

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// SendOptions say what is moved. Zero fields take the default in the comment.
type SendOptions struct {
	Layout     Layout
	Iterations int  // rounds through all pages; default 1
	Read       bool // the receivers read the pages; default: they are written
	Divide     bool // each receiver gets a share of the pages; default: each gets all
}

func (o *SendOptions) check(addrs []string) error {
	if o.Iterations == 0 {
		o.Iterations = 1
	}
	wrong := func(option, format string, args ...any) error {
		return &transfer.OptionError{Option: option, Err: fmt.Errorf(format, args...)}
	}
	if err := o.Layout.Validate(); err != nil {
		return wrong("pages", "%w", err)
	}
	switch {
	case o.Iterations < 1 || o.Iterations > maxIterations:
		return wrong("iterations", "%d is not within 1 and %d", o.Iterations, maxIterations)
	case len(addrs) == 0:
		return wrong("peers", "to whom?")
	case o.Divide && o.Layout.Pages < len(addrs):
		return wrong("pages", "%d pages cannot be divided among %d receivers", o.Layout.Pages, len(addrs))
	}
	for i, a := range addrs {
		if slices.Contains(addrs[:i], a) {
			return wrong("peers", "%s is named twice", a)
		}
	}
	return nil
}

// sender has the pages, for all receivers.
type sender struct {
	n      *Node
	o      SendOptions
	memory *memory
	sums   pageSums
	took   time.Duration // of all epochs: of each, its slowest receiver
}

// To moves pages of this side's memory into the memory of one listener or several,
// which get them at the same time; a receiver that fails holds up no other. There is
// a result for each address, in their order, nil for those with whom no transfer
// began. The error is that of the only receiver, or a [GroupError]; where pages
// differ it is a [VerifyError].
//
// Options.Peers must have room for the addresses.
func (n *Node) To(ctx context.Context, addrs []string, o SendOptions) ([]*Result, error) {
	if err := o.check(addrs); err != nil {
		return nil, err
	}
	if len(addrs) > n.o.Peers {
		return nil, &transfer.OptionError{Option: "peers", Err: fmt.Errorf("%d receivers, the node was opened for %d", len(addrs), n.o.Peers)}
	}
	all := &sender{n: n, o: o, sums: newPageSums(o.Layout.Pages)}
	to := make([]*outgoing, len(addrs))
	errs := make([]error, len(addrs))
	all.join(ctx, addrs, to, errs)
	err := all.run(ctx, to, errs)
	each(to, func(i int, out *outgoing) {
		if errs[i] == nil {
			errs[i] = err
		}
		if errs[i] == nil || isVerify(errs[i]) {
			out.tell(StageDone)
			out.leave(letter{kind: kindBye})
		}
		errs[i] = out.close(errs[i])
	})
	closing := all.memory.close()
	results := make([]*Result, len(addrs))
	for i, out := range to {
		if out != nil {
			results[i] = out.result
		}
	}
	all.group(results)
	if err := together(errs); err != nil {
		return results, err
	}
	return results, closing
}

// each calls f for each receiver with whom a session is, at the same time.
func each(to []*outgoing, f func(i int, out *outgoing)) {
	var all sync.WaitGroup
	for i, out := range to {
		if out != nil {
			all.Go(func() { f(i, out) })
		}
	}
	all.Wait()
}

// join connects the receivers one after the other: where connecting waits for the
// other side, as on iWARP, no two sides then wait for each other in a circle.
func (a *sender) join(ctx context.Context, addrs []string, to []*outgoing, errs []error) {
	for i, addr := range addrs {
		if ctx.Err() != nil {
			errs[i] = ErrCancelled
			continue
		}
		c, err := control.Dial(ctx, addr, a.n.o.Credentials, a.n.o.Control)
		if err != nil {
			if errs[i] = err; ctx.Err() != nil {
				errs[i] = ErrCancelled
			}
			continue
		}
		s, err := a.n.connect(ctx, c, true, nil)
		s.result.Role = RoleSender
		if err != nil {
			errs[i] = s.close(err)
			continue
		}
		to[i] = &outgoing{session: s, all: a}
		to[i].keep() // others may not be there, and are waited for
	}
	a.share(to)
}

// group enters what all receivers have in common, where there are several.
func (a *sender) group(results []*Result) {
	if len(results) < 2 {
		return
	}
	g := &Group{Receivers: len(results), Seconds: a.took.Seconds()}
	for _, r := range results {
		if r != nil {
			r.Group = g
			g.Bytes += r.Bytes
			if r.Verified && r.Error == "" {
				g.Done++
			}
		}
	}
	if g.Seconds > 0 {
		g.PerSecond = float64(g.Bytes) / g.Seconds
	}
}

// share says which pages go to whom.
func (a *sender) share(to []*outgoing) {
	l := a.o.Layout
	for i, out := range to {
		if out == nil {
			continue
		}
		mine := l
		if a.o.Divide {
			out.first = i * l.Pages / len(to)
			mine.Pages = (i+1)*l.Pages/len(to) - out.first
		}
		out.layout, out.rounds = mine, a.o.Iterations
		out.result.layout(mine)
		out.sums = a.sums[4*out.first:][:4*mine.Pages]
	}
}

// run goes through the rounds with all receivers. Those that fail have their error in
// errs, and take no more part; the error it gives is this side's own.
func (a *sender) run(ctx context.Context, to []*outgoing, errs []error) (err error) {
	if together(errs) != nil && !slices.ContainsFunc(to, func(o *outgoing) bool { return o != nil }) {
		return nil
	}
	defer each(to, func(_ int, out *outgoing) { out.kept() })
	if a.memory, err = newMemory(ctx, a.n.o.Memory, a.o.Layout.Span()); err != nil {
		return err
	}
	if err := a.memory.register(a.n.engine); err != nil {
		return err
	}
	round := func(f func(*outgoing) error) {
		each(to, func(i int, out *outgoing) {
			if errs[i] == nil {
				out.kept()
				errs[i] = f(out)
				out.keep() // the others may take longer
			}
		})
	}
	round((*outgoing).agree)
	for epoch := range a.o.Iterations {
		if !slices.ContainsFunc(errs, func(err error) bool { return err == nil }) {
			return nil
		}
		round(func(out *outgoing) error {
			out.epoch = epoch
			out.tell(StageFill)
			return nil
		})
		if err := a.memory.fill(ctx, a.o.Layout, uint32(epoch)); err != nil {
			return err
		}
		if err := a.memory.sum(ctx, a.sums, a.o.Layout, nil, a.o.Layout.SourceSlot); err != nil {
			return err
		}
		round((*outgoing).round)
		slowest := time.Duration(0)
		for i, out := range to {
			if out != nil && errs[i] == nil {
				slowest = max(slowest, out.took)
			}
		}
		a.took += slowest
	}
	return nil
}

// together is the error of a transfer to several receivers.
func together(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch {
	case len(failed) == 0:
		return nil
	case len(errs) == 1:
		return failed[0]
	}
	return &GroupError{Errs: failed, Of: len(errs)}
}
