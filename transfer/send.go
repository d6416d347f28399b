package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// SendOptions are the sender's. Zero fields take the default in the comment.
type SendOptions struct {
	Options
	Layout     Layout
	Iterations int           // rounds through all pages; default 1
	Batch      int           // writes to a posting; default 16
	Depth      int           // writes in flight; default 64
	Window     time.Duration // how long to wait for the listener to be there; default exchange.DefaultWindow
}

func (o *SendOptions) defaults() error {
	o.Options.defaults()
	if o.Iterations == 0 {
		o.Iterations = 1
	}
	if o.Batch == 0 {
		o.Batch = 16
	}
	if o.Depth == 0 {
		o.Depth = 64
	}
	switch {
	case o.Iterations < 1 || o.Iterations > maxIterations:
		return &OptionError{Option: "iterations", Err: fmt.Errorf("%d is not within 1 and %d", o.Iterations, maxIterations)}
	case o.Batch < 1 || o.Batch > maxBatch:
		return &OptionError{Option: "batch", Err: fmt.Errorf("%d is not within 1 and %d", o.Batch, maxBatch)}
	case o.Depth < o.Batch || o.Depth > maxDepth:
		return &OptionError{Option: "depth", Err: fmt.Errorf("%d is not within the batch, %d, and %d", o.Depth, o.Batch, maxDepth)}
	}
	if err := o.Layout.Validate(); err != nil {
		return &OptionError{Option: "pages", Err: err}
	}
	return nil
}

const (
	maxBatch = 4096
	maxDepth = 1 << 15
	// spare is how many places of a send queue are kept for notices and
	// messages.
	spare = 16
)

// To sends pages of this side's memory into the memory of a listener. The
// result is there as well when pages differ, and then the error is ErrVerify;
// of a transfer that failed it is what was known by then.
func To(ctx context.Context, addr string, o SendOptions) (*Result, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	// A wrong device is this side's own affair: say so before the peer is
	// troubled.
	probe, err := o.Rail.Open(Want{Depth: o.Depth})
	if err != nil {
		return nil, err
	}
	own := hello{Kind: o.Rail.Kind(), NICs: probe.Info().NICs, Queues: probe.Info().Queues, Memory: memoryName(o.Memory)}
	if err := errors.Join(tryMemory(probe, o.Memory), probe.Close()); err != nil {
		return nil, err
	}
	conn, err := exchange.DialOptions{Window: o.Window}.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	greeting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	want, theirs, err := greet(greeting, conn, o.Program, own)
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ErrCancelled
		}
		return nil, err
	}
	want.Depth = o.Depth
	cancel()
	s := newSender(newSession(ctx, o.Options, conn, RoleSender), o)
	s.result.Conditions.PeerMemory = theirs.Memory
	err = s.connect(want)
	if err == nil {
		err = s.run()
	}
	err = s.close(err, s.memory)
	return s.result, err
}

// sender is the side that has the pages.
type sender struct {
	*session
	o      SendOptions
	memory *memory
	region *Region
	sums   pageSums
	writes *Writes

	ops      []Op
	batches  []batch
	vacant   []int // batches that are not in use
	inFlight int   // writes
	placed   int   // pages whose writes completed, not yet in a notice

	epoch   uint32
	started time.Time // of the epoch's writes
	moved   uint64    // bytes, of all epochs
	latency *hdrhistogram.Histogram
	rate    rateLog

	accepted *message // the peer's answers
	arrived  bool
	verdict  *message
	bye      bool
}

// batch is some writes that were posted together.
type batch struct {
	posted time.Time
	left   int // writes that have not completed
	pages  int
}

func newSender(base *session, o SendOptions) *sender {
	s := &sender{session: base, o: o, latency: newHistogram(), rate: newRateLog()}
	s.handler = s
	s.result.layout(o.Layout)
	s.result.Conditions.Batch, s.result.Conditions.Depth = o.Batch, o.Depth
	s.ops = make([]Op, o.Batch)
	s.batches = make([]batch, o.Depth)
	for i := range s.batches {
		s.vacant = append(s.vacant, i)
	}
	return s
}

