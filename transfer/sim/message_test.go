package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestMessages: they come once and in order, though a NIC's link goes and comes.
// Where there is nothing to receive, or no place for more, nobody waits.
func TestMessages(t *testing.T) {
	const messages = 2000
	s := Shape{Name: "two", NICs: 2, Gbits: 100, Workers: 2}
	for _, bytes := range []int{0, 1 << 20} {
		w := world(t, s, 2, Model{Timeout: time.Millisecond}, Options{Seed: 3, Bytes: bytes, Engine: engine.Options{CoolDown: 2 * time.Millisecond}})
		from, to := w.Node(0).Peer(1), w.Node(1).Peer(0)
		ctx := context.Background()
		sent, got := uint32(0), uint32(0)
		for got < messages {
			w.Node(1).NIC(0).Down(sent >= messages/4 && sent < messages/2)
			var err error
			for sent < messages && err == nil {
				if err = from.Send(ctx, binary.BigEndian.AppendUint32(nil, sent)); err == nil {
					sent++
				}
			}
			if sent < messages && !errors.Is(err, engine.ErrWaits) {
				t.Fatalf("after %d messages: %v", sent, err)
			}
			w.Run()
			before := got
			for {
				b, err := to.Receive(ctx)
				if errors.Is(err, engine.ErrWaits) {
					break
				}
				if err != nil || binary.BigEndian.Uint32(b) != got {
					t.Fatalf("message %d: %v, %v", got, b, err)
				}
				got++
			}
			if got == before {
				t.Fatalf("nothing comes behind message %d", got)
			}
			w.Run() // the sender is told
		}
		if losses := w.Node(0).Engine().Stats()[0].Losses; losses == 0 {
			t.Error("the engine saw no loss")
		}
	}
}

// TestNothingWaits: what would wait for others says so.
func TestNothingWaits(t *testing.T) {
	w := world(t, Shape{Name: "one", NICs: 1, Gbits: 100, Workers: 1}, 2, Model{}, Options{})
	e, p, ctx := w.Node(0).Engine(), w.Node(0).Peer(1), context.Background()
	for what, f := range map[string]func() error{
		"Receive": func() error { _, err := p.Receive(ctx); return err },
		"Target":  func() error { _, err := p.Target(ctx, "nothing"); return err },
		"Barrier": func() error { return e.Barrier(ctx, []*engine.Peer{p}, "step") },
		"Warm":    func() error { return p.Warm(ctx) },
		"Connect": func() error {
			d, _ := engine.Pipe()
			_, err := e.Connect(ctx, d, true)
			return err
		},
	} {
		if err := f(); !errors.Is(err, engine.ErrWaits) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := p.Err(); err != nil {
		t.Error(err)
	}
}
