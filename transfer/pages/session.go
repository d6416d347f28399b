package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/fabriclink"
	"github.com/peerdirect/peerdirect/internal/uname"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// session is a transfer with one peer, on one side.
type session struct {
	n       *Node
	control *control.Conn
	peer    *engine.Peer // nil until connected
	link    *device.Link // between fabrics of two processes, else nil
	from    string       // the peer's address, for people

	user    context.Context         // the caller's
	unwatch func() bool             // of the user's end
	ctx     context.Context         // ends with the user's, with the peer, or for silence
	cancel  context.CancelCauseFunc // also the end of the reader
	timer   *time.Timer
	letters chan *letter
	reading sync.WaitGroup

	result      *Result
	said, heard atomic.Uint64 // bytes of letters
	layout      Layout
	rounds      int
	moving      time.Duration // spent moving pages
	moved       uint64        // bytes
	epoch       int
	stage       Stage // as it was told last, and when
	told        time.Time
	rate        rateLog
	beaten      time.Time // when the peer was told of work last
	rest        func()    // ends keep's telling; nil if there is none
	before      []engine.RailStats
}

const (
	connectTime = 15 * time.Second // for the rails to connect
	partTime    = 2 * time.Second  // for the peer to take the last word
)

// connect makes a session of a control connection, which it takes over. The
// session is there in any case, and is to be closed.
func (n *Node) connect(ctx context.Context, c *control.Conn, dialled bool, refused error) (*session, error) {
	s := &session{n: n, control: c, from: c.RemoteAddr().String(), letters: make(chan *letter, 16), rate: newRateLog(), before: n.engine.Stats()}
	s.result = &Result{Schema: Schema}
	k := &s.result.Conditions
	k.Kernel, k.Memory = uname.Release(), n.hello().Memory
	k.Local, k.Remote, k.Peer = c.LocalAddr().String(), s.from, c.Peer()
	k.TimeoutSec, k.Batch, k.Depth = n.o.Timeout.Seconds(), n.o.Batch, n.o.Depth
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.follow(ctx)
	s.timer = time.AfterFunc(n.o.Timeout, func() {
		s.cancel(fmt.Errorf("%w for %v (--timeout): the peer %s is connected and does not answer", ErrTimeout, n.o.Timeout, c))
	})
	s.tell(StageConnect)
	return s, s.meet(dialled, refused)
}

// follow has the session end with a user's context, and with the one before no more.
func (s *session) follow(ctx context.Context) {
	if s.unwatch != nil {
		s.unwatch()
	}
	s.user, s.unwatch = ctx, context.AfterFunc(ctx, func() { s.cancel(ErrCancelled) })
}

func (s *session) meet(dialled bool, refused error) error {
	within, cancel := context.WithTimeoutCause(s.ctx, min(connectTime, s.n.o.Timeout),
		fmt.Errorf("%w in %v: the peer %s has proved itself, and its NICs were not connected with this side's", ErrTimeout, min(connectTime, s.n.o.Timeout), s.control))
	defer cancel()
	theirs, err := s.n.greet(within, s.control, dialled, refused)
	if err != nil {
		return err
	}
	k := &s.result.Conditions
	k.PeerMemory = theirs.Memory
	s.result.rails(s.n.engine.Rails()[:min(theirs.NICs, len(s.n.engine.Rails()))])
	if s.n.embedded != nil && theirs.Fabric != s.n.embedded.ID() {
		if s.link, err = fabriclink.Join(within, s.control, typeLink, dialled, s.n.embedded.Fabric()); err != nil {
			return err
		}
	}
	if s.peer, err = s.n.engine.Connect(within, engine.Over(s.control), dialled); err != nil {
		if cause := context.Cause(within); within.Err() != nil && s.user.Err() == nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	s.reading.Go(s.read)
	s.timer.Reset(s.n.o.Timeout)
	return nil
}

// read takes the peer's letters until it is gone, or the session has ended.
func (s *session) read() {
	for {
		b, err := s.peer.Receive(s.ctx)
		if err != nil {
			s.cancel(err)
			return
		}
		s.alive()
		m := new(letter)
		if err := m.decode(b); err != nil {
			s.cancel(err)
			return
		}
		s.heard.Add(uint64(len(b)))
		switch m.kind {
		case kindFailed:
			s.cancel(&PeerError{s.from, printable(m.reason)})
			return
		case kindAlive:
			continue
		}
		select {
		case s.letters <- m:
		case <-s.ctx.Done():
			return
		}
	}
}

// alive notes that something has happened.
func (s *session) alive() { s.timer.Reset(s.n.o.Timeout) }

// send sends a letter.
func (s *session) send(m letter) error {
	b := m.encode(make([]byte, 0, 64))
	if err := s.peer.Send(s.ctx, b); err != nil {
		return s.cause(err)
	}
	s.said.Add(uint64(len(b)))
	return nil
}

// next waits for the next letter, which must be of the kind, and of the epoch. One that
// has come counts, though the peer has left since.
func (s *session) next(kind letterKind, epoch int) (*letter, error) {
	var m *letter
	select {
	case m = <-s.letters:
	case <-s.ctx.Done():
		select {
		case m = <-s.letters:
		default:
			return nil, context.Cause(s.ctx)
		}
	}
	if m.kind != kind || int(m.epoch) != epoch {
		return nil, malformed("%v of epoch %d where %v of epoch %d was due", m.kind, m.epoch, kind, epoch)
	}
	return m, nil
}

// cause finds the error that explains another: what ended the session, if it has.
func (s *session) cause(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// reason is the error as the caller gets it.
func (s *session) reason(err error) error {
	if s.user.Err() != nil && !isVerify(err) {
		return ErrCancelled
	}
	return err
}

// close ends the session: with a reason it tells the peer. From then on nothing of
// the peer lands.
func (s *session) close(err error) error {
	if err != nil {
		err = s.reason(err)
		s.result.Error = err.Error()
		s.tell(StageFailed)
	}
	s.timer.Stop()
	if s.peer != nil {
		if err != nil && !isVerify(err) && s.peer.Err() == nil && !errors.As(err, new(*PeerError)) {
			s.leave(letter{kind: kindFailed, reason: err.Error()})
		}
		s.peer.Close()
	} else {
		s.control.Close()
	}
	s.unwatch()
	s.cancel(context.Canceled)
	s.reading.Wait()
	r := s.result
	r.MessagesSent, r.MessagesReceived = s.said.Load(), s.heard.Load()
	r.ControlSent, r.ControlReceived = s.control.Traffic()
	r.counted(s.before, s.n.engine.Stats())
	if s.link != nil {
		s.link.Close()
		r.LinkSent, r.LinkReceived = s.link.Traffic()
	}
	return err
}

// leave says a last word and waits until the peer, which leaves when it has it, has
// left. That it is gone is all that matters.
func (s *session) leave(m letter) {
	ctx, cancel := context.WithTimeout(context.Background(), partTime)
	defer cancel()
	b := m.encode(nil)
	if s.peer.Send(ctx, b) != nil {
		return
	}
	s.said.Add(uint64(len(b)))
	select {
	case <-s.peer.Gone():
	case <-ctx.Done():
	}
}

// tell passes progress on; while pages move, only now and then.
func (s *session) tell(stage Stage) {
	p := Progress{Peer: s.from, Stage: stage, Iteration: s.epoch, Bytes: s.moved, Total: s.layout.Bytes() * uint64(s.rounds), Moving: s.moving}
	if stage == s.stage && p.Bytes < p.Total && time.Since(s.told) < tellEvery {
		return
	}
	s.stage, s.told = stage, time.Now()
	s.n.teller.say(p)
}