func (s *sender) run() error {
	if err := s.agree(); err != nil {
		return err
	}
	for i := range s.o.Iterations {
		s.epoch = uint32(i)
		s.tell(s.progress(StageFill))
		if err := s.fill(); err != nil {
			return err
		}
		s.tell(s.progress(StageTransfer))
		if err := s.move(); err != nil {
			return err
		}
		s.tell(s.progress(StageVerify))
		if err := s.compare(); isVerify(err) {
			s.part()
			return err
		} else if err != nil {
			return err
		}
	}
	s.tell(s.progress(StageDone))
	s.part()
	return nil
}

// fill writes the epoch's pages, and sums what then is in the memory.
func (s *sender) fill() error {
	if err := s.memory.fill(s.o.Layout, s.epoch); err != nil {
		return err
	}
	return s.memory.sum(s.sums, s.o.Layout, nil, s.o.Layout.SourceSlot)
}

// agree proposes the transfer and learns where the pages go.
func (s *sender) agree() (err error) {
	l := s.o.Layout
	s.tell(s.progress(StageRegister))
	if s.memory, err = newMemory(s.o.Memory, l.Span()); err != nil {
		return err
	}
	if s.region, err = s.memory.register(s.rail); err != nil {
		return err
	}
	s.sums = newPageSums(l.Pages)
	err = s.send(&message{
		kind: kindPropose, layout: l, iterations: uint32(s.o.Iterations), receives: uint32(s.rail.Receives()),
	}, false)
	if err == nil {
		err = s.until(func() bool { return s.accepted != nil })
	}
	if err != nil {
		return err
	}
	s.credits = int(s.accepted.receives) - 1 // the proposal took one
	if s.accepted.region.Length < l.Span() {
		return malformed("a region of %d bytes for pages that span %d", s.accepted.region.Length, l.Span())
	}
	if keys, nics := len(s.accepted.region.Keys), s.rail.Info().NICs; keys != nics {
		return malformed("a region with %d keys for %d NICs", keys, nics)
	}
	s.writes, err = Pages(s.region, s.peer, s.accepted.region, l)
	return err
}

// move writes all pages and tells the peer of those that are placed: as an
// immediate, after the completion of their writes, however many came to be
// placed meanwhile. It is over when the peer has counted them all: on iWARP a
// write completes here before it is there.
func (s *sender) move() error {
	s.arrived = false
	if err := s.send(&message{kind: kindBegin, epoch: s.epoch}, true); err != nil {
		return err
	}
	s.writes.Rewind()
	s.started = time.Now()
	for more := true; more || s.inFlight > 0 || s.placed > 0; {
		for more && s.inFlight+s.o.Batch <= s.o.Depth {
			n, err := s.postBatch()
			if err != nil {
				return err
			}
			more = n > 0
		}
		if s.placed > 0 && s.credits > 0 {
			if err := s.postNotice(); err != nil {
				return err
			}
			continue
		}
		if more || s.inFlight > 0 || s.placed > 0 {
			if err := s.step(); err != nil {
				return err
			}
		}
	}
	if err := s.until(func() bool { return s.arrived }); err != nil {
		return err
	}
	took := time.Since(s.started)
	s.moving += took
	s.result.moved(s.o.Layout, int(s.epoch)+1, s.moving)
	s.result.Rate, s.result.Latency = s.rate.rate(), latencyOf(s.latency)
	return nil
}

func (s *sender) postBatch() (int, error) {
	slot := s.vacant[len(s.vacant)-1]
	n, pages := s.writes.Fill(s.ops, uint64(slot))
	if n == 0 {
		return 0, nil
	}
	s.vacant = s.vacant[:len(s.vacant)-1]
	s.batches[slot] = batch{posted: time.Now(), left: n, pages: pages}
	s.inFlight += n
	s.result.Writes += uint64(n)
	return n, s.post(s.ops[:n])
}

