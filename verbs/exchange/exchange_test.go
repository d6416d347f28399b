package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// noLeaks fails the test when it leaves goroutines behind.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				b := make([]byte, 1<<16)
				t.Errorf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), b[:runtime.Stack(b, true)])
				return
			}
		}
	})
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func listen(t *testing.T) *Listener {
	t.Helper()
	l := must(Listen(t.Context(), ":0"))
	t.Cleanup(func() { l.Close() })
	return l
}

// pair is a conversation over loopback TCP.
func pair(t *testing.T) (dialer, acceptor *Conn) {
	t.Helper()
	noLeaks(t)
	l := listen(t)
	dialer = must(Dial(t.Context(), l.Addr().String()))
	acceptor = must(l.Accept(t.Context()))
	t.Cleanup(func() {
		dialer.Close()
		acceptor.Close()
	})
	return dialer, acceptor
}

// raw is a conversation whose other side is a bare TCP connection.
func raw(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	noLeaks(t)
	l := listen(t)
	nc := must(net.Dial("tcp", l.Addr().String()))
	c := must(l.Accept(t.Context()))
	t.Cleanup(func() {
		c.Close()
		nc.Close()
	})
	return c, nc.(*net.TCPConn)
}

// wants fails the test unless the error is of a class, names the peer and says
// all of the words.
func wants(t *testing.T, err error, class error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v", class)
	}
	if !errors.Is(err, class) {
		t.Errorf("%q is not %v", err, class)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

type message struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func TestConversation(t *testing.T) {
	a, b := pair(t)
	ctx := within(t, 10*time.Second)
	// More than are read ahead, so that both the queue and TCP are used.
	const n = 10 * queueMax
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := a.Send(ctx, TypeUser+Type(i%3), message{N: i, Text: strings.Repeat("x", i*100)}); err != nil {
				sent <- err
				return
			}
		}
		sent <- a.Barrier(ctx)
	}()
	for i := range n {
		var m message
		if err := b.Receive(ctx, TypeUser+Type(i%3), &m); err != nil {
			t.Fatal(err)
		}
		if m.N != i || len(m.Text) != i*100 {
			t.Fatalf("message %d has number %d, %d bytes", i, m.N, len(m.Text))
		}
	}
	if err := errors.Join(b.Barrier(ctx), <-sent); err != nil {
		t.Fatal(err)
	}
	if a.Peer() != b.LocalAddr().String() || a.Role() != Dialer || b.Role() != Acceptor {
		t.Errorf("peer %s, roles %d, %d", a.Peer(), a.Role(), b.Role())
	}
}

// What is sent before a close arrives, and then the close.
func TestLastWords(t *testing.T) {
	a, b := pair(t)
	ctx := within(t, 10*time.Second)
	for i := range 3 {
		if err := a.Send(ctx, TypeUser, message{N: i}); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	a.Close()
	time.Sleep(10 * time.Millisecond)
	for range 3 {
		if err := b.Receive(ctx, TypeUser, nil); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, b.Receive(ctx, TypeUser, nil), ErrPeerGone, b.Peer(), "closed the connection")
	wants(t, b.Err(), ErrPeerGone, b.Peer())
	wants(t, b.Send(ctx, TypeUser, nil), ErrPeerGone)
	wants(t, a.Send(ctx, TypeUser, nil), fs.ErrClosed)
	wants(t, a.Receive(ctx, TypeUser, nil), fs.ErrClosed)
}

func TestGreet(t *testing.T) {
	a, b := pair(t)
	ctx := within(t, 10*time.Second)
	own := Hello{Program: "peerdirect", Version: "1.2", Purpose: "perf", Options: json.RawMessage(`{"qp":4}`)}
	got := make(chan Hello, 1)
	go func() { got <- must(a.Greet(ctx, own)) }()
	theirs := Hello{Program: "peer\x1b[2Jdirect", Version: "1.3", Purpose: "perf", Host: "b"}
	if h := must(b.Greet(ctx, theirs)); h.Version != "1.2" || string(h.Options) != `{"qp":4}` {
		t.Errorf("hello %+v", h)
	}
	if h := <-got; h.Host != "b" || h.Program != "peer?[2Jdirect" {
		t.Errorf("hello %+v", h)
	}
	_, err := a.Greet(ctx, Hello{})
	wants(t, err, ErrUsage)
}

func TestOtherPurpose(t *testing.T) {
	a, b := pair(t)
	ctx := within(t, 10*time.Second)
	got := make(chan error, 1)
	go func() {
		_, err := a.Greet(ctx, Hello{Purpose: "perf"})
		got <- err
	}()
	_, err := b.Greet(ctx, Hello{Purpose: "transfer"})
	wants(t, err, ErrMismatch, b.Peer(), `"perf"`, `"transfer"`)
	err = <-got
	var remote *RemoteError
	if !errors.As(err, &remote) {
		t.Errorf("the dialler got %v", err)
	}
	wants(t, err, remote, a.Peer(), `"perf"`, `"transfer"`)
}

// Other services on the port, on either side.
func TestGarbage(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "GET "} {
		c, nc := raw(t)
		nc.Write([]byte(text))
		_, err := c.Greet(within(t, 5*time.Second), Hello{Purpose: "perf"})
		wants(t, err, ErrProtocol, c.Peer(), fmt.Sprintf("%#x", text[:4]), "another service")
		// It is told nothing.
		if b, _ := io.ReadAll(nc); len(b) != 0 {
			t.Errorf("the other service got %q", b)
		}
	}
}

