package railtest

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

func outsideRefused(t *testing.T, open Open) {
	b := setup(t, open, 4096)
	good := b.write(0, 0, 0, 64, 1)
	for name, bad := range map[string]transfer.Op{
		"local":    b.write(0, 4090, 0, 64, 2),
		"remote":   b.write(0, 0, 4090, 64, 2),
		"past":     b.write(0, 5000, 0, 0, 2),
		"id":       b.write(0, 0, 0, 64, 1<<48),
		"no kind":  {Peer: b.Peer[0]},
		"stranger": {Kind: transfer.OpNotify, Peer: 77},
	} {
		n, err := b.Rail[0].Post([]transfer.Op{good, bad, good})
		if n != 1 || err == nil {
			t.Errorf("%s: a batch whose second operation is wrong took %d: %v", name, n, err)
			continue
		}
		if c := b.expect(0, transfer.Done); c.ID != 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func failureOnce(t *testing.T, open Open) {
	b := setup(t, open, 64<<10)
	ops := []transfer.Op{b.write(0, 0, 0, 4096, 0)}
	for i := range 6 {
		op := b.write(0, 0, 0, 4096, uint64(1+i))
		op.Remote = nobodys(b.region[1].Descriptor()).At(0)
		ops = append(ops, op)
	}
	b.post(0, ops...)
	told, back := 0, make(map[uint64]int)
	for left := len(ops); left > 0 || told == 0; {
		c := b.next(0)
		switch c.Kind {
		case transfer.Lost: // or an operation tells it
		case transfer.Done, transfer.Failed: // iWARP: Done comes before the peer looks at the key
			back[c.ID]++
			left--
		default:
			t.Fatalf("%+v", c)
		}
		if (c.Err == nil) != (c.Kind == transfer.Done) {
			t.Errorf("%+v", c)
		}
		if c.Err != nil && !errors.Is(c.Err, transfer.ErrFlushed) {
			told++
			t.Logf("told: %v", c.Err)
		}
	}
	for i := range ops {
		if back[uint64(i)] != 1 {
			t.Errorf("operation %d came back %d times", i, back[uint64(i)])
		}
	}
	if told != 1 {
		t.Errorf("the cause was told %d times", told)
	}
	// A lost peer still takes operations, and gives them back.
	b.post(0, b.write(0, 0, 0, 64, 99), b.write(0, 0, 0, 64, 99))
	for range 2 {
		if c := b.next(0); c.Kind != transfer.Failed || c.ID != 99 || !errors.Is(c.Err, transfer.ErrFlushed) {
			t.Errorf("after the loss: %+v", c)
		}
	}
	var rest [4]transfer.Completion
	if n, err := b.Rail[0].Poll(rest[:]); n != 0 || err != nil {
		t.Errorf("then there were %d more: %+v, %v", n, rest[:n], err)
	}
}

// nobodys is a region with keys that are no region's.
func nobodys(d transfer.Descriptor) transfer.Descriptor {
	d.Keys = slices.Clone(d.Keys)
	for i := range d.Keys {
		d.Keys[i] += 0x1357900
	}
	return d
}

func peerEnds(t *testing.T, open Open) {
	b := setup(t, open, 64<<10)
	if err := b.Rail[1].Close(); err != nil {
		t.Fatal(err)
	}
	b.post(0, b.write(0, 0, 0, 4096, 7), b.write(0, 0, 0, 4096, 8))
	told, back := 0, 0
	for back < 2 || told == 0 {
		c := b.next(0)
		if c.Kind == transfer.Done {
			// iWARP: the bytes were on their way when the end showed.
			t.Log("a write to a peer that has ended completed")
		}
		if c.Kind != transfer.Lost {
			back++
		}
		if c.Err != nil && !errors.Is(c.Err, transfer.ErrFlushed) {
			told++
			t.Logf("told: %v", c.Err)
		}
	}
	if told != 1 {
		t.Errorf("the end was told %d times", told)
	}
}

func closeLeavesNothing(t *testing.T, open Open) {
	// Once before counting: what is made once for the process is made.
	for range 2 {
		p := open(t)
		for _, r := range p.Rail {
			r.Close()
		}
	}
	objects, goroutines := live(), runtime.NumGoroutine()
	var rails []transfer.Rail
	for range 3 {
		t.Run("cycle", func(t *testing.T) {
			b := setup(t, open, 64<<10)
			b.post(0, b.write(0, 0, 0, 4096, 7)) // in flight
			rails = append(rails, b.Rail[:]...)
		})
	}
	for _, r := range rails {
		if err := r.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		if _, err := r.Post(make([]transfer.Op, 1)); err == nil {
			t.Error("a closed rail takes operations")
		}
		if _, err := r.Poll(make([]transfer.Completion, 1)); err == nil {
			t.Error("a closed rail is polled")
		}
	}
	for kind, n := range live() {
		if n != objects[kind] {
			t.Errorf("%d objects of kind %s, there were %d", n, kind, objects[kind])
		}
	}
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		stacks := make([]byte, 1<<16)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("%d goroutines, there were %d:\n%s", n, goroutines, strings.TrimSpace(string(stacks)))
	}
}
