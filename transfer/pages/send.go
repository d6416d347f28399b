package pages

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
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

// outgoing is the sender's side of the transfer to one receiver.
type outgoing struct {
	*session
	all   *sender
	first int // page of the sender's that is the receiver's first
	mover *mover
	sums  pageSums      // of the receiver's pages
	took  time.Duration // the last epoch
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
	err := all.run(to, errs)
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
func (a *sender) run(to []*outgoing, errs []error) (err error) {
	if together(errs) != nil && !slices.ContainsFunc(to, func(o *outgoing) bool { return o != nil }) {
		return nil
	}
	if a.memory, err = newMemory(a.n.o.Memory, a.o.Layout.Span()); err != nil {
		return err
	}
	if err := a.memory.register(a.n.engine); err != nil {
		return err
	}
	round := func(f func(*outgoing) error) {
		each(to, func(i int, out *outgoing) {
			if errs[i] == nil {
				errs[i] = f(out)
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
		if err := a.memory.fill(a.o.Layout, uint32(epoch)); err != nil {
			return err
		}
		if err := a.memory.sum(a.sums, a.o.Layout, nil, a.o.Layout.SourceSlot); err != nil {
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

// agree proposes the transfer and learns where the pages go, or shows where they are.
func (s *outgoing) agree() error {
	s.tell(StageRegister)
	l := s.layout
	m := letter{kind: kindPropose, layout: l, iterations: uint32(s.rounds), read: s.all.o.Read,
		offset: uint64(l.SourceSlot(s.first)) * uint64(l.PageSize)}
	if m.read {
		if err := s.peer.Grant(granted, s.all.memory.region, engine.Read); err != nil {
			return err
		}
	} else {
		m.notices = uint32(notices(l, s.n.o.Batch))
	}
	if err := s.send(m); err != nil {
		return err
	}
	if _, err := s.next(kindAccept, 0); err != nil || m.read {
		return err
	}
	target, err := s.peer.Target(s.ctx, granted)
	if err != nil {
		return s.cause(err)
	}
	if target.Length() < l.Span() {
		return malformed("a region of %d bytes for pages that span %d", target.Length(), l.Span())
	}
	s.mover = newMover(s.session, l)
	s.mover.local, s.mover.remote, s.mover.offset = s.all.memory.region, target, m.offset
	return nil
}

// granted is the name of the region that pages are written into, or read from.
const granted = "pages"

// round moves an epoch's pages and learns how they compare. It is over when the peer
// has counted them all: on iWARP a write completes here before it is there.
func (s *outgoing) round() error {
	s.tell(StageTransfer)
	err := s.send(letter{kind: kindReady, epoch: uint32(s.epoch)})
	start := time.Now()
	if err == nil && s.mover != nil {
		err = s.mover.move()
	}
	if err == nil {
		_, err = s.next(kindArrived, s.epoch)
	}
	if err != nil {
		return err
	}
	s.took = time.Since(start)
	s.moving += s.took
	s.moved = s.layout.Bytes() * uint64(s.epoch+1)
	s.result.moved(s.layout, s.epoch+1, s.moving)
	if s.mover != nil {
		s.mover.enter()
	}
	s.tell(StageVerify)
	if err := s.sendSums(); err != nil {
		return err
	}
	m, err := s.next(kindVerdict, s.epoch)
	if err != nil {
		return err
	}
	bad := listedPages(m.listed)
	for i := range bad {
		bad[i] += s.first
	}
	s.result.verdict(bad, int(m.bad), s.sums.digest())
	if m.bad == 0 && m.digest != s.sums.digest() {
		return malformed("a verdict of no bad pages whose checksum is another")
	}
	return verifyError(bad, int(m.bad), s.layout)
}

// sendSums sends the checksums of the epoch's pages.
func (s *outgoing) sendSums() error {
	for first := 0; first < s.layout.Pages; first += sumsPerLetter {
		end := min(first+sumsPerLetter, s.layout.Pages)
		m := letter{kind: kindSums, epoch: uint32(s.epoch), first: uint32(first), sums: s.sums[4*first : 4*end]}
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// listedPages reads the page numbers of a verdict.
func listedPages(b []byte) []int {
	var pages []int
	for ; len(b) >= 4; b = b[4:] {
		pages = append(pages, int(binary.BigEndian.Uint32(b)))
	}
	return pages
}

func verifyError(bad []int, count int, l Layout) error {
	if count == 0 {
		return nil
	}
	return &VerifyError{Bad: count, Pages: l.Pages, First: bad}
}
