package rdmacm

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A dial ends with its context: while the kernel is inside the command, while
// the peer does not answer, and before anything began.
func TestContextEnds(t *testing.T) {
	t.Run("in the command", func(t *testing.T) {
		r := newRig(t, true)
		l := r.listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.hold, r.held = make(chan struct{}), cancel
		_, err := r.active.Dial(ctx, netip.Addr{}, l.Addr(), Params{QPN: 1})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if ids, _ := r.left(); ids != 2 {
			t.Errorf("%d ids while the kernel is busy", ids)
		}
		close(r.hold)
	})
	t.Run("no answer", func(t *testing.T) {
		r := newRig(t, true)
		l := r.listen(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := r.active.Dial(ctx, netip.Addr{}, l.Addr(), Params{QPN: 1})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if _, err := r.active.Dial(ctx, netip.Addr{}, l.Addr(), Params{QPN: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if _, err := r.passive.Listen(ctx, netip.AddrPortFrom(fakeHost, 0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("nobody dials", func(t *testing.T) {
		r := newRig(t, true)
		l := r.listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("error %v", err)
		}
	})
}

// Closing ends every wait, and a channel outlives its owner for as long as
// something stands on it.
func TestClose(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Accept(t.Context())
		waiting <- err
	}()
	time.Sleep(5 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}

	l = r.listen(t)
	active, passive := r.connect(t, l, Params{QPN: 1})
	r.active.Close()
	r.passive.Close()
	if _, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("dial on a closed channel: %v", err)
	}
	if _, files := r.left(); files != 2 || active.Err() != nil {
		t.Errorf("%d files, %v", files, active.Err())
	}
	active.Close()
	<-passive.Done()
	if err := active.Err(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	passive.Close()
}

// A request and a route are used once, and closing them then leaves the
// connection alone. A closed connection takes no commands: its id's number may
// be another's.
func TestUsedUp(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	type result struct {
		req  *Request
		conn *Conn
	}
	accepted := make(chan result, 1)
	go func() {
		req, err := l.Accept(t.Context())
		if err != nil {
			t.Error(err)
		}
		conn, err := req.Accept(t.Context(), Params{QPN: 1})
		if err != nil {
			t.Error(err)
		}
		accepted <- result{req, conn}
	}()
	route, err := r.active.Resolve(t.Context(), netip.Addr{}, l.Addr())
	route = must(t, route, err)
	conn, err := route.Connect(t.Context(), Params{QPN: 1})
	conn = must(t, conn, err)
	got := <-accepted
	for _, err := range []error{route.Close(), got.req.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := route.Connect(t.Context(), Params{QPN: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("connecting again: %v", err)
	}
	if _, err := got.req.Accept(t.Context(), Params{QPN: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("accepting again: %v", err)
	}
	if err := got.req.Reject(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("rejecting after: %v", err)
	}
	if conn.Err() != nil || got.conn.Err() != nil {
		t.Errorf("errors %v, %v", conn.Err(), got.conn.Err())
	}
	conn.Close()
	got.conn.Close()
	if err := conn.Disconnect(); !errors.Is(err, ErrClosed) {
		t.Errorf("disconnecting after close: %v", err)
	}
	if _, err := conn.QPAttr(StateRTS); !errors.Is(err, ErrClosed) {
		t.Errorf("attributes after close: %v", err)
	}
}

// Requests that nobody takes are bounded, and refused when the listener goes.
func TestRequestsWait(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	const extra = 3
	errs := make(chan error, queueMax+extra)
	for range queueMax + extra {
		go func() {
			conn, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1})
			if err == nil {
				conn.Close()
			}
			errs <- err
		}()
	}
	for range extra {
		if err := <-errs; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("one too many: %v", err)
		}
	}
	select {
	case err := <-errs:
		t.Errorf("one that should wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	l.Close()
	for range queueMax {
		if err := <-errs; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after close: %v", err)
		}
	}
}

// A descriptor that gives no more events ends what waits on it, by name.
func TestBrokenChannel(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	a, p := r.connect(t, l, Params{QPN: 1})
	r.files[0].events <- encodeEvent(0, 0, Event{Type: 99})
	r.files[0].events <- encodeEvent(12345, 0, Event{Type: EventDisconnected})
	select {
	case <-a.Done():
		t.Error("an event of nobody broke the channel")
	case <-time.After(5 * time.Millisecond):
	}
	r.files[0].broken <- syscall.EFAULT
	<-a.Done()
	if err := a.Err(); !errors.Is(err, syscall.EFAULT) || !strings.Contains(err.Error(), "GET_EVENT") {
		t.Errorf("error %v", err)
	}
	if _, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1}); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("dial: %v", err)
	}
	a.Close()
	p.Close()
}

func TestOpen(t *testing.T) {
	before, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = openFile(filepath.Join(dir, "rdma_cm"))
	if !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "modprobe rdma_ucm") {
		t.Errorf("no node: %v", err)
	}
	// A device that takes what is written and says nothing: answers stay empty.
	f, err := openFile("/dev/null")
	if err == nil {
		if err := f.run(disconnect(1)); err != nil {
			t.Error(err)
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
		if err := f.run(disconnect(1)); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	} else {
		t.Error(err)
	}
	// One that refuses.
	if f, err := openFile("/dev/full"); err != nil {
		t.Error(err)
	} else {
		if err := f.run(disconnect(1)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("refused: %v", err)
		}
		f.close()
	}
	after, err := os.ReadDir("/proc/self/fd")
	if err != nil || len(after) > len(before) {
		t.Errorf("%d descriptors before, %d after (%v)", len(before), len(after), err)
	}
}
