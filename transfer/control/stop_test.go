package control

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	childAddr  = "CONTROL_TEST_ADDR"
	childToken = "CONTROL_TEST_TOKEN"
	stopLease  = 1500 * time.Millisecond
)

// A process that the kernel keeps from running: its peer finds it gone, though
// its kernel acknowledges all that comes, and it finds itself gone when it runs
// again, whatever has come meanwhile.
func TestStoppedProcess(t *testing.T) {
	if addr := os.Getenv(childAddr); addr != "" {
		child(addr)
		return
	}
	noLeaks(t)
	secret := rand.Text()
	o := Options{Heartbeat: 50 * time.Millisecond, Lease: stopLease}
	l := listen(t, must(Token(secret)), o)
	cmd := exec.Command(os.Args[0], "-test.run=^TestStoppedProcess$")
	cmd.Env = append(os.Environ(), childAddr+"="+l.Addr().String(), childToken+"="+secret)
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Signal(syscall.SIGCONT); cmd.Process.Kill(); cmd.Wait() }()
	conn, err := l.Accept(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, p, err := conn.Receive(soon(t)); err != nil || string(p) != "here" {
		t.Fatal(p, err)
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	<-conn.Done()
	wants(t, conn.Err(), ErrGone, "nothing came from it for", "stopped")
	// What it heard last may be later than what was heard of it.
	time.Sleep(stopLease / 2)
	cmd.Process.Signal(syscall.SIGCONT)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if said, ok := strings.CutPrefix(lines.Text(), "child: "); ok {
			// Who reads finds the silence; who writes a heartbeat may be the
			// first to run, and finds that the peer has closed.
			if !strings.HasPrefix(said, "true") || !strings.Contains(said, "nothing came from it for") && !strings.Contains(said, "has given this side up") {
				t.Errorf("the child says %q", said)
			}
			io.Copy(io.Discard, out)
			return
		}
	}
	t.Error("the child said nothing")
}

// child is the process that is stopped.
func child(addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := Dial(ctx, addr, must(Token(os.Getenv(childToken))), Options{Lease: stopLease})
	if err != nil {
		fmt.Println("child: false", err)
		return
	}
	conn.Send(TypeUser, []byte("here"))
	<-conn.Done()
	fmt.Println("child:", errors.Is(conn.Err(), ErrGone), conn.Err())
	conn.Close()
}
