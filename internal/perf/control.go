package perf

/*
#include <stdlib.h>
#include "loop.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/verbs"
	"golang.org/x/sys/unix"
)

// controls reach into loops that run: one for each loop with an end of its
// own. They live in C memory, and none is touched once freed.
type controls struct {
	mu  sync.Mutex
	all []*C.struct_pf_control
}

func newControls(n int) (*controls, error) {
	cs := new(controls)
	for range n {
		fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		if err != nil {
			cs.free()
			return nil, fmt.Errorf("eventfd: %w", err)
		}
		c := (*C.struct_pf_control)(C.calloc(1, C.sizeof_struct_pf_control))
		c.wake_fd, c.target = C.int(fd), C.PF_UNKNOWN
		cs.all = append(cs.all, c)
	}
	return cs, nil
}

func (cs *controls) each(f func(i int, c *C.struct_pf_control)) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for i, c := range cs.all {
		f(i, c)
	}
}

// stop makes the loops give up.
func (cs *controls) stop() { cs.each(func(_ int, c *C.struct_pf_control) { C.pf_stop(c) }) }

// close makes them post no more.
func (cs *controls) close() { cs.each(func(_ int, c *C.struct_pf_control) { C.pf_close(c) }) }

// targets tells how many messages the peer has sent on each queue.
func (cs *controls) targets(sent []uint64) {
	cs.each(func(i int, c *C.struct_pf_control) {
		if len(cs.all) == 1 {
			C.pf_target(c, C.uint64_t(total(sent)))
		} else {
			C.pf_target(c, C.uint64_t(sent[i]))
		}
	})
}

func (cs *controls) free() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.all {
		unix.Close(int(c.wake_fd))
		C.free(unsafe.Pointer(c))
	}
	cs.all = nil
}

func total(n []uint64) uint64 {
	var sum uint64
	for _, v := range n {
		sum += v
	}
	return sum
}

// clock converts ticks to time. It is calibrated by the time that passes
// between its making and its use.
type clock struct {
	ticks uint64
	ns    uint64
}

func newClock() clock { return clock{uint64(C.pf_ticks()), uint64(C.pf_now_ns())} }

// nsPerTick waits, if need be, until enough time has passed to tell the rate
// to one in 10 000.
func (c clock) nsPerTick() float64 {
	const enough = 20 * time.Millisecond
	for {
		ticks, ns := uint64(C.pf_ticks()), uint64(C.pf_now_ns())
		if d := time.Duration(ns - c.ns); d < enough {
			time.Sleep(enough - d)
			continue
		}
		return float64(ns-c.ns) / float64(ticks-c.ticks)
	}
}

// TimeoutError is a wait that nothing ended.
type TimeoutError struct {
	What  string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s within %v (--timeout)", e.What, e.After)
}

func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// interrupted is the end that the user asked for.
type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }
func (interrupted) Unwrap() error { return context.Canceled }

// errStopped is a loop that was told to stop; whoever told it knows why.
var errStopped = errors.New("stopped")

// errMore asks for another call: the samples are full.
var errMore = errors.New("samples full")

// fault is what a loop left behind besides its status.
type fault struct {
	errno         int
	done          uint64 // messages that completed before
	status        uint32
	vendor, qpn   uint32
	object        string
	timeout       time.Duration
	waitedForWhat string
}

// loopError turns a loop's status into an error.
func loopError(status int, f fault) error {
	verb := func(name string) error {
		return &verbs.Error{Verb: name, Object: f.object, Err: syscall.Errno(f.errno)}
	}
	switch status {
	case C.PF_DONE:
		return nil
	case C.PF_MORE:
		return errMore
	case C.PF_STOPPED:
		return errStopped
	case C.PF_TIMEOUT:
		return &TimeoutError{What: f.waitedForWhat, After: f.timeout}
	case C.PF_POST:
		return verb("ibv_post_send")
	case C.PF_POLL:
		return verb("ibv_poll_cq")
	case C.PF_EVENT:
		return verb("ibv_get_cq_event")
	case C.PF_WC:
		return &verbs.CompletionError{ID: f.done, Status: verbs.Status(f.status), QPN: f.qpn, VendorErr: f.vendor}
	case C.PF_IO, C.PF_CLOSED:
		return fmt.Errorf("%s: %w", f.object, syscall.Errno(f.errno))
	}
	return fmt.Errorf("a loop ended with status %d", status)
}

// watching runs a loop that ends early when the context does.
func watching(ctx context.Context, cs *controls, loop func() error) error {
	stop := context.AfterFunc(ctx, cs.stop)
	defer stop()
	err := loop()
	if errors.Is(err, errStopped) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
