//go:build lab

// Run inside a guest of the lab, where PEERDIRECT_DEVICE is rxe0 or siw0:
//
//	go test -c -tags lab -o DIR/rdmacm.test ./verbs/rdmacm
//	cd DIR && peerdirect lab run --link siw -- ./rdmacm.test -test.v -test.run Lab
package rdmacm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

func TestLabConnect(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	ctx := within(t, time.Minute)
	l := m.listen(ctx)
	for round := range 4 {
		active, passive := m.pair(ctx, l, fmt.Sprintf("pair %d", round))
		m.move(ctx, active.rc, passive.rc, 2*round)
		m.move(ctx, passive.rc, active.rc, 2*round+1)
		if err := active.conn.Err(); err != nil {
			t.Error(err)
		}
		for _, s := range []side{active, passive} {
			m.check(s.rc.Close())
			m.check(s.conn.Close())
			m.check(s.conn.Close())
		}
	}
	m.check(l.Close())
	m.check(l.Close())
}

func TestLabDisconnect(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	ctx := within(t, time.Minute)
	l := m.listen(ctx)
	active, passive := m.pair(ctx, l, "bye")
	m.move(ctx, active.rc, passive.rc, 1)
	m.check(active.conn.Disconnect())
	select {
	case <-passive.conn.Done():
	case <-ctx.Done():
		t.Fatal("the other side was not told")
	}
	if err := passive.conn.Err(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v", err)
	}
	t.Log(passive.conn.Err())
	for _, s := range []side{active, passive} {
		m.check(s.conn.Close())
		m.check(s.rc.Close())
	}
	m.check(l.Close())
}

func TestLabReject(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	ctx := within(t, 30*time.Second)
	l := m.listen(ctx)
	defer l.Close()
	go func() {
		if req, err := l.Accept(ctx); err == nil {
			req.Reject([]byte("no room"))
		}
	}()
	rc := m.rc()
	defer rc.Close()
	_, err := rdmacm.Dial(ctx, m.addr, l.Addr(), rdmacm.Params{QPN: rc.QPN(), Modify: modify(rc)})
	var e *rdmacm.Error
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &e) || !bytes.HasPrefix(e.Private, []byte("no room")) {
		t.Fatalf("error %v", err)
	}
	t.Log(err)
}

// A listener that is closed refuses who waits.
func TestLabListenerCloses(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	ctx := within(t, 30*time.Second)
	l := m.listen(ctx)
	go func() {
		time.Sleep(200 * time.Millisecond)
		l.Close()
	}()
	rc := m.rc()
	defer rc.Close()
	_, err := rdmacm.Dial(ctx, m.addr, l.Addr(), rdmacm.Params{QPN: rc.QPN(), Modify: modify(rc)})
	if err == nil || ctx.Err() != nil {
		t.Fatalf("error %v", err)
	}
	t.Log(err)
	if _, err := l.Accept(ctx); !errors.Is(err, rdmacm.ErrClosed) {
		t.Errorf("accept on a closed listener: %v", err)
	}
}

func TestLabNobodyListens(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	ctx := within(t, 10*time.Second)
	rc := m.rc()
	defer rc.Close()
	_, err := rdmacm.Dial(ctx, m.addr, netip.AddrPortFrom(m.addr, 4444), rdmacm.Params{QPN: rc.QPN(), Modify: modify(rc)})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("error %v", err)
	}
	t.Log(err)
}

// A peer that listens and does not answer holds a dial until its deadline, and
// no longer.
func TestLabDeadline(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	l := m.listen(t.Context())
	rc := m.rc()
	start := time.Now()
	_, err := rdmacm.Dial(within(t, time.Second), m.addr, l.Addr(), rdmacm.Params{QPN: rc.QPN(), Modify: modify(rc)})
	took := time.Since(start)
	if !errors.Is(err, context.DeadlineExceeded) || took > 4*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	t.Log(took, err)
	m.check(l.Close())
	start = time.Now()
	m.check(rc.Close())
	t.Logf("closing the queue pair of the abandoned dial took %v", time.Since(start))
	if _, err := rdmacm.Listen(t.Context(), netip.MustParseAddrPort("203.0.113.9:0")); err == nil {
		t.Error("listening on an address of nobody worked")
	} else {
		t.Log(err)
	}
	rc = m.rc()
	defer rc.Close()
	start = time.Now()
	_, err = rdmacm.Dial(within(t, 2*time.Second), m.addr, netip.MustParseAddrPort("203.0.113.9:7"), rdmacm.Params{QPN: rc.QPN(), Modify: modify(rc)})
	if err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	t.Log(time.Since(start), err)
}

// The connection manager does not know which ports TCP has, and an iWARP driver
// needs both: with a quarter of a small range taken, connecting still works.
func TestLabTCPHasPorts(t *testing.T) {
	m := newMachine(t)
	if m.dev.Transport() != verbs.TransportIWARP {
		t.Skip("only iWARP uses TCP ports")
	}
	defer m.watch()()
	const knob, first, ports = "/proc/sys/net/ipv4/ip_local_port_range", 42000, 64
	saved, err := os.ReadFile(knob)
	m.check(err)
	m.check(os.WriteFile(knob, fmt.Appendf(nil, "%d %d", first, first+ports-1), 0))
	defer os.WriteFile(knob, saved, 0)
	for port := first; port < first+ports; port += 4 {
		l, err := net.Listen("tcp", fmt.Sprintf("%v:%d", m.addr, port))
		m.check(err)
		defer l.Close()
	}
	ctx := within(t, time.Minute)
	for range 12 {
		l := m.listen(ctx)
		active, passive := m.pair(ctx, l, "x")
		for _, s := range []side{active, passive} {
			m.check(s.rc.Close())
			m.check(s.conn.Close())
		}
		m.check(l.Close())
	}
}

func TestLabPortInUse(t *testing.T) {
	m := newMachine(t)
	defer m.watch()()
	l := m.listen(t.Context())
	defer l.Close()
	if _, err := rdmacm.Listen(t.Context(), l.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener on %v: %v", l.Addr(), err)
	} else {
		t.Log(err)
	}
}