func header(mutate func(h []byte)) []byte {
	h := appendHeader(nil, TypeUser, 2, 0)
	mutate(h)
	return append(h, "{}"...)
}

func TestBadFrames(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		class error
		words []string
	}{
		"version":        {header(func(h []byte) { h[3] = 9 }), ErrVersion, []string{"version 9", "version 1", "same peerdirect"}},
		"version alone":  {[]byte("PDX\x00"), ErrVersion, []string{"version 0"}},
		"flags":          {header(func(h []byte) { h[6] = 0x80 }), ErrProtocol, []string{"flags 0x8000"}},
		"number":         {header(func(h []byte) { h[15] = 7 }), ErrProtocol, []string{"numbered 7"}},
		"length":         {header(func(h []byte) { binary.BigEndian.PutUint32(h[8:], MaxPayload+1) }), ErrProtocol, []string{"1048577 bytes", "1048576"}},
		"greatest":       {header(func(h []byte) { binary.BigEndian.PutUint32(h[8:], 1<<32-1) }), ErrProtocol, []string{"4294967295 bytes"}},
		"type":           {header(func(h []byte) { h[5] = 99 }), ErrProtocol, []string{"another kind", "type 99"}},
		"JSON":           {append(appendHeader(nil, TypeUser, 3, 0), "{,}"...), ErrProtocol, []string{"JSON"}},
		"JSON type":      {append(appendHeader(nil, TypeUser, 9, 0), `{"n":"a"}`...), ErrProtocol, []string{"JSON"}},
		"no JSON":        {appendHeader(nil, TypeUser, 0, 0), ErrProtocol, []string{"JSON"}},
		"error":          {append(appendHeader(nil, typeError, 1, 0), '1'), ErrProtocol, []string{"error that cannot be read"}},
		"second garbage": {append(header(func([]byte) {}), "abcd"...), ErrProtocol, []string{"0x61626364", "frame 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, nc := raw(t)
			nc.Write(c.bytes)
			ctx := within(t, 5*time.Second)
			var m message
			err := conn.Receive(ctx, TypeUser, &m)
			if name == "second garbage" && err == nil {
				err = conn.Receive(ctx, TypeUser, &m)
			}
			wants(t, err, c.class, append(c.words, conn.Peer())...)
		})
	}
}

// Every place where a frame can be cut off.
func TestTruncated(t *testing.T) {
	whole := append(appendHeader(nil, TypeUser, 9, 0), `{"n":123}`...)
	for n := range whole {
		_, err := readFrame(bytes.NewReader(whole[:n]), 0)
		switch {
		case n == 0 && err != io.EOF:
			t.Errorf("no byte: %v", err)
		case n > 0:
			wants(t, err, ErrPeerGone, "in the middle of a frame")
		}
	}
	if f, err := readFrame(bytes.NewReader(whole), 0); err != nil || f.typ != TypeUser || string(f.payload) != `{"n":123}` {
		t.Errorf("whole: %+v, %v", f, err)
	}
}

// Programs of two versions: each names both.
func TestVersions(t *testing.T) {
	c, nc := raw(t)
	nc.Write(header(func(h []byte) { h[3] = 2 }))
	_, err := c.Greet(within(t, 5*time.Second), Hello{Purpose: "perf"})
	wants(t, err, ErrVersion, "version 2", "version 1")
	// The other program reads a header of our version, and so can say the same.
	h := make([]byte, headerSize)
	if _, err := io.ReadFull(nc, h); err != nil || string(h[:4]) != "PDX\x01" {
		t.Errorf("the other version got %q, %v", h, err)
	}
}

