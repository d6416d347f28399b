package efa

import (
	"context"
	"errors"
	"sync/atomic"
)

// State is an endpoint's state.
type State uint8

const (
	StateOther State = iota // neither of these
	StateReady              // takes and carries out requests
	StateError              // everything posted is flushed
)

func (s State) String() string {
	return [...]string{"other", "ready", "error"}[min(s, StateError)]
}

// Endpoint is a queue pair that is ready to send and receive: SRD, or UD. One
// goroutine posts sends, one posts receives, one polls.
type Endpoint struct {
	object
	dev    *Device
	ctl    queuePair
	opts   SRDOptions
	ud     bool
	cq     *CQ // of sends
	rcq    *CQ // of receives
	own    bool
	path   Path
	send   *workQueue // nil: through the library
	recv   *workQueue
	blocks int // 64-byte blocks in a send entry
	sends  int // requests that the queues hold
	recvs  int
	shut   atomic.Bool
}

// Path tells how requests reach the device, and why not directly.
func (ep *Endpoint) Path() Path { return ep.path }

// QPN is the endpoint's number, 16 bits.
func (ep *Endpoint) QPN() uint16 { return ep.ctl.qpn() }

// Address is what peers must know to send to the endpoint.
func (ep *Endpoint) Address() Address {
	return Address{GID: ep.dev.a.GID, QPN: ep.QPN(), QKey: ep.opts.QKey}
}

// Device is the device of the endpoint.
func (ep *Endpoint) Device() *Device { return ep.dev }

// CQ is the completion queue of sends, and of receives where RecvCQ was not
// set.
func (ep *Endpoint) CQ() *CQ { return ep.cq }

// MaxSend is the number of requests that the send queue holds: what was asked for,
// or more.
func (ep *Endpoint) MaxSend() int { return ep.sends }

// MaxRecv is the number of receives that the receive queue holds, likewise.
func (ep *Endpoint) MaxRecv() int { return ep.recvs }

// Room is how many requests fit into the send queue now; only the goroutine that
// posts may ask. On the library's path it is not known, and is MaxSend.
func (ep *Endpoint) Room() int {
	if ep.send == nil {
		return ep.sends
	}
	return int(ep.send.room())
}

// Poll takes completions of the endpoint's completion queue; see [CQ.Poll].
func (ep *Endpoint) Poll(out []Completion) (int, error) { return ep.cq.Poll(out) }

// Wait waits for completions of the endpoint's completion queue; see [CQ.Wait].
func (ep *Endpoint) Wait(ctx context.Context) error { return ep.cq.Wait(ctx) }

// State asks the device for the endpoint's state.
func (ep *Endpoint) State() (State, error) {
	ep.life.Lock()
	defer ep.life.Unlock()
	if ep.life.Closed() {
		return StateOther, &Error{Op: "query", Object: ep.describe(), Err: ErrClosed}
	}
	return ep.ctl.state()
}

// Fail moves the endpoint to the error state: everything posted completes, once,
// as StatusFlushed or as what became of it, and nothing more is taken.
func (ep *Endpoint) Fail() error {
	ep.life.Lock()
	defer ep.life.Unlock()
	if ep.life.Closed() {
		return &Error{Op: "modify", Object: ep.describe(), Err: ErrClosed}
	}
	ep.send.stop(inError)
	ep.recv.stop(inError)
	return ep.ctl.fail()
}

func (ep *Endpoint) describe() string { return ep.dev.describe(ep.name()) }

// Close destroys the endpoint, and its completion queue if it is its own.
// Requests that were in flight complete no more: to see them end, Fail and poll
// first.
func (ep *Endpoint) Close() error {
	err := ep.close("destroy endpoint", func() error {
		ep.send.stop(closed)
		ep.recv.stop(closed)
		ep.shut.Store(true)
		if err := ep.ctl.close(); err != nil {
			ep.shut.Store(false)
			ep.send.stop(inError)
			ep.recv.stop(inError)
			return err
		}
		if ep.send != nil {
			ep.cq.ring.detach(ep.ctl.qpn())
			if ep.rcq != ep.cq {
				ep.rcq.ring.detach(ep.ctl.qpn())
			}
		}
		ep.cq.release(ep.sends)
		ep.rcq.release(ep.recvs)
		return nil
	})
	if err != nil || !ep.own {
		return err
	}
	return ep.cq.Close()
}

// refused explains why a batch was not posted.
func (ep *Endpoint) refused(op string, q *workQueue, err error, detail string) error {
	if q != nil {
		switch q.stopped.Load() {
		case inError:
			err, detail = ErrState, "the endpoint was failed: close it"
		case closed:
			err, detail = ErrClosed, ""
		}
	}
	if errors.Is(err, ErrQueueFull) && detail == "" {
		detail = "poll completions first, or make the queue deeper; nothing was posted"
	}
	return &PostError{Err: &Error{Op: op, Object: ep.describe(), Err: err, Detail: detail}}
}
