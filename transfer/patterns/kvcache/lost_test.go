package kvcache_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
	"github.com/peerdirect/peerdirect/transfer/patterns/kvcache"
)

// stuck sends one layer and does not look at its context until it is let go.
func stuck() (handler func(*pair) kvcache.Handler, letGo func()) {
	until := make(chan struct{})
	return func(p *pair) kvcache.Handler {
		return kvcache.Handler{Compute: func(ctx context.Context, j *kvcache.Job) error {
			fill(p.page(1, 0, 0), j.ID(), 0, 0)
			err := j.Layer(0, []uint32{0})
			<-until
			return err
		}}
	}, sync.OnceFunc(func() { close(until) })
}

// TestPrefillDies: requests fail, for those too who wait for a layer.
func TestPrefillDies(t *testing.T) {
	handler, letGo := stuck()
	p := newPair(t, transfer.EmbeddedOptions{}, small, handler)
	defer letGo()
	r, err := p.decode.Start(within(t), []uint32{3})
	if err == nil {
		err = r.Layer(within(t), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- r.Layer(within(t), 1) }()
	if err := p.nodes.Nodes[1].Close(); err != nil {
		t.Fatal(err)
	}
	letGo()
	for _, err := range []error{<-waiting, r.Wait(within(t)), r.Cancel(within(t))} {
		if !errors.Is(err, engine.ErrLost) {
			t.Errorf("after the prefill node died: %v", err)
		}
	}
	if err := r.Layer(within(t), 0); err != nil {
		t.Errorf("the layer that had come: %v", err)
	}
	if _, err := p.decode.Start(within(t), []uint32{3}); !errors.Is(err, engine.ErrLost) {
		t.Errorf("another request: %v", err)
	}
}

// TestDecodeDies: the computation is told, and Serve returns.
func TestDecodeDies(t *testing.T) {
	computing, told := make(chan struct{}), make(chan error, 1)
	p := newPair(t, transfer.EmbeddedOptions{}, small, func(*pair) kvcache.Handler {
		return kvcache.Handler{
			Compute: func(ctx context.Context, j *kvcache.Job) error {
				close(computing)
				<-ctx.Done()
				return context.Cause(ctx)
			},
			Ended: func(_ *kvcache.Job, err error) { told <- err },
		}
	})
	if _, err := p.decode.Start(within(t), []uint32{3}); err != nil {
		t.Fatal(err)
	}
	<-computing
	if err := p.nodes.Nodes[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err == nil {
		t.Error("a job for nobody was done")
	}
	if err := <-p.served; !errors.Is(err, engine.ErrLost) {
		t.Errorf("serving: %v", err)
	}
	p.served = nil
}

// TestNoConfirmation: a prefill node that does not confirm is left, and the pages
// are free then.
func TestNoConfirmation(t *testing.T) {
	handler, letGo := stuck()
	p := newPair(t, transfer.EmbeddedOptions{}, small, handler)
	defer letGo()
	r, err := p.decode.Start(within(t), []uint32{3})
	if err == nil {
		err = r.Layer(within(t), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting: %v", err)
	}
	if err := r.Cancel(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelling: %v", err)
	}
	own := bytes.Clone(p.cache[0].Bytes)
	time.Sleep(5 * time.Millisecond)
	if !bytes.Equal(own, p.cache[0].Bytes) {
		t.Error("bytes came after the peer was left")
	}
}

// TestShapesDiffer: nodes that do not fit say so.
func TestShapesDiffer(t *testing.T) {
	other := small
	other.PageSize = 2048
	nodes, err := local.New(transfer.EmbeddedOptions{}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	ctx := within(t)
	a, b, err := nodes.Join(ctx, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var caches [2]*memory.Block
	for i := range caches {
		if caches[i], err = memory.Allocate(nodes.Nodes[i], int(small.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		f, err := kvcache.NewPrefill(ctx, nodes.Nodes[1], b, caches[1].Region, other)
		if err == nil {
			f.Serve(serving, kvcache.Handler{})
			err = f.Close()
		}
		served <- err
	}()
	tooMany := small
	tooMany.Lanes = 4096
	if _, err := kvcache.NewDecode(ctx, nodes.Nodes[0], a, caches[0].Region, tooMany); err == nil {
		t.Error("lanes without counters were taken")
	}
	large := small
	large.Pages++
	if _, err := kvcache.NewDecode(ctx, nodes.Nodes[0], a, caches[0].Region, large); err == nil {
		t.Error("a cache that does not fit its region was taken")
	}
	d, err := kvcache.NewDecode(ctx, nodes.Nodes[0], a, caches[0].Region, small)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Start(ctx, []uint32{1})
	if err == nil {
		err = r.Wait(ctx)
	}
	if !errors.Is(err, kvcache.ErrFailed) {
		t.Errorf("pages of two sizes: %v", err)
	}
	stop()
	if err := errors.Join(<-served, d.Close(), caches[0].Close(), caches[1].Close()); err != nil {
		t.Error(err)
	}
}
