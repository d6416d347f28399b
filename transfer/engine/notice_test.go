package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestCounterTellsRepeats: in any order within a window, each sequence counts
// once, over several turns of the 16 bits, however often it comes.
func TestCounterTellsRepeats(t *testing.T) {
	var c Counter
	r := rand.New(rand.NewPCG(1, 1))
	const count = 3 << sequenceBits
	var want uint64
	for base := 0; base < count; base += noticeWindow {
		for _, i := range r.Perm(noticeWindow) {
			if !c.take(uint16(base + i)) {
				t.Fatalf("notice %d was taken for a repeat", base+i)
			}
			want++
			// One that may be repeated still: within the window before.
			if back := base + i - r.IntN(noticeWindow); back >= base && c.take(uint16(base+i)) {
				t.Fatalf("notice %d counted twice", base+i)
			}
		}
	}
	if c.Count() != want {
		t.Errorf("%d counted, want %d", c.Count(), want)
	}
}

// TestSequencesStayWithinAWindow: what is on its way is never further apart than
// the receiver tells repeats by, with several workers and completions in any order.
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
					if !c.take(s) {
						t.Errorf("sequence %d was taken for a repeat", s)
						return
					}
					if c.take(s) {
						t.Errorf("sequence %d counted twice", s)
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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
