package transfer

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// linkRole tells a test binary that it is a test's other process: "listen", or the
// address to send to.
const linkRole = "PEERDIRECT_TEST_LINK"

// otherProcess runs a test again, as the other end, and gives its standard output.
func otherProcess(t *testing.T, test, role string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-test.v=false")
	cmd.Env = append(os.Environ(), linkRole+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// beOtherProcess is one end of a transfer without end, which its own fabric serves.
func beOtherProcess(t *testing.T, role string) {
	e, err := NewEmbedded(EmbeddedOptions{Nodes: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Rail: e.Node(0), Timeout: 10 * time.Second, Tell: during(func() { fmt.Println("under way") })}
	if role != "listen" {
		To(context.Background(), role, SendOptions{Options: o, Layout: long.Layout, Iterations: long.Iterations})
		return
	}
	l, err := Listen(context.Background(), "127.0.0.1:0", ListenOptions{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	l.Receive(context.Background())
}

// TestThePeerProcessIsKilled: an end whose peer, in another process, is killed or
// stopped while pages move ends with an error that says what happened.
func TestThePeerProcessIsKilled(t *testing.T) {
	if role := os.Getenv(linkRole); role != "" {
		beOtherProcess(t, role)
		return
	}
	e := embedded(t, EmbeddedOptions{})
	ended := func(t *testing.T, r *Result, err error, start time.Time) {
		t.Helper()
		var lost *LostError
		if !errors.Is(err, exchange.ErrPeerGone) && !errors.As(err, &lost) && !errors.Is(err, ErrTimeout) {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		if r == nil || r.Error == "" || r.LinkSent+r.LinkReceived == 0 {
			t.Errorf("%+v", r)
		}
		t.Logf("after %v: %v", time.Since(start), err)
	}
	for name, signal := range map[string]syscall.Signal{"receiver killed": syscall.SIGKILL, "receiver stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			cmd, out := otherProcess(t, "TestThePeerProcessIsKilled", "listen")
			if !out.Scan() {
				t.Fatal("the other process does not listen")
			}
			o := long
			o.Rail, o.Timeout = e.Node(0), 10*time.Second
			var start time.Time
			o.Tell = during(func() {
				start = time.Now()
				cmd.Process.Signal(signal)
			})
			sent, err := To(t.Context(), strings.TrimSpace(out.Text()), o)
			ended(t, sent, err, start)
		})
	}
	t.Run("sender killed", func(t *testing.T) {
		l, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{Options: Options{Rail: e.Node(0), Timeout: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cmd, out := otherProcess(t, "TestThePeerProcessIsKilled", l.Addr().String())
		killed := make(chan time.Time, 1)
		go func() {
			out.Scan() // it is under way
			killed <- time.Now()
			cmd.Process.Kill()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		received, err := l.Receive(ctx)
		ended(t, received, err, <-killed)
	})
}

// TestOnlyThePeerIsLinked: who does not know the token is sent away, and keeps the
// peer from nothing.
func TestOnlyThePeerIsLinked(t *testing.T) {
	l, err := exchange.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialer, err := exchange.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialer.Close()
	acceptor, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer acceptor.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := make(chan net.Conn, 1)
	go func() {
		conn, err := acceptLink(ctx, acceptor)
		if err != nil {
			t.Error(err)
		}
		got <- conn
	}()
	var offer linkOffer
	if err := dialer.Receive(ctx, typeEFALink, &offer); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{rand.Text(), "short", "", offer.Token} {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", offer.Port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write([]byte(say))
		if say == offer.Token {
			if c := <-got; c != nil {
				if c.RemoteAddr().String() != conn.LocalAddr().String() {
					t.Errorf("%v was linked, not %v", c.RemoteAddr(), conn.LocalAddr())
				}
				c.Close()
			}
			continue
		}
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: %v", say, err)
		}
	}
}
