package rdmacm

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// rig is a fake kernel with a channel for each side. At the end of a test it
// must have neither ids nor files left, and the process no goroutines more.
type rig struct {
	*fake
	active, passive *Channel
}

func newRig(t *testing.T, iwarp bool) *rig {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	r := &rig{fake: newFake(iwarp)}
	r.active, r.passive = r.open(), r.open()
	t.Cleanup(func() {
		r.active.Close()
		r.passive.Close()
		if err := r.active.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
		eventually(t, "no ids, no files", func() bool {
			ids, files := r.left()
			return ids == 0 && files == 0
		})
		eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return r
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within 5 s: %s", what)
			return
		}
	}
}

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (r *rig) listen(t *testing.T) *Listener {
	t.Helper()
	l, err := r.passive.Listen(t.Context(), netip.AddrPortFrom(fakeHost, 0))
	l = must(t, l, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func (r *rig) connect(t *testing.T, l *Listener, p Params) (active, passive *Conn) {
	t.Helper()
	var wg sync.WaitGroup
	var perr error
	wg.Go(func() {
		req, err := l.Accept(t.Context())
		if err != nil {
			perr = err
			return
		}
		answer := p
		answer.Private = append([]byte("re: "), req.Private...)
		passive, perr = req.Accept(t.Context(), answer)
	})
	active, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), p)
	wg.Wait()
	must(t, passive, perr)
	return must(t, active, err), passive
}

func TestConnect(t *testing.T) {
	for _, iwarp := range []bool{true, false} {
		r := newRig(t, iwarp)
		l := r.listen(t)
		var mu sync.Mutex
		var states []QPState
		modify := func(a QPAttr) error {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, a.State)
			return nil
		}
		for range 3 {
			states = nil
			a, p := r.connect(t, l, Params{QPN: 17, Private: []byte("index 5"), Modify: modify})
			want := []QPState{QPInit, QPInit, QPRTR, QPRTR, QPRTS, QPRTS}
			if iwarp {
				want = nil
			}
			slices.Sort(states)
			if !slices.Equal(states, want) {
				t.Errorf("iwarp %v: moved to %v, want %v", iwarp, states, want)
			}
			if got := string(a.Peer().Private); got != "re: index 5" {
				t.Errorf("answer %q", got)
			}
			if p.Peer().QPN != 17 || a.Device().Index != 3 || a.RemoteAddr() != l.Addr() || p.RemoteAddr() != a.LocalAddr() {
				t.Errorf("active %+v, passive %+v", a, p)
			}
			if a.Err() != nil || p.Err() != nil {
				t.Errorf("errors %v, %v", a.Err(), p.Err())
			}
			if err := a.Disconnect(); err != nil {
				t.Error(err)
			}
			<-p.Done()
			if err := p.Err(); !errors.Is(err, syscall.ECONNRESET) || !strings.Contains(err.Error(), p.RemoteAddr().String()) {
				t.Errorf("after the end: %v", err)
			}
			var seen []EventType
			for ev := range p.Events(t.Context()) {
				seen = append(seen, ev.Type)
			}
			if !slices.Equal(seen, []EventType{EventDisconnected}) {
				t.Errorf("events %v", seen)
			}
			for _, c := range []*Conn{a, p, a, p} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestRejected(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	go func() {
		if req, err := l.Accept(t.Context()); err == nil {
			req.Reject([]byte("full"))
		}
	}()
	_, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1})
	var e *Error
	if !errors.As(err, &e) || string(e.Private) != "full" || !errors.Is(err, syscall.ECONNREFUSED) || e.Addr != l.Addr() {
		t.Errorf("error %v", err)
	}
}

// A local port that TCP has is not the caller's concern, unless all of them are.
func TestLocalPortTaken(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	r.taken = portAttempts - 1
	a, p := r.connect(t, l, Params{QPN: 1})
	if p.RemoteAddr() != a.LocalAddr() {
		t.Errorf("from %v, seen as %v", a.LocalAddr(), p.RemoteAddr())
	}
	a.Close()
	p.Close()
	r.taken = portAttempts
	_, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "every local port") {
		t.Errorf("error %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	for _, iwarp := range []bool{true, false} {
		r := newRig(t, iwarp)
		_, err := r.active.Dial(t.Context(), netip.Addr{}, netip.AddrPortFrom(fakeHost, 9), Params{QPN: 1})
		if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "nobody listens there") {
			t.Errorf("error %v", err)
		}
		_, err = r.active.Dial(t.Context(), netip.Addr{}, netip.MustParseAddrPort("203.0.113.1:9"), Params{QPN: 1})
		if !errors.Is(err, syscall.ETIMEDOUT) || !strings.Contains(err.Error(), "203.0.113.1:9") {
			t.Errorf("error %v", err)
		}
	}
}

func TestInfiniBandNeedsModify(t *testing.T) {
	r := newRig(t, false)
	l := r.listen(t)
	go func() {
		if req, err := l.Accept(t.Context()); err == nil {
			req.Accept(t.Context(), Params{QPN: 1})
		}
	}()
	_, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1})
	if err == nil || !strings.Contains(err.Error(), "Params.Modify") {
		t.Errorf("error %v", err)
	}
}

func TestModifyFails(t *testing.T) {
	r := newRig(t, false)
	l := r.listen(t)
	broken := errors.New("refused by ibv_modify_qp")
	fails := func(at QPState) func(QPAttr) error {
		return func(a QPAttr) error {
			if a.State == at {
				return broken
			}
			return nil
		}
	}
	for _, state := range []QPState{QPInit, QPRTR, QPRTS} {
		got := make(chan error, 1)
		go func() {
			req, err := l.Accept(t.Context())
			if err == nil {
				_, err = req.Accept(t.Context(), Params{QPN: 1, Modify: fails(state)})
			}
			got <- err
		}()
		_, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1, Modify: fails(QPReset)})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v: dial: %v", state, err)
		}
		if err := <-got; !errors.Is(err, broken) {
			t.Errorf("%v: accept: %v", state, err)
		}
	}
}

func TestParams(t *testing.T) {
	r := newRig(t, true)
	l := r.listen(t)
	for _, p := range []Params{{}, {QPN: 1 << 24}, {QPN: 1, Private: make([]byte, 256)}} {
		if _, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), p); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("QPN %#x, %d bytes: %v", p.QPN, len(p.Private), err)
		}
	}
	if _, err := r.active.Dial(t.Context(), netip.Addr{}, netip.AddrPortFrom(fakeHost, 0), Params{QPN: 1}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("port 0: %v", err)
	}
	if _, err := r.passive.Listen(t.Context(), netip.AddrPort{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no address: %v", err)
	}
	if _, err := r.passive.Listen(t.Context(), l.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("port in use: %v", err)
	}
}

// A dial ends with its context: while the kernel is inside the command, while
// the peer does not answer, and before anything began.
func TestContextEnds(t *testing.T) {
	t.Run("in the command", func(t *testing.T) {
		r := newRig(t, true)
		l := r.listen(t)
		r.hold = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := r.active.Dial(ctx, netip.Addr{}, l.Addr(), Params{QPN: 1})
		if !errors.Is(err, context.DeadlineExceeded) {
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
	if _, err := conn.QPAttr(QPRTS); !errors.Is(err, ErrClosed) {
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
