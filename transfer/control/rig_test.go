package control

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// soon bounds what takes no time unless it hangs.
func soon(t *testing.T) context.Context { return within(t, 20*time.Second) }

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func descriptors() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(names)
}

// noLeaks fails a test that leaves goroutines or descriptors; called first.
func noLeaks(t *testing.T) {
	// The runtime's own descriptors to wait by come with the first socket.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
	goroutines, files := runtime.NumGoroutine(), descriptors()
	t.Cleanup(func() {
		for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines || descriptors() > files; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines and %d descriptors are left, there were %d and %d:\n%s",
					runtime.NumGoroutine(), descriptors(), goroutines, files, buf[:runtime.Stack(buf, true)])
			}
		}
	})
}

// wants checks the class of an error and what it says.
func wants(t *testing.T, err error, class error, words ...string) {
	t.Helper()
	if e := new(Error); !errors.Is(err, class) || class == nil && err != nil || err != nil && !errors.As(err, &e) {
		t.Errorf("got %T %v, want an error that is %v", err, err, class)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if text := err.Error(); strings.ContainsAny(text, "\n\x1b\x00") || strings.Contains(text, "%!") {
		t.Errorf("%q is not plain", text)
	}
}

func token(t *testing.T) Credentials {
	t.Helper()
	return must(Token(rand.Text()))
}

// issued makes certificates for names in one directory.
func issued(t *testing.T, names ...string) map[string]Credentials {
	t.Helper()
	out := must(Issue(filepath.Join(t.TempDir(), "pki"), names, 0))
	all := make(map[string]Credentials)
	for _, c := range out.Certificates {
		all[c.Name] = must(CertificateFiles(c.Certificate, c.Key, out.Authority))
	}
	return all
}

// valid makes credentials that are valid from and to, whatever the time is.
func valid(t *testing.T, a *authority, name string, from, to time.Duration) Credentials {
	t.Helper()
	now := time.Now()
	der, key, err := a.issue(name, now.Add(from), now.Add(to))
	if err != nil {
		t.Fatal(err)
	}
	return raw(a, name, der, key)
}

func listen(t *testing.T, c Credentials, o Options) *Listener {
	t.Helper()
	l := must(Listen(t.Context(), ":0", c, o))
	t.Cleanup(func() { l.Close() })
	return l
}

// join dials a listener, at an address that leads to it, and accepts.
func join(t *testing.T, l *Listener, addr string, c Credentials, o Options) (dialled, accepted *Conn) {
	t.Helper()
	var err error
	if dialled, err = Dial(soon(t), addr, c, o); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(soon(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

// pair is two sides with a token.
func pair(t testing.TB, dial, accept Options) (dialled, accepted *Conn) {
	t.Helper()
	c := must(Token(rand.Text()))
	l := must(Listen(context.Background(), ":0", c, accept))
	dialled = must(Dial(context.Background(), l.Addr().String(), c, dial))
	accepted = must(l.Accept(context.Background()))
	l.Close()
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

// relay is a wire to a server that can be cut, or swallow what it carries.
type relay struct {
	net.Listener
	mu    sync.Mutex
	mute  bool
	conns []net.Conn
}

// wire makes a relay to addr.
func wire(t *testing.T, addr string) *relay {
	t.Helper()
	r := &relay{Listener: must(net.Listen("tcp", "127.0.0.1:0"))}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := r.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			running.Go(func() { r.carry(in, out) })
			running.Go(func() { r.carry(out, in) })
		}
	})
	t.Cleanup(func() { r.Close(); r.cut(); running.Wait() })
	return r
}

func (r *relay) addr() string { return r.Listener.Addr().String() }

func (r *relay) carry(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		mute := r.mute
		r.mu.Unlock()
		if err != nil {
			if half, ok := to.(*net.TCPConn); ok && err == io.EOF && !mute {
				half.CloseWrite()
			}
			return
		}
		if !mute {
			to.Write(buf[:n])
		}
	}
}

// swallow takes whatever comes and carries nothing, as a kernel that acknowledges
// for a process that has stopped.
func (r *relay) swallow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = true
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}
