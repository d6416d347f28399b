package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Errors that errors.Is finds.
var (
	// ErrVerify: pages arrived that are not what was sent.
	ErrVerify = exchange.ErrVerification
	// ErrTimeout: the peer was there and nothing happened.
	ErrTimeout = errors.New("no progress")
	// ErrCancelled: this side's user ended the transfer.
	ErrCancelled = errors.New("interrupted by the user")
	// ErrLimit: the transfer wants more than the receiver is willing to give.
	ErrLimit = errors.New("over the receiver's limit")
)

// Options are what both sides of a transfer have. Zero fields take the default
// in the comment.
type Options struct {
	Rail    Opener          // what the pages go by; default RCOptions{}, the machine's only device
	Memory  dmabuf.Exporter // what this side's pages lie in; default nil, the process's own
	Timeout time.Duration   // how long nothing may happen; default 30 s
	Program string          // told to the peer, with its version
	Tell    func(Progress)  // called from the transfer's goroutine; must not block
}

func (o *Options) defaults() {
	if o.Rail == nil {
		o.Rail = RCOptions{}
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Tell == nil {
		o.Tell = func(Progress) {}
	}
}

// Stage is what a transfer is at.
type Stage string

// Stages, in order; the three in the middle come again with every iteration.
const (
	StageConnect  Stage = "connect"
	StageRegister Stage = "register"
	StageFill     Stage = "fill" // sender
	StageTransfer Stage = "transfer"
	StageVerify   Stage = "verify"
	StageDone     Stage = "done"
)

// Progress is what a transfer is at, told at the beginning of every stage and
// now and then while pages move.
type Progress struct {
	Stage     Stage
	Iteration int // from 0
	Bytes     uint64
	Total     uint64        // of all iterations
	Moving    time.Duration // spent moving pages so far
	Peer      string
}

// tellEvery is how often progress is told while pages move.
const tellEvery = 100 * time.Millisecond

// session is one side of a transfer: a rail, a peer, and what they say to each
// other. What comes in is given to the handler, which notes it; the side's main
// line acts on what was noted.
type session struct {
	options Options
	conn    *exchange.Conn
	rail    Rail
	peer    Peer
	handler handler

	user    context.Context // the caller's
	ctx     context.Context // ends with the user's, with the peer, or for silence
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	unwatch context.CancelFunc

	outbox *outbox
	in     message
	got    [64]Completion

	// Receives. The peer may send as many messages and notices as this side
	// has receives; what was polled is free again after the next poll, and is
	// given back to the peer by the creditAt.
	held, freed int
	creditAt    int
	credits     int // how many this side may send

	result *Result
	moving time.Duration // spent moving pages
	told   time.Time
}

// handler is what the two sides do with what comes in. It must not step.
type handler interface {
	done(id uint64)
	message(m *message) error
	notice(imm uint32) error
}

// IDs of operations: of batches of writes they are the batch's number.
const (
	idOutbox = 1 << 40 // and the slot
	idNotice = 1 << 41
)

// newSession takes over the conversation. It must be ended by close.
func newSession(ctx context.Context, o Options, conn *exchange.Conn, role string) *session {
	s := &session{options: o, conn: conn, user: ctx, creditAt: math.MaxInt}
	s.result = &Result{Schema: Schema, Role: role}
	s.result.Conditions.Kernel = kernelRelease()
	s.result.Conditions.Memory = memoryName(o.Memory)
	s.result.Conditions.Local, s.result.Conditions.Remote = conn.LocalAddr().String(), conn.RemoteAddr().String()
	s.result.Conditions.TimeoutSec = o.Timeout.Seconds()
	watched, unwatch := conn.Watch(ctx)
	s.unwatch = unwatch
	s.ctx, s.cancel = context.WithCancelCause(watched)
	s.timer = time.AfterFunc(o.Timeout, func() {
		s.cancel(fmt.Errorf("%w for %v (--timeout): the peer %s is connected and does not answer", ErrTimeout, o.Timeout, conn.Peer()))
	})
	return s
}

// connect opens the rail and connects it to the peer's.
func (s *session) connect(w Want) error {
	s.tell(Progress{Stage: StageConnect})
	rail, err := s.options.Rail.Open(w)
	if err != nil {
		return err
	}
	return s.use(rail)
}

// use connects a rail to the peer's and closes it with the session.
func (s *session) use(rail Rail) (err error) {
	s.rail = rail
	if s.peer, err = rail.Connect(s.ctx, s.conn); err != nil {
		return err
	}
	s.result.rail(rail.Info())
	s.outbox, err = newOutbox(rail)
	return err
}

// close ends the session: with a reason it tells the peer. The memory that the
// peer could write is unmapped only after the queue pairs are gone.
func (s *session) close(err error, memory *memory) error {
	if err != nil {
		if !isVerify(err) { // that, the peer knows
			err = s.conn.Fail(s.reason(err))
		}
		s.result.Error = err.Error()
	}
	s.timer.Stop()
	s.result.ControlSent, s.result.ControlReceived = s.conn.Traffic()
	var closing error
	if s.rail != nil {
		closing = s.rail.Close()
		if l, ok := s.rail.(linked); ok {
			s.result.LinkSent, s.result.LinkReceived = l.LinkTraffic()
		}
	}
	if s.outbox != nil && closing == nil {
		closing = s.outbox.close()
	}
	if closing == nil {
		closing = memory.close()
	}
	s.conn.Close()
	s.unwatch()
	s.cancel(context.Canceled)
	if err == nil {
		err = closing
	}
	return err
}

// reason finds the error that explains another. A queue pair that breaks is
// often only how the end of the peer shows first: the control connection knows
// better, in a moment.
func (s *session) reason(err error) error {
	var lost *LostError
	if errors.As(err, &lost) {
		select {
		case <-s.ctx.Done():
			err = context.Cause(s.ctx)
		case <-time.After(lostGrace):
		}
	}
	if s.user.Err() != nil {
		return ErrCancelled
	}
	if s.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return context.Cause(s.ctx)
	}
	return err
}