// A peer killed in the middle of a frame; the kernel resets the connection.
func TestKilled(t *testing.T) {
	c, nc := raw(t)
	nc.Write(header(func([]byte) {})[:headerSize+1])
	time.Sleep(10 * time.Millisecond)
	nc.SetLinger(0)
	nc.Close()
	wants(t, c.Receive(within(t, 5*time.Second), TypeUser, nil), ErrPeerGone, c.Peer(), "its program has ended")
}

func TestFail(t *testing.T) {
	for _, c := range []struct {
		err   error
		class error
	}{
		{syscall.ENODEV, ErrNoDevice},
		{syscall.EPERM, ErrPermission},
		{syscall.EOPNOTSUPP, ErrUnsupported},
		{fmt.Errorf("byte 7: %w", ErrVerification), ErrVerification},
		{fmt.Errorf("size 0: %w", ErrUsage), ErrUsage},
		{errors.New("no more\x1b[31m queue pairs\nat all " + strings.Repeat("é", textMax)), nil},
		{nil, nil},
	} {
		a, b := pair(t)
		ctx := within(t, 5*time.Second)
		// What the failing side has not read does not cost its last words.
		for range 4 {
			if err := b.Send(ctx, TypeUser, strings.Repeat("x", 1<<16)); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- a.Fail(c.err) }()
		err := b.Receive(ctx, TypeUser, nil)
		var remote *RemoteError
		if !errors.As(err, &remote) {
			t.Fatalf("%v arrived as %v", c.err, err)
		}
		class := c.class
		if class == nil {
			class = remote
		}
		wants(t, err, class, b.Peer(), "the peer failed: ")
		if strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > textMax+200 {
			t.Errorf("%d bytes: %.60q", len(err.Error()), err)
		}
		wants(t, b.Send(ctx, TypeUser, 1), remote)
		// It is not sent back.
		if got := b.Fail(err); got != err {
			t.Errorf("Fail gave %v", got)
		}
		if got := <-done; c.err != nil && got != c.err {
			t.Errorf("Fail gave %v", got)
		}
		wants(t, a.Receive(ctx, TypeUser, nil), ErrClosed)
	}
}

func TestFailToADeafPeer(t *testing.T) {
	noLeaks(t)
	x, y := net.Pipe()
	defer y.Close()
	start := time.Now()
	New(x, Dialer).Fail(errors.New("alone"))
	if took := time.Since(start); took > 3*lingerIn {
		t.Errorf("took %v", took)
	}
}

