package kvcache_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/kvcache"
)

func computing(p *pair) kvcache.Handler { return kvcache.Handler{Compute: p.computes} }

// TestLayers: a layer is there when it is told, though the next has not been
// computed.
func TestLayers(t *testing.T) {
	next := make(chan struct{})
	p := newPair(t, transfer.EmbeddedOptions{NICs: 2}, small, func(p *pair) kvcache.Handler {
		return kvcache.Handler{Compute: func(ctx context.Context, j *kvcache.Job) error {
			for layer := range small.Layers {
				select {
				case <-next:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				for i := range uint32(2) {
					fill(p.page(1, layer, i+7), j.ID(), layer, int(i))
				}
				if err := j.Layer(layer, []uint32{7, 8}); err != nil {
					return err
				}
			}
			return nil
		}}
	})
	pages := []uint32{30, 4}
	r, err := p.decode.Start(within(t), pages)
	if err != nil {
		t.Fatal(err)
	}
	for layer := range small.Layers {
		next <- struct{}{}
		if err := r.Layer(within(t), layer); err != nil {
			t.Fatal(err)
		}
		p.holds(r, pages, layer+1)
	}
	if err := r.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := r.Cancel(within(t)); err != nil {
		t.Errorf("cancelling what is done: %v", err)
	}
	if err := errors.Join(r.Wait(within(t)), r.Layer(within(t), 4)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestManyRequests: more requests than lanes, by several goroutines, over NICs that
// lose, double and delay packets.
func TestManyRequests(t *testing.T) {
	p := newPair(t, transfer.EmbeddedOptions{NICs: 2, Seed: 3}, small, computingAlone)
	p.breaks(device.FaultPlan{Seed: 1, Loss: 0.02, Duplicate: 0.05, Delay: 0.05, AckLoss: 0.02})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			pages := []uint32{uint32(i), uint32(i + 8), uint32(i + 16)}
			for range 15 {
				r, err := p.decode.Start(within(t), pages)
				if err == nil {
					err = r.Wait(within(t))
				}
				if err != nil {
					t.Error(err)
					return
				}
				p.holds(r, pages, small.Layers)
			}
		})
	}
	all.Wait()
}

