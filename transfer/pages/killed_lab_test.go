//go:build lab

package pages

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// sending sends without end from this process.
func sending(t *testing.T, at string) <-chan outcome {
	n := open(t, labOptions())
	c := make(chan outcome, 1)
	go func() { c <- send(context.Background(), n, at, without) }()
	return c
}

func TestASenderThatIsKilled(t *testing.T) {
	addr := inLab(t)
	l := listen(t, open(t, labOptions()), addr, ListenOptions{})
	got := receive(l)
	cmd, lines := child(t, "to", l.Addr().String())
	busy(t, lines)
	cmd.Process.Kill()
	if r := within(t, 30*time.Second, got); !errors.Is(r.err, engine.ErrLost) {
		t.Errorf("the receiver: %v", r.err)
	} else {
		t.Log(r.err)
	}
	cmd.Wait()
}

func TestAReceiverThatIsKilled(t *testing.T) {
	addr := inLab(t)
	cmd, lines := child(t, "listen", addr)
	got := sending(t, await(t, lines, "listening"))
	busy(t, lines)
	cmd.Process.Kill()
	if s := within(t, 30*time.Second, got); !errors.Is(s.err, engine.ErrLost) {
		t.Errorf("the sender: %v", s.err)
	} else {
		t.Log(s.err)
	}
	cmd.Wait()
}

func TestAnInterruptIsToldToTheOther(t *testing.T) {
	addr := inLab(t)
	for _, role := range []string{"to", "listen"} {
		t.Run(role, func(t *testing.T) {
			var cmd *exec.Cmd
			var lines *bufio.Scanner
			var got <-chan outcome
			if role == "to" {
				l := listen(t, open(t, labOptions()), addr, ListenOptions{})
				cmd, lines = child(t, "to", l.Addr().String())
				got = receive(l)
			} else {
				cmd, lines = child(t, "listen", addr)
				got = sending(t, await(t, lines, "listening"))
			}
			busy(t, lines)
			cmd.Process.Signal(os.Interrupt)
			if end := await(t, lines, "ended:"); !strings.Contains(end, ErrCancelled.Error()) || !strings.HasSuffix(end, "objects: map[]") {
				t.Errorf("the interrupted process: %s", end)
			}
			if o := within(t, 30*time.Second, got); o.err == nil || !strings.Contains(o.err.Error(), ErrCancelled.Error()) {
				t.Errorf("the other: %v", o.err)
			}
			cmd.Wait()
		})
	}
}

// TestAPeerThatStandsStill: the receiver gives up in its time. A machine under load
// may itself stand still for so long before the peer was stopped; that shows
// nothing, and the next receiver has more patience.
func TestAPeerThatStandsStill(t *testing.T) {
	addr := inLab(t)
	for _, patience := range []time.Duration{2 * time.Second, 6 * time.Second, 15 * time.Second} {
		if standsStill(t, addr, patience) {
			return
		}
		t.Logf("the machine stood still for %v", patience)
	}
	t.Error("no peer could be stopped inside a transfer")
}

// standsStill is false if the transfer ended before the peer was stopped.
func standsStill(t *testing.T, addr string, patience time.Duration) bool {
	t.Helper()
	o := labOptions()
	o.Timeout = patience
	l := listen(t, open(t, o), addr, ListenOptions{})
	got := receive(l)
	cmd, lines := child(t, "to", l.Addr().String())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	inside := true
	for i := 0; i < 3 && inside; i++ {
		_, inside = find(lines, string(StageVerify))
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	early := !inside
	var r outcome
	select {
	case r = <-got:
		early = true
	default:
		r = within(t, patience+30*time.Second, got)
	}
	if !errors.Is(r.err, ErrTimeout) && !errors.Is(r.err, engine.ErrLost) {
		t.Fatalf("the receiver: %v", r.err)
	}
	return !early
}
