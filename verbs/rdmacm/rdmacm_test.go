package rdmacm

import (
	"errors"
	"net/netip"
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
			want := []QPState{StateInit, StateInit, StateRTR, StateRTR, StateRTS, StateRTS}
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
	for _, state := range []QPState{StateInit, StateRTR, StateRTS} {
		got := make(chan error, 1)
		go func() {
			req, err := l.Accept(t.Context())
			if err == nil {
				_, err = req.Accept(t.Context(), Params{QPN: 1, Modify: fails(state)})
			}
			got <- err
		}()
		_, err := r.active.Dial(t.Context(), netip.Addr{}, l.Addr(), Params{QPN: 1, Modify: fails(StateReset)})
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
