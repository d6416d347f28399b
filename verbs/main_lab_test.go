//go:build lab

package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// device opens the lab's device; the lab names it in the environment.
func device(t testing.TB) *Device {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	limit(t, time.Minute)
	before := Live()
	dev, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
		for kind, n := range Live() {
			if n != before[kind] {
				t.Errorf("%d objects of kind %s are left, there were %d", n, kind, before[kind])
			}
		}
	})
	return dev
}

// limit ends the whole run, with every goroutine's stack, where a test hangs.
func limit(t testing.TB, d time.Duration) {
	timer := time.AfterFunc(d, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s still runs after %v", t.Name(), d))
	})
	t.Cleanup(func() { timer.Stop() })
}

// must closes what a test made, in the reverse order of making.
func must[T interface{ Close() error }](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return v
	}
}

// rdma skips a test that needs verbs-level connections, which iWARP lacks.
func rdma(t testing.TB, dev *Device) {
	if dev.Transport() == TransportIWARP {
		t.Skip("iWARP connects through the RDMA CM only; verbs/exchange tests that")
	}
}

const allAccess = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic

// pair is two connected queue pairs of one process with a region each.
type pair struct {
	dev *Device
	pd  *PD
	cq  [2]*CQ
	qp  [2]*RC
	mem [2]*Buffer
	mr  [2]*MR
}

func connected(t testing.TB, o QPOptions, size int, c ConnectOptions) *pair {
	t.Helper()
	return connectedOver(t, o, CQOptions{Depth: 512}, size, c)
}

func connectedOver(t testing.TB, o QPOptions, cqo CQOptions, size int, c ConnectOptions) *pair {
	t.Helper()
	p := &pair{dev: device(t)}
	rdma(t, p.dev)
	p.pd = must[*PD](t)(p.dev.AllocPD())
	var ends [2]Endpoint
	for i := range 2 {
		p.mem[i] = must[*Buffer](t)(NewBuffer(size, BufferOptions{}))
		p.mr[i] = must[*MR](t)(p.pd.Register(p.mem[i].Bytes(), allAccess))
		p.cq[i] = must[*CQ](t)(p.dev.CreateCQ(cqo))
		oi := o
		oi.CQ = p.cq[i]
		p.qp[i] = must[*RC](t)(p.pd.CreateRC(oi))
		var err error
		if ends[i], err = p.qp[i].Endpoint(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if err := p.qp[i].Connect(ends[1-i], c); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// complete polls until n completions came, or fails the test.
func complete(t testing.TB, q *CQ, n int) []Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := make([]Completion, n)
	for got := 0; got < n; {
		k, err := q.Poll(out[got:])
		if err != nil {
			t.Fatal(err)
		}
		if got += k; k == 0 && ctx.Err() != nil {
			t.Fatalf("%d of %d completions after 20 s", got, n)
		}
	}
	return out
}

// batches makes the batches of a queue pair, to be closed with the test.
func batches(t testing.TB, q *QP) (*Batch, *RecvBatch) {
	b, r := q.Batch(), q.RecvBatch()
	t.Cleanup(b.Close)
	t.Cleanup(r.Close)
	return b, r
}

// status posts the batch, whose requests are all signaled, and gives how each
// of them ended.
func status(t testing.TB, q *CQ, b *Batch) []Status {
	t.Helper()
	n := b.Len()
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
	var out []Status
	for _, c := range complete(t, q, n) {
		out = append(out, c.Status)
	}
	return out
}

// nothing checks that no completion is left over.
func nothing(t testing.TB, q *CQ) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	var c [1]Completion
	if n, err := q.Poll(c[:]); n != 0 || err != nil {
		t.Errorf("one completion too many: %+v, %v", c[0], err)
	}
}

// refused checks an error's class, and that its text says what a person needs.
func refused(t testing.TB, err error, class error, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got %v, want %v", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}

// event waits for the device's next asynchronous event of a type.
func event(t testing.TB, dev *Device, want EventType) AsyncEvent {
	t.Helper()
	e, err := eventWithin(t, dev, want, 20*time.Second)
	if err != nil {
		t.Fatalf("waiting for %v: %v", want, err)
	}
	return e
}

func eventWithin(t testing.TB, dev *Device, want EventType, d time.Duration) (AsyncEvent, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for {
		e, err := dev.NextEvent(ctx)
		if err != nil || e.Type == want {
			return e, err
		}
		t.Logf("another event: %v", e)
	}
}

// overfill posts with post until a queue refuses, and gives how many it took
// before: drivers round sizes up and do not always say so.
func overfill(t testing.TB, post func() error) (int, error) {
	t.Helper()
	for n := range 4096 {
		if err := post(); err != nil {
			return n, err
		}
	}
	t.Fatal("a queue without end")
	return 0, nil
}

const (
	errInvalid  = syscall.EINVAL
	errNoMemory = syscall.ENOMEM
)

func dupFD(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }
