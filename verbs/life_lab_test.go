//go:build lab

package verbs

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// settles waits until a count is back where it was.
func settles(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	for range 100 {
		if count() <= want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d %s are left, there were %d", count(), what, want)
}

func TestClosingEverythingLeavesNothing(t *testing.T) {
	fds, goroutines, before := 0, 0, Live()
	for round := range 3 {
		t.Run("round", func(t *testing.T) {
			dev := device(t)
			pd := must[*PD](t)(dev.AllocPD())
			ch := must[*Channel](t)(dev.CreateChannel())
			cq := must[*CQ](t)(dev.CreateCQ(CQOptions{Channel: ch}))
			mem := must[*Buffer](t)(NewBuffer(1<<16, BufferOptions{}))
			must[*MR](t)(pd.Register(mem.Bytes(), allAccess))
			qp := must[*QP](t)(pd.CreateQP(QPOptions{CQ: cq}))
			batches(t, qp)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			ch.Wait(ctx)
			dev.NextEvent(ctx)
		})
		if round == 0 { // the library's own descriptors are open now
			fds, goroutines = descriptors(t), runtime.NumGoroutine()
		}
	}
	settles(t, "descriptors", fds, func() int { return descriptors(t) })
	settles(t, "goroutines", goroutines, runtime.NumGoroutine)
	for kind, n := range Live() {
		if n != before[kind] {
			t.Errorf("%d objects of kind %s, were %d", n, kind, before[kind])
		}
	}
}

func TestClosingNamesWhoStandsOnAnObject(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	mem := must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{}))
	mr := must[*MR](t)(pd.Register(mem.Bytes(), allAccess))
	qp := must[*QP](t)(pd.CreateQP(QPOptions{CQ: cq}))
	refused(t, dev.Close(), ErrBusy, pd.name(), cq.name())
	refused(t, pd.Close(), ErrBusy, mr.name(), qp.name())
	refused(t, cq.Close(), ErrBusy, qp.name())
	for range 2 {
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := qp.State()
	refused(t, err, ErrClosed)
	refused(t, qp.Fail(), ErrClosed)
	if err := cq.Close(); err != nil {
		t.Error(err)
	}
	_, err = cq.Poll(make([]Completion, 1))
	refused(t, err, ErrClosed)
	_, err = pd.CreateQP(QPOptions{CQ: cq})
	refused(t, err, ErrClosed, cq.name())
	if s := mr.At(0, 8); s.bad {
		t.Error("a slice of an open region is bad")
	}
	mr.Close()
	if s := mr.At(0, 8); !s.bad {
		t.Error("a slice of a closed region is good")
	}
}

func TestManyMayCloseAtOnce(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	mem := must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
	for range 20 {
		mr, err := pd.Register(mem.Bytes(), allAccess)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := mr.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestClosingAChannelEndsItsWaiters(t *testing.T) {
	dev := device(t)
	ch, err := dev.CreateChannel()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := ch.Wait(context.Background())
			ended <- err
		}()
	}
	time.Sleep(50 * time.Millisecond)
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case err := <-ended:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("the waiter got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a waiter hangs")
		}
	}
	_, err = ch.Wait(context.Background())
	refused(t, err, ErrClosed)
}

func TestClosingADeviceEndsNextEvent(t *testing.T) {
	name := device(t).Name()
	dev, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := dev.NextEvent(context.Background()); err != nil {
				ended <- err
				return
			}
		}
	}()
	time.Sleep(50 * time.Millisecond)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the waiter got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the waiter hangs")
	}
}

// A queue is closed while another goroutine takes its events: each event is
// acknowledged exactly once, or the library would wait for ever.
func TestAQueueIsClosedWhileItsEventsAreTaken(t *testing.T) {
	dev := device(t)
	rdma(t, dev)
	pd := must[*PD](t)(dev.AllocPD())
	ch := must[*Channel](t)(dev.CreateChannel())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			ch.Wait(ctx)
		}
	})
	for range 50 {
		cq, err := dev.CreateCQ(CQOptions{Channel: ch})
		if err != nil {
			t.Fatal(err)
		}
		qp, err := pd.CreateRC(QPOptions{CQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		cq.RequestNotify(false)
		rb := qp.RecvBatch()
		rb.Recv(Slice{}, 1)
		if err := rb.Post(); err != nil {
			t.Fatal(err)
		}
		rb.Close()
		if err := qp.Fail(); err != nil {
			t.Fatal(err)
		}
		if err := qp.Close(); err != nil {
			t.Fatal(err)
		}
		if err := cq.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
}
