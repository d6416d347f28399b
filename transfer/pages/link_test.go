package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestTwoFabrics: the devices of two processes reach each other through a link, here
// those of two fabrics.
func TestTwoFabrics(t *testing.T) {
	here, there := embedded(t, transfer.EmbeddedOptions{NICs: 2}), embedded(t, transfer.EmbeddedOptions{NICs: 2})
	l := listen(t, open(t, Options{Rail: here.Node(0)}), "127.0.0.1:0", ListenOptions{})
	sender := open(t, Options{Rail: there.Node(0)})
	for round, read := range []bool{false, true, false} {
		got := receive(l)
		what := endless
		what.Iterations, what.Read = 3, read
		s := send(t.Context(), sender, l.Addr().String(), what)
		r := within(t, time.Minute, got)
		if s.err != nil || r.err != nil {
			t.Fatalf("round %d: %v, %v", round, s.err, r.err)
		}
		sent, received := s.result, r.result
		if !sent.Verified || !received.Verified || sent.Checksum != received.Checksum || received.Conditions.NICs != 2 || received.Bytes != 3*what.Layout.Bytes() {
			t.Errorf("round %d: %s\n%s", round, show(sent), show(received))
		}
		// The pages did go through TCP, and the results say so.
		if sent.LinkSent < sent.Bytes || received.LinkReceived < sent.Bytes || sent.LinkReceived > sent.Bytes {
			t.Errorf("round %d: through the link %d and %d bytes for %d", round, sent.LinkSent, received.LinkReceived, sent.Bytes)
		}
	}
}

// TestSeveralProcessesAtOnce: two senders, each on a fabric of its own, one listener.
func TestSeveralProcessesAtOnce(t *testing.T) {
	// All fabrics before the first engine, whose sleep has goroutines of its own: each is
	// held to the number that there was before it.
	var at []*transfer.Embedded
	for range 3 {
		at = append(at, embedded(t, transfer.EmbeddedOptions{NICs: 2}))
	}
	l := listen(t, open(t, Options{Rail: at[0].Node(0)}), "127.0.0.1:0", ListenOptions{})
	ended := make(chan outcome, 2)
	got := []<-chan outcome{receive(l), receive(l)}
	for _, e := range at[1:] {
		sender := open(t, Options{Rail: e.Node(0)})
		what := endless
		what.Iterations = 20
		go func() { ended <- send(t.Context(), sender, l.Addr().String(), what) }()
	}
	for i := range 2 {
		if s, r := within(t, time.Minute, ended), within(t, time.Minute, got[i]); s.err != nil || r.err != nil || !s.result.Verified || !r.result.Verified {
			t.Errorf("%v, %v", s.err, r.err)
		}
	}
}

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
	e, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(Options{Rail: e.Node(0), Credentials: known(t), Tell: during(func() { fmt.Println("under way") })})
	if err != nil {
		t.Fatal(err)
	}
	if role != "listen" {
		n.To(context.Background(), []string{role}, endless)
		return
	}
	l, err := n.Listen(context.Background(), "127.0.0.1:0", ListenOptions{})
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
	e := embedded(t, transfer.EmbeddedOptions{})
	ended := func(t *testing.T, o outcome) {
		t.Helper()
		if !errors.Is(o.err, engine.ErrLost) && !errors.Is(o.err, ErrTimeout) {
			t.Errorf("ended with %v", o.err)
		}
		if r := o.result; r == nil || r.Error == "" || r.LinkSent+r.LinkReceived == 0 {
			t.Error(show(r))
		}
		t.Log(o.err)
	}
	for name, signal := range map[string]syscall.Signal{"receiver killed": syscall.SIGKILL, "receiver stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			cmd, out := otherProcess(t, "TestThePeerProcessIsKilled", "listen")
			if !out.Scan() {
				t.Fatal("the other process does not listen")
			}
			n := open(t, Options{Rail: e.Node(0), Timeout: 10 * time.Second, Tell: during(func() { cmd.Process.Signal(signal) })})
			ended(t, send(t.Context(), n, strings.TrimSpace(out.Text()), endless))
		})
	}
	t.Run("sender killed", func(t *testing.T) {
		l := listen(t, open(t, Options{Rail: e.Node(0), Timeout: 20 * time.Second}), "127.0.0.1:0", ListenOptions{})
		got := receive(l)
		cmd, out := otherProcess(t, "TestThePeerProcessIsKilled", l.Addr().String())
		if !out.Scan() {
			t.Fatal("the other process does not send")
		}
		cmd.Process.Kill()
		ended(t, within(t, time.Minute, got))
	})
}