func (s *sender) postNotice() error {
	op := [1]Op{{Kind: OpNotify, Peer: s.peer, Imm: notice(s.epoch, s.placed), ID: idNotice}}
	s.placed = 0
	s.credits--
	s.result.Notices++
	return s.post(op[:])
}

// done counts a write that completed.
func (s *sender) done(id uint64) {
	b := &s.batches[id]
	b.left--
	s.inFlight--
	if b.left > 0 {
		return
	}
	now := time.Now()
	bytes := uint64(b.pages) * uint64(s.o.Layout.PageSize)
	s.latency.RecordValue(now.Sub(b.posted).Nanoseconds())
	s.rate.add(s.moving+now.Sub(s.started), bytes)
	s.placed += b.pages
	s.moved += bytes
	s.vacant = append(s.vacant, int(id))
	s.tell(s.progress(StageTransfer))
}

// compare sends the checksums and waits for what the peer makes of them.
func (s *sender) compare() error {
	s.verdict = nil
	for first := 0; first < s.o.Layout.Pages; first += sumsPerMessage {
		end := min(first+sumsPerMessage, s.o.Layout.Pages)
		m := message{kind: kindSums, epoch: s.epoch, first: uint32(first), sums: s.sums[4*first : 4*end]}
		if err := s.send(&m, true); err != nil {
			return err
		}
	}
	if err := s.until(func() bool { return s.verdict != nil }); err != nil {
		return err
	}
	bad := listedPages(s.verdict.listed)
	s.result.verdict(bad, int(s.verdict.bad), s.sums.digest())
	if s.verdict.bad == 0 && s.verdict.digest != s.sums.digest() {
		return malformed("a verdict of no bad pages whose checksum is another")
	}
	return verifyError(bad, int(s.verdict.bad), s.o.Layout)
}

// part says that it is over, and leaves when the peer says so too. All that
// matters was said before: that the peer leaves first is no failure.
func (s *sender) part() {
	if s.send(&message{kind: kindBye}, true) == nil {
		s.until(func() bool { return s.bye })
	}
}

func (s *sender) message(m *message) error {
	keep := *m
	keep.listed = append([]byte(nil), m.listed...)
	switch {
	case m.kind == kindAccept && s.accepted == nil:
		s.accepted = &keep
	case m.kind == kindCredit && s.accepted != nil:
		if s.credits += int(m.credit); s.credits > int(s.accepted.receives) {
			return malformed("more credit than the %d receives it has", s.accepted.receives)
		}
	case m.kind == kindArrived && m.epoch == s.epoch && !s.arrived:
		s.arrived = true
	case m.kind == kindVerdict && m.epoch == s.epoch && s.verdict == nil:
		s.verdict = &keep
	case m.kind == kindBye:
		s.bye = true
	default:
		return malformed("%v at the wrong time", m.kind)
	}
	return nil
}

func (s *sender) notice(uint32) error { return malformed("a notice to the sender") }

func (s *sender) progress(stage Stage) Progress {
	return Progress{Stage: stage, Iteration: int(s.epoch), Bytes: s.moved, Total: s.o.Layout.Bytes() * uint64(s.o.Iterations)}
}

// VerifyError names pages that arrived otherwise than they were sent.
type VerifyError struct {
	Bad   int   // how many
	Pages int   // of so many
	First []int // the first of them
}

func (e *VerifyError) Error() string {
	list := fmt.Sprint(e.First[:min(len(e.First), 8)])
	if e.Bad > 8 {
		list += " …"
	}
	return fmt.Sprintf("%d of %d pages differ from what was sent: %s", e.Bad, e.Pages, list)
}

func (e *VerifyError) Unwrap() error { return ErrVerify }

func verifyError(bad []int, count int, l Layout) error {
	if count == 0 {
		return nil
	}
	return &VerifyError{Bad: count, Pages: l.Pages, First: bad}
}

func isVerify(err error) bool { return errors.As(err, new(*VerifyError)) }
