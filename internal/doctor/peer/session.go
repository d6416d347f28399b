package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs"
)

// run is one test, at one side. Rail and steps belong to the goroutine that runs it;
// another one reads the control connection.
type run struct {
	o      Options
	result *Result
	seed   uint64 // of all patterns; the dialler's

	ctx    context.Context // ends with the caller's, with the control connection, and with the other side's error
	cancel context.CancelCauseFunc
	stop   func() bool // ends the watch on the caller's context

	rail   transfer.Rail
	memory *verbs.Buffer
	region *transfer.Region
	peer   transfer.Peer
	theirs transfer.Descriptor
	offer  []byte // the peer's

	conn      *control.Conn
	link      *device.Link
	inbox     chan message // closed by the reader when it ends
	listening bool         // the reader has begun
	reading   sync.WaitGroup

	at      Name     // the step that is under way
	before  counters // when it began
	failed  *StepError
	got     [16]transfer.Completion
	done    int      // operations that have completed
	notices []uint32 // that nobody has asked for yet
	broken  error    // why the rail's peer is lost
}

func newRun(ctx context.Context, role string, o Options) *run {
	o.defaults()
	r := &run{o: o, result: newResult(role), inbox: make(chan message, 64)}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.stop = context.AfterFunc(ctx, func() { r.cancel(ErrCancelled) })
	return r
}

// step runs a step, if none has failed, within its deadline.
func (r *run) step(name Name, f func(context.Context, *Step) error) error {
	st := r.result.step(name)
	r.at = name
	st.began, st.Verdict = time.Now(), OK
	r.before = count(r.o.Root, &r.result.Local)
	limit := r.o.limit(name)
	ctx, cancel := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("%w for %v", ErrTimeout, limit))
	err := why(ctx, f(ctx, st))
	if err == nil && r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	cancel()
	if err != nil {
		return r.fail(name, err)
	}
	r.end(st)
	return nil
}

// end tells of a step that is over.
func (r *run) end(st *Step) {
	st.Seconds = time.Since(st.began).Seconds()
	if st.Verdict == Warn {
		r.result.Verdict = Warn
	}
	r.o.Tell(r.result, st)
}

// fail notes the step that failed.
func (r *run) fail(name Name, err error) error {
	st := r.result.step(name)
	st.Verdict, st.Remedy = Fail, remedy(name, err)
	st.Summary = plain(short(err))
	st.saw(r.before.rose(count(r.o.Root, &r.result.Local))...)
	var p *PeerError
	if errors.As(err, &p) {
		st.PeerError = p.Text
	}
	r.failed = &StepError{Step: name, Err: err, Remedy: st.Remedy}
	return r.failed
}

// receive takes the next message off the connection.
func (r *run) receive(ctx context.Context) (message, error) {
	t, b, err := r.conn.Receive(ctx)
	switch {
	case err != nil:
		return message{}, err
	case t != typeMessage:
		return message{}, malformed("a message of %v", t)
	}
	return readMessage(b)
}

// listen begins to read.
func (r *run) listen() {
	r.listening = true
	r.reading.Go(r.read)
}

// read takes the peer's messages until the conversation is over.
func (r *run) read() {
	for {
		m, err := r.receive(r.ctx)
		if err != nil {
			r.cancel(err)
			close(r.inbox)
			return
		}
		select {
		case r.inbox <- m:
		default:
			r.cancel(malformed("more messages than were asked for"))
		}
		if m.Error != nil { // its last word
			r.cancel(m.Error.err())
			close(r.inbox)
			return
		}
	}
}

// tell sends a message.
func (r *run) tell(m message) error {
	b, err := m.bytes()
	if err != nil {
		return err
	}
	err = r.conn.Send(typeMessage, b)
	if err != nil && r.listening {
		// The conversation is over, and what came before that says more.
		r.reading.Wait()
		if cause := context.Cause(r.ctx); cause != nil {
			err = cause
		}
	}
	return err
}

// hear waits for the next message, which must be of the kind and step given.
func (r *run) hear(ctx context.Context, k kind, step Name) (message, error) {
	select {
	case m, ok := <-r.inbox:
		switch {
		case !ok:
			return message{}, context.Cause(r.ctx)
		case m.Error != nil:
			r.last(m)
			return message{}, m.Error.err()
		case m.Kind != k || m.Step != step:
			return message{}, malformed("%s of step %q where %s of %q was due", m.Kind, m.Step, k, step)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

// last notes what the other side said of a step as it failed, or of another's failure.
func (r *run) last(m message) {
	st := r.result.step(m.Step)
	if st == nil {
		if st = r.result.step(r.at); st == nil {
			return
		}
	}
	if m.Error != nil {
		st.PeerError = m.Error.Text
	}
	st.PeerEvidence = append(st.PeerEvidence, m.Evidence...)
}

// finish tells the other side of a failure that was this side's first, hears its last
// word, and frees everything. The error is the step's.
func (r *run) finish() (err error) {
	if r.failed != nil {
		err = r.failed
		r.result.Verdict, r.result.Failed, r.result.Error = Fail, r.failed.Step, err.Error()
	}
	if r.conn != nil {
		r.part()
		r.conn.Close()
	}
	r.stop()
	r.cancel(context.Canceled)
	r.reading.Wait()
	if r.failed != nil {
		r.end(r.result.step(r.failed.Step))
	}
	return errors.Join(err, r.free())
}

// free closes rail, memory and link. From then on nothing of the peer lands.
func (r *run) free() error {
	var errs []error
	if r.rail != nil {
		errs = append(errs, r.rail.Close())
	}
	if r.memory != nil {
		errs = append(errs, r.memory.Close())
	}
	if r.link != nil {
		r.link.Close()
	}
	return errors.Join(errs...)
}

// part says the last word, and hears the other side's, if there can be one.
func (r *run) part() {
	if r.failed == nil {
		return
	}
	st := r.result.step(r.failed.Step)
	k := kindFailed
	if r.result.Role == RoleListener {
		k = kindDone
	}
	err := r.tell(message{Kind: k, Step: st.Name, Error: say(st.Name, r.failed.Err), Evidence: append([]string(nil), st.Evidence...)})
	if err != nil || !r.listening || errors.Is(r.failed, ErrCancelled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTime)
	defer cancel()
	for {
		select {
		case m, ok := <-r.inbox:
			if !ok {
				return
			}
			if m.Error != nil {
				r.last(m)
			}
		case <-ctx.Done():
			return
		}
	}
}