const lostGrace = 500 * time.Millisecond

// step handles what has completed, or waits until something has.
func (s *session) step() error {
	n, err := s.rail.Poll(s.got[:])
	if err != nil {
		return err
	}
	s.freed, s.held = s.freed+s.held, 0
	if n == 0 {
		if s.freed >= s.creditAt {
			return nil // the peer may be waiting for it
		}
		if err := s.rail.Wait(s.ctx); err != nil {
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
			return err
		}
		return nil
	}
	s.timer.Reset(s.options.Timeout)
	for i := range s.got[:n] {
		if err := s.handle(&s.got[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) handle(c *Completion) error {
	switch c.Kind {
	case Done:
		switch {
		case c.ID&idOutbox != 0:
			s.outbox.free(int(c.ID &^ idOutbox))
		case c.ID&idNotice == 0:
			s.handler.done(c.ID)
		}
		return nil
	case Failed, Lost:
		if errors.Is(c.Err, ErrFlushed) {
			return nil // the cause comes too, before it or after
		}
		return c.Err
	case Notice:
		s.held++
		return s.handler.notice(c.Imm)
	case Message:
		s.held++
		s.result.MessagesReceived += uint64(len(c.Data))
		if err := s.in.decode(c.Data); err != nil {
			return err
		}
		return s.handler.message(&s.in)
	}
	return fmt.Errorf("rail gave a completion of kind %d", c.Kind)
}

// until steps until the condition holds.
func (s *session) until(holds func() bool) error {
	for !holds() {
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

// post posts all operations, stepping while there is no room.
func (s *session) post(ops []Op) error {
	for {
		n, err := s.rail.Post(ops)
		if err != nil {
			return err
		}
		if ops = ops[n:]; len(ops) == 0 {
			return nil
		}
		if err := s.step(); err != nil {
			return err
		}
	}
}

// send sends a message. Those that need a receive which the peer counts wait
// for one.
func (s *session) send(m *message, counted bool) error {
	var slot int
	err := s.until(func() bool {
		if counted && s.credits == 0 {
			return false
		}
		var ok bool
		slot, ok = s.outbox.take()
		return ok
	})
	if err != nil {
		return err
	}
	if counted {
		s.credits--
	}
	op := [1]Op{{Kind: OpSend, Peer: s.peer, Local: s.outbox.write(slot, m), ID: idOutbox | uint64(slot)}}
	s.result.MessagesSent += uint64(op[0].Local.Length)
	return s.post(op[:])
}

// tell passes progress on; while pages move, only now and then.
func (s *session) tell(p Progress) {
	if p.Stage == StageTransfer && p.Bytes > 0 && p.Bytes < p.Total {
		if time.Since(s.told) < tellEvery {
			return
		}
	}
	s.told = time.Now()
	p.Moving, p.Peer = s.moving, s.conn.Peer()
	s.options.Tell(p)
}

// outbox is the memory that messages are sent from.
type outbox struct {
	buf    *verbs.Buffer
	region *Region
	used   [outboxSlots]bool
}

const outboxSlots = 8

func newOutbox(rail Rail) (*outbox, error) {
	buf, err := verbs.NewBuffer(outboxSlots*MessageSize, verbs.BufferOptions{})
	if err != nil {
		return nil, err
	}
	region, err := rail.Register(buf.Bytes())
	if err != nil {
		buf.Close()
		return nil, err
	}
	return &outbox{buf: buf, region: region}, nil
}

func (b *outbox) take() (int, bool) {
	for i := range b.used {
		if !b.used[i] {
			b.used[i] = true
			return i, true
		}
	}
	return 0, false
}

func (b *outbox) free(slot int) { b.used[slot] = false }

func (b *outbox) busy() bool { return b.used != [outboxSlots]bool{} }

func (b *outbox) write(slot int, m *message) Local {
	at := slot * MessageSize
	n := len(m.encode(b.buf.Bytes()[at : at : at+MessageSize]))
	return b.region.At(uint64(at), uint32(n))
}

// close frees the memory; the rail is closed already.
func (b *outbox) close() error { return b.buf.Close() }
