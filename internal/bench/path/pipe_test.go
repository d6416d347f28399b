package path

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// TestStreamsMustWait: what pipes make streams wait for is needed. Without it bytes
// come that are not those sent, and are found.
func TestStreamsMustWait(t *testing.T) {
	for _, w := range []Way{Piped, Plain} {
		d := newFake()
		d.lawless = true
		_, err := run(t.Context(), small(t, func(o *Options) { o.Ways, o.Both = []Way{w}, false }), d, noBeat)
		var m *MismatchError
		if !errors.As(err, &m) || !errors.Is(err, exchange.ErrVerification) || m.Way != w || d.live != 0 {
			t.Errorf("%s: %v; %d objects left", w, err, d.live)
		}
	}
}

// TestPipeInAnyOrder: whatever the order that streams and events leave open, and
// however sizes and chunks meet.
func TestPipeInAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		d := newFake()
		d.rnd = rand.New(rand.NewPCG(seed, 3))
		o := small(t, func(o *Options) {
			o.Ways, o.Min, o.Max, o.Rounds = []Way{Piped, Plain}, 1+seed*17, 4096*5+seed*333, 1
			o.Depth = 1 + int(seed%5)
		})
		if _, err := run(t.Context(), o, d, noBeat); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestPipeOverlaps: through two buffers the next chunk comes down while the one before
// goes up, and no third; through one buffer it does not.
func TestPipeOverlaps(t *testing.T) {
	d := newFake()
	r := &rig{o: small(t, nil), drv: d, beat: noBeat, grace: time.Second}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	l := r.lanes[0]
	down := l.down.(*fakeStream)
	for _, c := range []struct {
		way   Way
		size  uint64
		waits bool
	}{
		{Piped, 2 * r.o.Chunk, false},
		{Piped, 3 * r.o.Chunk, true},
		{Plain, r.o.Chunk, false},
	} {
		if err := l.submit(route{c.way, -1}, 0, c.size); err != nil {
			t.Fatal(err)
		}
		if left := down.alone(); (left > 0) != c.waits {
			t.Errorf("%s, %d bytes: %d things of the way down are left", c.way, c.size, left)
		}
		if err := l.finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := l.submit(route{Plain, -1}, 0, r.o.Chunk); err != nil {
			t.Fatal(err)
		}
	}
	if down.alone() == 0 {
		t.Error("the second copy comes into the buffer that the first is still in")
	}
	if err := r.close(); err != nil || d.live != 0 {
		t.Errorf("%v; %d objects are left", err, d.live)
	}
}
