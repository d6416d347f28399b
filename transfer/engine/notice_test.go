package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestCounterKnowsWhatCame: in any order within a window, over several turns of the
// 16 bits, a sequence was counted from when it was on. What comes later than that
// counts, and is nothing to those that are on their way.
func TestCounterKnowsWhatCame(t *testing.T) {
	var c Counter
	r := rand.New(rand.NewPCG(1, 1))
	const count = 3 << sequenceBits
	var want uint64
	take := func(n int) {
		c.take(uint16(n))
		want++
	}
	for base := 0; base < count; base += noticeWindow {
		late := base - (4+r.IntN(20))*noticeWindow
		for _, i := range r.Perm(noticeWindow) {
			if c.has(uint16(base + i)) {
				t.Fatalf("notice %d has come before it came", base+i)
			}
			take(base + i)
			if late >= 0 {
				take(late + i)
			}
			if back := base + i - r.IntN(noticeWindow); back < base && back >= 0 && !c.has(uint16(back)) || !c.has(uint16(base+i)) {
				t.Fatalf("when notice %d had come, it or %d is not known", base+i, back)
			}
			if ahead := base + i + noticeWindow; i == 0 && c.has(uint16(ahead)) {
				t.Fatalf("notice %d has come with %d", ahead, base+i)
			}
		}
	}
	if c.Count() != want {
		t.Errorf("%d counted, want %d", c.Count(), want)
	}
}

// TestSequencesStayWithinAWindow: what has not completed is never so far apart that
// the receiver does not know it, with several workers and completions in any order.
func TestSequencesStayWithinAWindow(t *testing.T) {
	var o outgoing
	var c Counter
	const workers, each = 4, 20_000
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var flight []uint16
			for sent := 0; sent < each; {
				s, ok := o.take()
				if ok {
					sent++
					flight = append(flight, s)
				}
				for !ok && len(flight) > 0 || len(flight) > 200 {
					i := r.IntN(len(flight))
					s := flight[i]
					flight[i] = flight[len(flight)-1]
					flight = flight[:len(flight)-1]
					if c.has(s) {
						t.Errorf("sequence %d has come before it came", s)
						return
					}
					c.take(s)
					if !c.has(s) {
						t.Errorf("sequence %d came, and is not known", s)
						return
					}
					o.arrived(s)
					ok = true
				}
			}
			for _, s := range flight {
				c.take(s)
				o.arrived(s)
			}
		})
	}
	group.Wait()
	if c.Count() != workers*each {
		t.Errorf("%d counted, want %d", c.Count(), workers*each)
	}
}

// TestCounterWaits: early notices count, later ones wake, an end is told once it
// matters.
func TestCounterWaits(t *testing.T) {
	var c Counter
	c.take(0)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := c.Wait(ctx, 1); err != nil {
		t.Error(err)
	}
	called := make(chan uint64, 2)
	c.Call(1, func() { called <- 1 })
	c.Call(3, func() { called <- 3 })
	waited := make(chan error, 1)
	go func() { waited <- c.Wait(ctx, 3) }()
	c.take(2)
	c.take(1)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if a, b := <-called, <-called; a != 1 || b != 3 {
		t.Errorf("called at %d and %d, want 1 and 3", a, b)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := c.Wait(short, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for what does not come: %v", err)
	}
	gone := errors.New("gone")
	c.end(gone)
	if err := c.Wait(ctx, 4); !errors.Is(err, gone) {
		t.Errorf("waiting for a peer that is gone: %v", err)
	}
	if err := c.Wait(ctx, 3); err != nil {
		t.Errorf("what came before the end: %v", err)
	}
}

// TestCountersAreBounded: a peer cannot make as many as it likes.
func TestCountersAreBounded(t *testing.T) {
	var s counters
	for n := range Number(10) {
		if s.find(n*1000, 10) == nil {
			t.Fatalf("number %d of 10 has no counter", n)
		}
	}
	if s.find(7, 10) != nil {
		t.Error("an eleventh was made")
	}
	if s.find(3000, 10) == nil {
		t.Error("one that there is was not found")
	}
}

// TestAWorkerThatStands: while one of the peer's workers stands still, thousands of
// notices pass by the other. Those that it finds when it goes on count as well.
func TestAWorkerThatStands(t *testing.T) {
	p := newPairOf(t, 2, 2, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for side := range p.e { // both rails are up
		for p.e[side].Stats()[0].Up+p.e[side].Stats()[1].Up < 2 {
			time.Sleep(time.Millisecond)
		}
	}
	const number, by1, by0 = 3, 64, 4*noticeWindow + 128
	var sent uint64
	notify := func(worker uint32) {
		t.Helper()
		p.peer[0].next.Store(worker + 1) // whose turn is after that
		w, err := p.peer[0].Notify(ctx, number)
		if err == nil {
			err = w.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		sent++
		w.Release()
	}
	stands, goOn := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(goOn) })
	defer letGo()
	p.e[1].workers[1].do(func() { close(stands); <-goOn })
	<-stands
	for range by1 {
		notify(1)
	}
	for range by0 {
		notify(0)
	}
	c := p.peer[1].Counter(number)
	if err := c.Wait(ctx, by0); err != nil {
		t.Error(err)
	}
	if n := c.Count(); n != by0 {
		t.Errorf("%d notices passed by the other, want %d", n, by0)
	}
	letGo()
	if err := c.Wait(ctx, sent); err != nil {
		t.Error(err)
	}
	if n := c.Count(); n != sent {
		t.Errorf("%d notices counted, %d were sent", n, sent)
	}
}
