package admit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"
)

var secret = []byte("0123456789abcdef")

// listen gives a listener; at the end of the test no goroutine is left.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			}
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("it still listened: %v", err)
		}
	})
	return l
}

func dial(t *testing.T, l net.Listener, say []byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write(say); err != nil {
		t.Fatal(err)
	}
	return c
}

// closed waits until the other side has closed.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	var ne net.Error
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &ne) && ne.Timeout() {
		t.Errorf("a stranger was not sent away: %v", err)
	}
}

// TestOne: those who say nothing, or something else, keep out nobody, and are closed.
func TestOne(t *testing.T) {
	l := listen(t)
	var strangers []net.Conn
	for i := range 40 {
		strangers = append(strangers, dial(t, l, bytes.Repeat([]byte{'x'}, i%20)))
	}
	mine := dial(t, l, append(bytes.Clone(secret), "hello"...))
	c, err := One(t.Context(), l, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.RemoteAddr().String() != mine.LocalAddr().String() {
		t.Errorf("%v was let in, not %v", c.RemoteAddr(), mine.LocalAddr())
	}
	got := make([]byte, 5)
	if _, err := c.Read(got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	for _, s := range strangers {
		closed(t, s)
	}
}

// TestEach: every one with its number, once; what is not wanted is closed.
func TestEach(t *testing.T) {
	l := listen(t)
	for _, i := range []byte{2, 0, 2, 1} {
		dial(t, l, append(bytes.Clone(secret), i))
	}
	var had [3]net.Conn
	left := len(had)
	err := Each(t.Context(), l, secret, 1, func(c net.Conn, more []byte) (mine, enough bool) {
		if mine = had[more[0]] == nil; mine {
			had[more[0]] = c
			left--
		}
		return mine, left == 0
	})
	if err != nil || left > 0 {
		t.Errorf("%d are missing: %v", left, err)
	}
	for _, c := range had {
		if c != nil {
			c.Close()
		}
	}
}

// TestNobody: the end of the context ends the wait, with its cause.
func TestNobody(t *testing.T) {
	l := listen(t)
	silent := dial(t, l, secret[:3])
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("by the test")
	time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
	if c, err := One(ctx, l, secret); c != nil || !errors.Is(err, cause) {
		t.Errorf("%v, %v", c, err)
	}
	closed(t, silent)
}
