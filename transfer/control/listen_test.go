package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/freeport"
)

func TestAddresses(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	l := listen(t, secret, Options{})
	if a := l.Addr().(*net.TCPAddr); !a.IP.IsLoopback() {
		t.Errorf(":0 is bound to %v", a)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err := Listen(t.Context(), ":"+port, secret, Options{})
	wants(t, err, syscall.EADDRINUSE, "listen on 127.0.0.1:"+port, "EADDRINUSE", "ss -ltnp")
	_, err = Listen(t.Context(), "203.0.113.7:0", secret, Options{})
	wants(t, err, syscall.EADDRNOTAVAIL, "203.0.113.7:0", "ip addr")
	for _, bad := range []string{"", "host", "::1:5:6", "[::1"} {
		_, err = Listen(t.Context(), bad, secret, Options{})
		wants(t, err, ErrUsage, "HOST:PORT", ":PORT for the loopback")
		_, err = Dial(t.Context(), bad, secret, Options{})
		wants(t, err, ErrUsage, "HOST:PORT")
	}
	all := must(Listen(t.Context(), "0.0.0.0:0", secret, Options{}))
	if a := all.Addr().(*net.TCPAddr); !a.IP.IsUnspecified() {
		t.Errorf("bound to %v", a)
	}
	all.Close()
	for word, o := range map[string]Options{
		"Window":    {Window: -1},
		"Handshake": {Handshake: -1},
		"Heartbeat": {Heartbeat: -1},
		"lease":     {Lease: time.Millisecond},
		"1h0m0s":    {Lease: 2 * time.Hour},
		"HalfOpen":  {HalfOpen: -1},
		"Queue":     {Queue: -1},
	} {
		_, err = Listen(t.Context(), ":0", secret, o)
		wants(t, err, ErrUsage, word)
		_, err = Dial(t.Context(), ":0", secret, o)
		wants(t, err, ErrUsage, word)
	}
}

func TestDialWaitsForAListener(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	addr := freeport.Addr(freeport.TCP(t))
	const short = 500 * time.Millisecond // and long enough for one attempt
	_, err := Dial(t.Context(), addr, secret, Options{Window: short})
	wants(t, err, syscall.ECONNREFUSED, "dial "+addr, "tried", "is the other side started")
	_, err = Dial(within(t, short), addr, secret, Options{})
	wants(t, err, syscall.ECONNREFUSED, "dial "+addr, "tried")
	busy := must(net.Listen("tcp", "127.0.0.1:0"))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := busy.Accept()
			if err != nil {
				return
			}
			nc.Close()
		}
	})
	_, err = Dial(t.Context(), busy.Addr().String(), secret, Options{Window: short})
	wants(t, err, ErrGone, "closed the connection before", "times in", "flooded")
	busy.Close()
	running.Wait()
	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = Dial(cancelled, addr, secret, Options{})
	wants(t, err, context.Canceled, addr)

	late := make(chan *Listener, 1)
	time.AfterFunc(30*time.Millisecond, func() { late <- must(Listen(context.Background(), addr, secret, Options{})) })
	d, err := Dial(soon(t), addr, secret, Options{})
	l := <-late
	if err != nil {
		t.Fatal(err)
	}
	must(l.Accept(soon(t))).Close()
	d.Close()
	l.Close()
}

func TestAcceptEnds(t *testing.T) {
	noLeaks(t)
	l := listen(t, token(t), Options{})
	_, err := l.Accept(within(t, 10*time.Millisecond))
	wants(t, err, context.DeadlineExceeded, "accept on "+l.Addr().String(), "nobody came")
	time.AfterFunc(10*time.Millisecond, func() { l.Close() })
	_, err = l.Accept(soon(t))
	wants(t, err, ErrClosed, "closed by this side")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	_, err = l.Accept(soon(t))
	wants(t, err, ErrClosed)
}

