package path

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestFailuresFreeAll lets each call of the driver fail in turn, and an interruption
// come there.
func TestFailuresFreeAll(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	o := small(t, func(o *Options) { o.Rounds, o.Min, o.Topology = 1, o.Max, twoNodes() })
	broken := errors.New("broken")
	last := 0
	for n := 1; ; n += 1 + n/30 { // what opens and the first way, then samples
		d := newFake()
		d.at = func(call int) error {
			if call == n {
				return broken
			}
			return nil
		}
		r, err := run(t.Context(), o, d, noBeat)
		if d.calls < n {
			last = n
			break
		}
		told := errors.Is(err, broken) || err == nil && r.Conditions.Unbound == broken.Error()
		if !told || d.live != 0 {
			t.Fatalf("call %d: %v; %d objects are left", n, err, d.live)
		}
	}
	if last < 200 {
		t.Errorf("only %d calls", last)
	}
	for n := 1; n < last; n += 3 + n/10 {
		d := newFake()
		ctx, cancel := context.WithCancel(t.Context())
		d.at = func(call int) error {
			if call == n {
				cancel()
			}
			return nil
		}
		_, err := run(ctx, o, d, noBeat)
		cancel()
		if d.live != 0 || err != nil && (!errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "interrupted")) {
			t.Fatalf("interrupted at call %d: %v; %d objects are left", n, err, d.live)
		}
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), goroutines)
		}
	}
}

// TestStuckWorkIsNotFreed: what a GPU may still write to stays.
func TestStuckWorkIsNotFreed(t *testing.T) {
	d := newFake()
	r := &rig{o: small(t, nil), drv: d, beat: noBeat, grace: time.Millisecond}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	live := d.live
	d.stuck = true
	if err := r.lanes[0].submit(route{Piped, -1}, 0, 1000); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.lanes[0].finish(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.close(); !errors.Is(err, errLate) || d.live != live {
		t.Errorf("%v; %d of %d objects", err, d.live, live)
	}
}

func TestWatched(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var hung *HungError
	if _, err := watched(time.Millisecond, func(func()) (*Report, error) { <-release; return nil, nil }); !errors.As(err, &hung) {
		t.Error(err)
	}
	want := new(Report)
	if r, err := watched(time.Hour, func(beat func()) (*Report, error) { beat(); beat(); return want, nil }); err != nil || r != want {
		t.Error(r, err)
	}
}
