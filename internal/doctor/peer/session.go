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
	if cause := context.Cause(r.ctx); err == nil && errors.Is(cause, ErrCancelled) {
		err = cause // of another end the next step tells
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
	if st.Verdict == Warn {
		st.saw(st.Summary)
	}
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
	if r.memory != nil && errors.Join(errs...) == nil { // else the NIC may still write it: it stays mapped
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
	// Where it is over, the other side's last word may still be there.
	r.tell(message{Kind: k, Step: st.Name, Error: say(st.Name, r.failed.Err), Evidence: append([]string(nil), st.Evidence...)})
	if !r.listening || errors.Is(r.failed, ErrCancelled) {
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