// Those who say nothing, thousands of them, keep nobody out, and are no more at
// once than the listener has places.
func TestHalfOpenFlood(t *testing.T) {
	noLeaks(t)
	const flood, places = 3000, 16
	certified := issued(t, "node-a", "node-b")
	// No deadline passes in this test: it is the flood itself that makes room.
	l := listen(t, certified["node-a"], Options{HalfOpen: places, Handshake: time.Hour})
	descriptorsBefore := descriptors()
	var silent []net.Conn
	most, let := 0, 0
	for i := range flood {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, nc)
		if i%500 == 499 {
			d, a := join(t, l, l.Addr().String(), certified["node-b"], Options{})
			d.Close()
			a.Close()
			let++
		}
		most = max(most, l.Stats().HalfOpen)
	}
	// A good one and a silent one have a place each, and all others lost theirs.
	eventually(t, "all have lost their places but the last", func() bool {
		return int(l.Stats().Crowded) >= flood-places && descriptors()-descriptorsBefore <= flood+places
	})
	s := l.Stats()
	if most > places || s.HalfOpen > places || s.Proved != uint64(let) || s.Refused != 0 {
		t.Errorf("at most %d half open, %+v", most, s)
	}
	// Who was told what: nothing.
	for _, nc := range silent[:flood-places-let] {
		nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		if b, err := io.ReadAll(nc); len(b) != 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("a silent one was told %q, %v", b, err)
		}
	}
	for _, nc := range silent {
		nc.Close()
	}
	t.Logf("%d silent connections, at most %d half open, %d closed for others, %d let in", flood, most, s.Crowded, s.Proved)
}

// What strangers say, and that they are told nothing but TLS's alert.
func TestStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		say   string
		hang  bool // says no more, and does not close
		class error
		words []string
		told  string
	}{
		"nothing":        {"", true, context.DeadlineExceeded, []string{"the dialler did not prove itself in time"}, ""},
		"and closes":     {"", false, ErrGone, []string{"the dialler closed the connection before"}, ""},
		"HTTP":           {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, ErrProtocol, []string{`"GET /"`, "instead of TLS", "without credentials"}, ""},
		"zeros":          {"\x00\x00\x00\x00\x00\x00\x00\x00", true, ErrProtocol, []string{"instead of TLS"}, ""},
		"escapes":        {"\x1b[2J\n\x00\x1b[2J", true, ErrProtocol, []string{`"\x1b[2J\n"`}, ""},
		"half a hello":   {"\x16\x03\x01\x01\x00\x01\x00", true, context.DeadlineExceeded, nil, ""},
		"cut off":        {"\x16\x03\x01\x01\x00\x01\x00", false, ErrGone, nil, ""},
		"a great record": {"\x16\x03\x01\xff\xff", true, ErrProtocol, nil, "\x15\x03\x01\x00\x02\x02\x16"},
		"TLS garbage":    {"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", true, ErrProtocol, []string{"handshake failed: tls: error decoding message"}, "\x15\x03\x01\x00\x02\x02\x32"},
		"an alert":       {"\x15\x03\x01\x00\x02\x02\x28", true, ErrProtocol, []string{"ended the handshake", "handshake failure"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			var o Options
			if c.class == context.DeadlineExceeded {
				o.Handshake = 300 * time.Millisecond
			}
			l := listen(t, token(t), o)
			nc := must(net.Dial("tcp", l.Addr().String()))
			defer nc.Close()
			io.WriteString(nc, c.say)
			if !c.hang {
				nc.(*net.TCPConn).CloseWrite()
			}
			nc.SetReadDeadline(time.Now().Add(10 * time.Second))
			told, err := io.ReadAll(nc)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
			if !bytes.Equal(told, []byte(c.told)) {
				t.Errorf("was told %q, want %q", told, c.told)
			}
			eventually(t, "counted", func() bool { return l.Stats().Refused == 1 })
			wants(t, l.Stats().Last, c.class, append(c.words, "refuse 127.0.0.1:")...)
			if t.Failed() {
				t.Log(l.Stats().Last)
			}
		})
	}
}

