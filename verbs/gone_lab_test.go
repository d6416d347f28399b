//go:build lab

package verbs

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAnObjectThatIsDroppedIsReported(t *testing.T) {
	dev := device(t)
	lost := make(chan string, 10)
	ReportLeaks(func(text string) { lost <- text })
	defer ReportLeaks(nil)
	pd := must[*PD](t)(dev.AllocPD())
	handle := drop(t, pd)
	for range 50 {
		runtime.GC()
		select {
		case text := <-lost:
			if !strings.HasPrefix(text, "mr lkey") || !strings.Contains(text, "gone_lab_test.go") {
				t.Errorf("the report says %q", text)
			}
			refused(t, pd.Close(), ErrBusy, "dropped without Close")
			handle()
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the lost region was not reported")
}

// drop loses a region and gives what cleans up behind it, by C's pointer.
func drop(t *testing.T, pd *PD) func() {
	mem := must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
	mr, err := pd.Register(mem.Bytes(), LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	raw, tag := mr.mr, mr.life.Tag()
	return func() {
		again := &MR{pd: pd, mr: raw}
		again.life.Adopt(objects, tag, &pd.life)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestForkNeedsNothingOnThisKernel(t *testing.T) {
	device(t)
	s, err := ForkStatus()
	if errors.Is(err, ErrUnsupported) {
		t.Skip("needs ibv_is_fork_initialized in libibverbs: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s != ForkUnneeded {
		t.Errorf("fork status %d: kernels from 5.12 on copy pinned pages at fork", s)
	}
	if err := ForkInit(); err != nil {
		// Older libraries refuse after the first registration, even where
		// there is nothing to do.
		refused(t, err, errInvalid, "before the first registration")
	}
}

// rdmaTool runs a command of iproute2, for at most some seconds.
func rdmaTool(t *testing.T, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return err
}

func TestADeviceIsRemovedUnderAnOpenContext(t *testing.T) {
	if driver := device(t); !driver.isRXE() {
		t.Skip("needs rxe: make test-lab runs it as 7.3/rxe")
	}
	for _, args := range [][]string{
		{"ip", "link", "add", "gone0", "type", "dummy"},
		{"ip", "addr", "add", "198.18.0.1/24", "dev", "gone0"},
		{"ip", "link", "set", "gone0", "up"},
		{"rdma", "link", "add", "gonerxe", "type", "rxe", "netdev", "gone0"},
	} {
		if err := rdmaTool(t, args...); err != nil {
			t.Skip("needs a dummy interface and a second rxe device on it, which this kernel does not make")
		}
	}
	dev, err := Open("gonerxe")
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	ch, err := dev.CreateChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(CQOptions{Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	var qp [2]*RC
	for i := range qp {
		if qp[i], err = pd.CreateRC(QPOptions{CQ: cq}); err != nil {
			t.Fatal(err)
		}
	}
	join(t, qp[0], qp[1], ConnectOptions{})
	rb := qp[1].RecvBatch()
	defer rb.Close()
	rb.Recv(Slice{}, 1)
	if err := rb.Post(); err != nil {
		t.Fatal(err)
	}
	if err := cq.RequestNotify(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	events := make(chan AsyncEvent, 16)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := dev.NextEvent(ctx)
			if err != nil {
				t.Logf("NextEvent ended with %v", err)
				return
			}
			events <- e
		}
	})
	wg.Go(func() {
		_, err := ch.Wait(ctx)
		t.Logf("Wait ended with %v", err)
	})
	deleted := make(chan error, 1)
	go func() { deleted <- rdmaTool(t, "rdma", "link", "del", "gonerxe") }()
	waits := false
	select {
	case err := <-deleted:
		t.Logf("the deletion ended at once: %v", err)
	case <-time.After(2 * time.Second):
		waits = true
		t.Log("the deletion waits for the open context")
	}
	wg.Wait() // by the context's end at the latest
	close(events)
	fatal := false
	for e := range events {
		t.Logf("event: %v", e)
		fatal = fatal || e.Type == EventDeviceFatal
	}
	// What is posted and polled now ends in some way; it neither hangs nor
	// crashes.
	b := qp[0].Batch()
	defer b.Close()
	b.Send(Slice{}, 2)
	t.Logf("posting afterwards: %v", b.Post())
	n, err := cq.Poll(make([]Completion, 4))
	t.Logf("polling afterwards: %d, %v", n, err)
	_, err = qp[0].State()
	t.Logf("querying afterwards: %v", err)
	switch {
	case !waits && !fatal:
		t.Error("the device went without an event")
	case !waits && err == nil:
		t.Error("the queue pair of a device that is gone has a state")
	case waits && err != nil:
		t.Error("the device waits to go and does not work meanwhile")
	}
	for _, c := range []interface{ Close() error }{qp[0], qp[1], cq, ch, pd, dev} {
		if err := c.Close(); err != nil {
			t.Errorf("closing after the removal: %v", err)
		}
	}
	settles(t, "devices", 0, func() int {
		infos, _ := Devices()
		n := 0
		for _, i := range infos {
			if i.Name == "gonerxe" {
				n++
			}
		}
		return n
	})
	if waits {
		select {
		case err := <-deleted:
			t.Logf("the deletion ended after the close: %v", err)
		case <-time.After(15 * time.Second):
			t.Error("the deletion still waits")
		}
	}
	rdmaTool(t, "ip", "link", "del", "gone0")
}