// TestReuseAfterCancel: as soon as a cancellation is confirmed the pages go to
// another use. Whatever was on its way, nothing of the old request lands in them.
func TestReuseAfterCancel(t *testing.T) {
	shape := kvcache.Shape{Layers: 8, Pages: 32, PageSize: 16 << 10, Lanes: 2, MaxPages: 16}
	p := newPair(t, transfer.EmbeddedOptions{NICs: 2, Gbps: 1, Seed: 5}, shape, holdingTheFirst)
	p.breaks(device.FaultPlan{Seed: 2, Duplicate: 0.05, Delay: 0.05, AckLoss: 0.01})
	pages := make([]uint32, 16)
	for i := range pages {
		pages[i] = uint32(31 - i)
	}
	random := rand.New(rand.NewPCG(1, 1))
	halfway := 0
	for round := range 12 {
		r, err := p.decode.Start(within(t), pages)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.decode.Start(within(t), pages[3:4]); !errors.Is(err, kvcache.ErrBusy) {
			t.Fatalf("a page of a request that goes on was given away: %v", err)
		}
		if n := random.IntN(shape.Layers + 1); n > 0 && round > 0 {
			if err := r.Layer(within(t), n-1); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Cancel(within(t)); err != nil {
			t.Fatal(err)
		}
		// The first use: this node's own.
		for layer := range shape.Layers {
			for _, n := range pages {
				fill(p.page(0, layer, n), 1000, layer, int(n))
			}
		}
		own := bytes.Clone(p.cache[0].Bytes)
		if err := r.Wait(within(t)); err != nil {
			halfway++
			if !errors.Is(err, engine.ErrCancelled) {
				t.Errorf("a cancelled request: %v", err)
			}
			if err := r.Layer(within(t), shape.Layers-1); !errors.Is(err, engine.ErrCancelled) {
				t.Errorf("its last layer: %v", err)
			}
		}
		time.Sleep(2 * time.Millisecond)
		if !bytes.Equal(own, p.cache[0].Bytes) {
			t.Fatal("bytes came after the confirmation")
		}
		// The second: another request.
		next, err := p.decode.Start(within(t), pages)
		if err == nil {
			err = next.Wait(within(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		p.holds(next, pages, shape.Layers)
	}
	if halfway == 0 {
		t.Error("no request was cancelled on its way: the test shows nothing")
	}
}

// TestCancelTooLate: a cancellation that finds every layer in place changes nothing.
func TestCancelTooLate(t *testing.T) {
	p := newPair(t, transfer.EmbeddedOptions{}, small, func(p *pair) kvcache.Handler {
		return kvcache.Handler{Compute: func(ctx context.Context, j *kvcache.Job) error {
			err := p.computes(ctx, j)
			<-ctx.Done()
			return err
		}}
	})
	pages := []uint32{3, 1}
	r, err := p.decode.Start(within(t), pages)
	if err == nil {
		err = r.Layer(within(t), small.Layers-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Cancel(within(t)), r.Wait(within(t))); err != nil {
		t.Errorf("a request that was done: %v", err)
	}
	p.holds(r, pages, small.Layers)
}

// TestFails: what goes wrong in a computation is told, and the lane goes on.
func TestFails(t *testing.T) {
	for _, test := range []struct {
		name    string
		compute func(j *kvcache.Job) error
		want    string
	}{
		{"an error", func(j *kvcache.Job) error { return errors.New("no memory left") }, "no memory left"},
		{"an error for a terminal", func(j *kvcache.Job) error { return errors.New("gone\n\x1b[2J") }, `gone\n\x1b[2J`},
		{"layers left out", func(j *kvcache.Job) error { return j.Layer(0, []uint32{1}) }, "1 of 5 layers"},
		{"no order", func(j *kvcache.Job) error { return j.Layer(1, []uint32{1}) }, "layer 1 of 5 is sent when it is the turn of 0"},
		{"too few pages", func(j *kvcache.Job) error { return j.Layer(0, nil) }, "from 0 pages; the request has 1"},
		{"no such page", func(j *kvcache.Job) error { return j.Layer(0, []uint32{1 << 20}) }, engine.ErrRange.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := true
			p := newPair(t, transfer.EmbeddedOptions{}, kvcache.Shape{Layers: 5, Pages: 8, PageSize: 64, Lanes: 1, MaxPages: 8}, func(p *pair) kvcache.Handler {
				return kvcache.Handler{Compute: func(ctx context.Context, j *kvcache.Job) error {
					if first {
						first = false
						return test.compute(j)
					}
					return p.computes(ctx, j)
				}}
			})
			r, err := p.decode.Start(within(t), []uint32{1})
			if err != nil {
				t.Fatal(err)
			}
			err = r.Wait(within(t))
			if !errors.Is(err, kvcache.ErrFailed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; it should tell %q", err, test.want)
			}
			if err := r.Layer(within(t), 4); !errors.Is(err, kvcache.ErrFailed) {
				t.Errorf("a layer of it: %v", err)
			}
			if r, err = p.decode.Start(within(t), []uint32{1}); err == nil {
				err = r.Wait(within(t))
			}
			if err != nil {
				t.Fatal(err)
			}
			p.holds(r, []uint32{1}, 5)
		})
	}
}

// TestRefused: requests that make no sense are told at once.
func TestRefused(t *testing.T) {
	p := newPair(t, transfer.EmbeddedOptions{}, small, computing)
	for name, pages := range map[string][]uint32{"none": nil, "too many": make([]uint32, 17), "beyond": {32}, "twice": {1, 2, 1}} {
		if _, err := p.decode.Start(within(t), pages); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	r, err := p.decode.Start(within(t), []uint32{1, 2})
	if err != nil {
		t.Fatalf("pages of what was refused: %v", err)
	}
	if err := r.Layer(within(t), small.Layers); err == nil {
		t.Error("a layer that is none was waited for")
	}
	if err := r.Wait(within(t)); err != nil {
		t.Error(err)
	}
}
