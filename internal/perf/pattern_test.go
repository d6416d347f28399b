package perf

import (
	"errors"
	"testing"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func TestPatternFindsEveryFlippedByte(t *testing.T) {
	for _, size := range []int{1, 2, 7, 8, 9, 63, 64, 100} {
		b := make([]byte, size)
		p := pattern{seed: 42, queue: 3, slot: 5}
		p.fill(b)
		if err := p.check(b, size); err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		for i := range b {
			b[i] ^= 0x10
			var v *VerifyError
			err := p.check(b, size)
			if !errors.As(err, &v) || v.Offset != i || v.Got != b[i] || v.Want != b[i]^0x10 || !errors.Is(err, exchange.ErrVerification) {
				t.Errorf("size %d, byte %d: %v", size, i, err)
			}
			b[i] ^= 0x10
		}
	}
}

func TestPatternsOfNeighboursDiffer(t *testing.T) {
	base := pattern{1, 0, 0}
	seen := map[uint64]pattern{base.word(0): base}
	for _, p := range []pattern{{2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 1, 1}} {
		if q, ok := seen[p.word(0)]; ok {
			t.Errorf("%v begins as %v does", p, q)
		}
		seen[p.word(0)] = p
	}
	if base.word(0) == base.word(1) {
		t.Error("the pattern repeats")
	}
}

func TestLayoutKeepsSlotsApart(t *testing.T) {
	for _, w := range []Workload{
		{Op: Write, Test: Bandwidth, Size: 8, QPs: 3, RxDepth: 512},
		{Op: Send, Test: Bandwidth, Size: 8, QPs: 2, RxDepth: 5},
		{Op: Send, Test: Latency, Size: 100, QPs: 1, RxDepth: 512},
		{Op: Write, Test: Bandwidth, Size: 65536, QPs: 2, RxDepth: 512},
		{Op: Write, Test: Bandwidth, All: true, QPs: 1, RxDepth: 512},
	} {
		l := newLayout(&w)
		if w.Op == Send && l.slots > w.RxDepth {
			t.Errorf("%+v: %d slots for %d receives", w, l.slots, w.RxDepth)
		}
		end := 0
		for _, place := range []func(int, int) int{l.out, l.in} {
			for q := range l.queues {
				for s := range l.slots {
					at := place(q, s)
					if at < end || at%line != 0 {
						t.Fatalf("%+v: queue %d, slot %d at %d, the one before ends at %d", w, q, s, at, end)
					}
					end = at + w.largest()
				}
			}
		}
		if end > 2*l.half() {
			t.Errorf("%+v: %d bytes of %d", w, end, 2*l.half())
		}
	}
}

func TestCheckInLooksAtWhatWasFilled(t *testing.T) {
	w := Workload{Op: Write, Test: Bandwidth, Size: 8, QPs: 2, RxDepth: 512}
	l := newLayout(&w)
	sender, receiver := make([]byte, 2*l.half()), make([]byte, 2*l.half())
	l.fillOut(sender, 9, 8)
	copy(receiver[l.half():], sender[:l.half()])
	clear(receiver[l.in(1, 2):]) // queue 1 has sent two messages
	if err := l.checkIn(receiver, 9, 8, 0, []uint64{1000, 2}); err != nil {
		t.Error(err)
	}
	if err := l.checkIn(receiver, 9, 8, 0, []uint64{1000, 3}); err == nil {
		t.Error("a message that did not arrive was not missed")
	}
	if err := l.checkIn(receiver, 8, 8, 0, []uint64{1, 0}); err == nil {
		t.Error("another run's bytes passed")
	}
	receiver[l.in(0, 0)+7] ^= 1
	if err := l.checkIn(receiver, 9, 8, 1, []uint64{1, 0}); err != nil {
		t.Errorf("the byte that counts was looked at: %v", err)
	}
}