// Other clients of TLS: a browser, and an old one.
func TestOtherTLS(t *testing.T) {
	certified := issued(t, "node-a")["node-a"]
	for name, c := range map[string]struct {
		config *tls.Config
		listen Credentials
		class  error
		words  []string
	}{
		"no protocol":    {&tls.Config{}, token(t), ErrProtocol, []string{"not this protocol"}},
		"HTTP/2":         {&tls.Config{NextProtos: []string{"h2"}}, certified, ErrPermission, []string{"same kind of credentials"}},
		"TLS 1.2":        {&tls.Config{MaxVersion: tls.VersionTLS12}, certified, ErrProtocol, []string{"unsupported versions"}},
		"no certificate": {&tls.Config{NextProtos: []string{(&certificates{}).protocol()}}, certified, ErrPermission, []string{"showed no certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			l := listen(t, c.listen, Options{})
			c.config.InsecureSkipVerify = true
			nc, err := tls.Dial("tcp", l.Addr().String(), c.config)
			if err == nil {
				if b, err := io.ReadAll(nc); len(b) != 0 || err == nil {
					t.Errorf("was told %q, %v", b, err)
				}
				nc.Close()
			}
			eventually(t, "counted", func() bool { return l.Stats().Refused == 1 })
			wants(t, l.Stats().Last, c.class, c.words...)
		})
	}
}

// A listener that is none of ours.
func TestDialStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		say   string
		class error
		words []string
	}{
		"HTTP":    {"HTTP/1.1 400 Bad Request\r\n\r\n", ErrProtocol, []string{`the listener sent "HTTP/"`, "another service"}},
		"SSH":     {"SSH-2.0-x\r\n", ErrProtocol, []string{"SSH-2"}},
		"silence": {"", context.DeadlineExceeded, []string{"the listener did not prove itself in time"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			nl := must(net.Listen("tcp", "127.0.0.1:0"))
			var running sync.WaitGroup
			running.Go(func() {
				nc := must(nl.Accept())
				io.WriteString(nc, c.say)
				io.Copy(io.Discard, nc)
				nc.Close()
			})
			var o Options
			if c.class == context.DeadlineExceeded {
				o.Handshake = 200 * time.Millisecond
			}
			_, err := Dial(t.Context(), nl.Addr().String(), token(t), o)
			wants(t, err, c.class, append(c.words, "dial "+nl.Addr().String())...)
			nl.Close()
			running.Wait()
		})
	}
}

// A program that does not call Accept holds only so many who have proved
// themselves.
func TestNobodyAccepts(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	l := listen(t, secret, Options{HalfOpen: 2})
	var conns []*Conn
	for range 3 {
		conns = append(conns, must(Dial(soon(t), l.Addr().String(), secret, Options{})))
	}
	eventually(t, "one too many", func() bool { return l.Stats().Unwanted == 1 })
	wants(t, l.Stats().Last, ErrSlow, "accept token at 127.0.0.1:", "2 connections wait for Accept")
	eventually(t, "it is told", func() bool {
		n := 0
		for _, c := range conns {
			if errors.Is(c.Err(), ErrLeft) {
				n++
			}
		}
		return n == 1
	})
	l.Close()
	for i, c := range conns {
		<-c.Done()
		wants(t, c.Err(), ErrLeft, fmt.Sprint("control connection with token at ", l.Addr()))
		if c.Close() != nil {
			t.Error(i)
		}
	}
}

// TestOver: a connection that the caller has dialled, with the right token and with
// another; it is closed if that fails.
func TestOver(t *testing.T) {
	noLeaks(t)
	c := token(t)
	l := listen(t, c, Options{})
	for name, dialler := range map[string]Credentials{"same": c, "other": token(t), "none": {}} {
		nc := must(net.Dial("tcp", l.Addr().String()))
		conn, err := Over(soon(t), nc, dialler, Options{})
		if name == "same" {
			if err != nil {
				t.Fatal(err)
			}
			must(l.Accept(soon(t))).Close()
			conn.Close()
			continue
		}
		class := ErrPermission
		if name == "none" {
			class = ErrUsage
		}
		wants(t, err, class, "prove to")
		if _, err := nc.Write([]byte{0}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want it closed", name, err)
		}
	}
}
