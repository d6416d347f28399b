package exchange

import (
	"context"
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
	wants(t, b.Receive(ctx, TypeUser, nil), ErrGone, b.Peer(), "closed the connection")
	wants(t, b.Err(), ErrGone, b.Peer())
	wants(t, b.Send(ctx, TypeUser, nil), ErrGone)
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

// A peer killed in the middle of a frame; the kernel resets the connection.
func TestKilled(t *testing.T) {
	c, nc := raw(t)
	nc.Write(header(func([]byte) {})[:headerSize+1])
	time.Sleep(10 * time.Millisecond)
	nc.SetLinger(0)
	nc.Close()
	wants(t, c.Receive(within(t, 5*time.Second), TypeUser, nil), ErrGone, c.Peer(), "its program has ended")
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
	// Behind another Accept, too.
	first := make(chan error, 1)
	firstCtx, end := context.WithCancel(t.Context())
	go func() {
		_, err := l.Accept(firstCtx)
		first <- err
	}()
	_, err = l.Accept(within(t, 20*time.Millisecond))
	wants(t, err, context.DeadlineExceeded, l.Addr().String(), "nobody connected")
	end()
	wants(t, <-first, context.Canceled)
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