func TestDeadlines(t *testing.T) {
	a, b := pair(t)
	wants(t, a.Receive(within(t, 20*time.Millisecond), TypeUser, nil), context.DeadlineExceeded, a.Peer(), "type 64", "deadline")
	// Nothing is lost by that.
	ctx := within(t, 5*time.Second)
	if err := b.Send(ctx, TypeUser, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Receive(ctx, TypeUser, nil); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	wants(t, a.Send(cancelled, TypeUser, 1), context.Canceled)
	if err := a.Send(ctx, TypeUser, 1); err != nil {
		t.Error(err)
	}
	wants(t, a.Send(ctx, TypeUser, strings.Repeat("x", MaxPayload)), ErrProtocol, "at most 1048576")
	if err := a.Send(ctx, TypeUser, make(chan int)); err == nil {
		t.Error("a channel was sent")
	}

	l := listen(t)
	_, err := l.Accept(within(t, 20*time.Millisecond))
	wants(t, err, context.DeadlineExceeded, l.Addr().String(), "nobody connected")
	c := must(Dial(ctx, l.Addr().String()))
	must(l.Accept(ctx)).Close()
	c.Close()
	l.Close()
	_, err = l.Accept(ctx)
	wants(t, err, fs.ErrClosed)
}

// A peer that does not read: the frame is cut off, and with it the conversation.
func TestSendBlocks(t *testing.T) {
	noLeaks(t)
	x, y := net.Pipe()
	defer y.Close()
	a := New(x, Dialer)
	defer a.Close()
	go io.CopyN(io.Discard, y, 5)
	err := a.Send(within(t, 50*time.Millisecond), TypeUser, "hello")
	wants(t, err, context.DeadlineExceeded)
	wants(t, a.Send(t.Context(), TypeUser, 1), context.DeadlineExceeded, "cut off")
}

func TestWatch(t *testing.T) {
	a, b := pair(t)
	ctx, stop := a.Watch(t.Context())
	other, stopOther := a.Watch(t.Context())
	stopOther()
	<-other.Done()
	if err := context.Cause(other); err != context.Canceled || ctx.Err() != nil {
		t.Errorf("cause %v", err)
	}
	// Frames do not end it and are not lost.
	if err := b.Send(t.Context(), TypeUser, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Receive(ctx, TypeUser, nil); err != nil {
		t.Fatal(err)
	}
	go b.Fail(syscall.ENODEV)
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("not told")
	}
	wants(t, context.Cause(ctx), ErrNoDevice, a.Peer(), "the peer failed")
	stop()

	// An end before the watch counts too.
	ctx, stop = a.Watch(t.Context())
	defer stop()
	<-ctx.Done()
	wants(t, context.Cause(ctx), ErrNoDevice)
}

func TestListen(t *testing.T) {
	l := listen(t)
	if a := l.Addr().(*net.TCPAddr); !a.IP.IsLoopback() {
		t.Errorf("bound to %v", a)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err := Listen(t.Context(), ":"+port)
	wants(t, err, syscall.EADDRINUSE, "port "+port, "ss -ltnp", "another port")
	_, err = Listen(t.Context(), "203.0.113.7:0")
	wants(t, err, syscall.EADDRNOTAVAIL, "203.0.113.7:0", "ip addr")
	for _, bad := range []string{"", "host", "::1:5:6", "[::1"} {
		_, err = Listen(t.Context(), bad)
		wants(t, err, ErrUsage, "HOST:PORT")
		_, err = Dial(t.Context(), bad)
		wants(t, err, ErrUsage, "HOST:PORT")
	}
}

func TestDial(t *testing.T) {
	noLeaks(t)
	l := must(Listen(t.Context(), ":0"))
	addr := l.Addr().String()
	l.Close()

	waiting := 0
	o := DialOptions{Window: 150 * time.Millisecond, Waiting: func(error) { waiting++ }}
	start := time.Now()
	_, err := o.Dial(t.Context(), addr)
	wants(t, err, syscall.ECONNREFUSED, addr, "tried", "is the other side started")
	if took := time.Since(start); took < o.Window || took > o.Window+2*time.Second || waiting != 1 {
		t.Errorf("took %v, said so %d times", took, waiting)
	}
	_, err = Dial(within(t, 50*time.Millisecond), addr)
	wants(t, err, syscall.ECONNREFUSED, addr, "tried")
	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = Dial(cancelled, addr)
	wants(t, err, context.Canceled, addr)

	// A listener that comes later is found.
	late := make(chan *Listener, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		late <- must(Listen(context.Background(), addr))
	}()
	c, err := Dial(t.Context(), addr)
	l = <-late
	if err != nil {
		t.Fatal(err)
	}
	must(l.Accept(t.Context())).Close()
	c.Close()
	l.Close()
}

// The options that make TCP notice a peer that is gone without a word.
func TestKeepAlive(t *testing.T) {
	c, _ := raw(t)
	rc := must(c.nc.(*net.TCPConn).SyscallConn())
	rc.Control(func(fd uintptr) {
		for name, o := range map[string]struct{ level, option, want int }{
			"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 2},
			"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
			"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
			"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000},
		} {
			if got, err := unix.GetsockoptInt(int(fd), o.level, o.option); err != nil || got != o.want {
				t.Errorf("%s is %d, want %d (%v)", name, got, o.want, err)
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{}, uint32(0))
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint32(0))
	f.Add(header(func([]byte) {}), uint32(0))
	f.Add(header(func(h []byte) { h[15] = 1; h[8] = 0xff }), uint32(1))
	f.Add(append(appendHeader(nil, typeError, 2, 0), "{}"...), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, number uint32) {
		r := bytes.NewReader(b)
		fr, err := readFrame(r, number)
		if err != nil {
			var e *Error
			if err != io.EOF && !errors.As(err, &e) {
				t.Fatalf("error without a name: %v", err)
			}
			return
		}
		used := b[:len(b)-r.Len()]
		again := append(appendHeader(nil, fr.typ, len(fr.payload), number), fr.payload...)
		if !bytes.Equal(used, again) || len(fr.payload) > MaxPayload {
			t.Fatalf("%x was read as %x", used, again)
		}
		if fr.typ == typeError {
			if text := remoteError(fr.payload).Error(); strings.ContainsAny(text, "\x1b\n\r\x00") {
				t.Fatalf("error text %q", text)
			}
		}
	})
}
