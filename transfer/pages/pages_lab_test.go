//go:build lab

package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestPagesArriveOverRC(t *testing.T) { pagesArrive(t) }

// pagesArrive moves pages in several layouts, written and read, and by several queue
// pairs where the device has them.
func pagesArrive(t *testing.T) {
	addr := inLab(t)
	device := os.Getenv("PEERDIRECT_DEVICE")
	for _, c := range []struct {
		o    Options
		what SendOptions
	}{
		{what: SendOptions{Layout: Layout{PageSize: 64 << 10, Pages: 64, Stride: 2, Seed: 1}, Iterations: 3}},
		{Options{Batch: 64, Depth: 512}, SendOptions{Layout: Layout{PageSize: 64, Pages: 3000, Stride: 3, Seed: 7}}},
		{what: SendOptions{Layout: Layout{PageSize: 4096, Pages: 1000, Stride: 1}}},
		{Options{Queues: 4, Batch: 3, Depth: 32}, SendOptions{Layout: Layout{PageSize: 4096, Pages: 300, Stride: 2, Seed: 2}}},
		{what: SendOptions{Layout: Layout{PageSize: 4096, Pages: 300, Stride: 2, Seed: 2}, Iterations: 2, Read: true}},
	} {
		c.o.Rail, c.o.Timeout = labOptions().Rail, labOptions().Timeout
		receiver := open(t, c.o)
		l := listen(t, receiver, addr, ListenOptions{Warn: func(err error) { t.Log(err) }})
		sender := open(t, c.o)
		if c.what.Read && !sender.Rails()[0].Reads {
			t.Log("no reads on ", device)
			continue
		}
		got := receive(l)
		s := send(context.Background(), sender, l.Addr().String(), c.what)
		if s.err != nil {
			t.Errorf("%+v: %v", c.what, s.err)
		}
		r := within(t, time.Minute, got)
		if s.err != nil || r.err != nil {
			t.Fatalf("%+v: %v, %v", c.what, s.err, r.err)
		}
		sent, received := s.result, r.result
		for _, r := range []*Result{sent, received} {
			if !r.Verified || r.Bytes != c.what.Layout.Bytes()*uint64(max(c.what.Iterations, 1)) || r.Seconds <= 0 || r.Conditions.Device != device {
				t.Error(show(r))
			}
		}
		if sent.Checksum != received.Checksum || sent.Notices != received.Notices || (sent.Latency == nil) != c.what.Read ||
			sent.ControlSent == 0 || sent.ControlSent > 8<<10 {
			t.Errorf("%s\n%s", show(sent), show(received))
		}
		t.Logf("%+v: %.1f MiB/s, %d writes, %d reads, %d notices, %d+%d control bytes", c.what, sent.PerSecond/(1<<20), sent.Writes, received.Reads, sent.Notices, sent.ControlSent, sent.ControlReceived)
		if err := errors.Join(l.Close(), receiver.Close(), sender.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLabDamagedPageIsNamed(t *testing.T) { damagedPageIsNamed(t) }

func damagedPageIsNamed(t *testing.T) {
	addr := inLab(t)
	layout := Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 3}
	at := layout.TargetSlots()(42)*4096 + 1000
	l := listen(t, open(t, labOptions()), addr, ListenOptions{corrupt: func(mem []byte) { mem[at] ^= 4 }})
	got := receive(l)
	s := send(context.Background(), open(t, labOptions()), l.Addr().String(), SendOptions{Layout: layout})
	for _, err := range []error{s.err, within(t, time.Minute, got).err} {
		var v *VerifyError
		if !errors.As(err, &v) || fmt.Sprint(v.First) != "[42]" || !errors.Is(err, ErrVerification) {
			t.Errorf("%v", err)
		}
	}
}

func TestGarbageOnThePortHarmsNobodyElse(t *testing.T) {
	addr := inLab(t)
	var warnings atomic.Int32
	l := listen(t, open(t, labOptions()), addr, ListenOptions{Warn: func(err error) {
		t.Log(err)
		warnings.Add(1)
	}})
	silent, err := net.Dial("tcp", l.Addr().String()) // and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "PDX\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x16\x03\x01", "\x00"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, garbage)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
	}
	got := receive(l)
	if s := send(context.Background(), open(t, labOptions()), l.Addr().String(), SendOptions{Layout: Layout{PageSize: 4096, Pages: 10, Stride: 1}}); s.err != nil {
		t.Error(s.err)
	}
	if r := within(t, 30*time.Second, got); r.err != nil {
		t.Error(r.err)
	}
	for end := time.Now().Add(20 * time.Second); warnings.Load() == 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	if warnings.Load() == 0 {
		t.Error("the listener's owner was told of nobody")
	}
}

func TestTwoListenersOnOnePort(t *testing.T) {
	addr := inLab(t)
	n := open(t, labOptions())
	l := listen(t, n, addr, ListenOptions{})
	if _, err := n.Listen(context.Background(), l.Addr().String(), ListenOptions{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	addr := inLab(t)
	host, _, _ := net.SplitHostPort(addr)
	o := labOptions()
	o.Control.Window = 300 * time.Millisecond
	if s := send(context.Background(), open(t, o), net.JoinHostPort(host, "1"), without); !errors.Is(s.err, syscall.ECONNREFUSED) {
		t.Errorf("%v", s.err)
	}
}

// TestTwoNodesPages runs on both of two machines.
func TestTwoNodesPages(t *testing.T) {
	inLab(t)
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: run make test-lab")
	}
	twoNodes(t, labOptions())
}

// twoNodes moves pages from one machine to the other.
func twoNodes(t *testing.T, o Options) *Result {
	t.Helper()
	what := SendOptions{Layout: Layout{PageSize: 64 << 10, Pages: 256, Stride: 2, Seed: 11}, Iterations: 2}
	at := net.JoinHostPort(strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")[0], DefaultPort)
	var got outcome
	o.Timeout, o.Control.Window = time.Minute, time.Minute
	if os.Getenv("PEERDIRECT_NODE") == "0" {
		got = within(t, 3*time.Minute, receive(listen(t, open(t, o), at, ListenOptions{})))
	} else {
		got = send(context.Background(), open(t, o), at, what)
	}
	if got.err != nil || !got.result.Verified || got.result.Bytes != 2*what.Layout.Bytes() {
		t.Fatalf("%v, %s", got.err, show(got.result))
	}
	t.Logf("%s: %.1f MiB/s, %+v", got.result.Role, got.result.PerSecond/(1<<20), got.result.Rails)
	return got.result
}
