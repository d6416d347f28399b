package kvcache

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Job is a request at the prefill node.
type Job struct {
	f       *Prefill
	lane    int
	request request
	ctx     context.Context
	begun   chan *engine.Transfer // of layers, in their order
	layers  int                   // that were begun
	told    int                   // that the peer was told of
}

// ID is what the decode node knows the request by.
func (j *Job) ID() uint64 { return j.request.id }

// Pages is how many pages the request has in each layer.
func (j *Job) Pages() int { return len(j.request.pages) }

// Layer begins to send a layer, from the pages of it in this node's cache that are
// given, and returns. Layers are sent in their order, from 0 on. The pages' bytes
// must not change until the job has ended.
func (j *Job) Layer(layer int, local []uint32) error {
	s := j.f.shape
	switch {
	case j.ctx.Err() != nil:
		return context.Cause(j.ctx)
	case layer != j.layers || layer == s.Layers:
		return fmt.Errorf("layer %d of %d is sent when it is the turn of %d", layer, s.Layers, j.layers)
	case len(local) != len(j.request.pages):
		return fmt.Errorf("layer %d is sent from %d pages; the request has %d", layer, len(local), len(j.request.pages))
	}
	theirs := s
	theirs.Pages = int(j.request.all)
	t, err := j.f.peer.Write(j.ctx, engine.Move{Local: j.f.cache, Remote: j.f.theirs, PageSize: s.PageSize,
		LocalPages: s.pages(layer, slices.Clone(local)), RemotePages: theirs.pages(layer, j.request.pages)})
	if err != nil {
		return err
	}
	j.layers++
	j.begun <- t
	return nil
}

// run computes the job, sends its layers and tells of them. When it returns, nothing
// of the job is on its way any more.
func (j *Job) run(ctx context.Context, h Handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	j.ctx = ctx
	var helpers sync.WaitGroup
	helpers.Go(func() {
		c := j.f.peer.Counter(j.f.shape.second(j.lane))
		if c.Wait(ctx, j.request.cancels+1) == nil {
			cancel(engine.ErrCancelled)
		}
	})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for t := range j.begun {
			if err := j.follow(ctx, t); err != nil {
				cancel(err) // the layers that follow are cancelled too
			}
		}
	}()
	err := h.Compute(ctx, j)
	if err != nil {
		cancel(err)
	}
	close(j.begun)
	<-sent
	switch cause := context.Cause(ctx); {
	case err == nil && j.told == j.f.shape.Layers: // a cancellation came too late to change anything
	case cause != nil:
		err = cause
	default:
		err = fmt.Errorf("%d of %d layers were computed", j.told, j.f.shape.Layers)
	}
	cancel(nil)
	helpers.Wait()
	if h.Ended != nil {
		h.Ended(j, err)
	}
	return err
}

// follow waits until a layer is in place and tells the peer. When it returns the
// layer's transfer has ended.
func (j *Job) follow(ctx context.Context, t *engine.Transfer) error {
	if t.Wait(ctx) != nil && !t.Ended() {
		t.Cancel()
		<-t.Done()
	}
	err := t.Err()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	// The peer is told by a transfer of its own, which is never cancelled: so it
	// is known how many notices there will be.
	_, err = j.f.peer.Write(context.WithoutCancel(ctx), engine.Move{Local: j.f.ends.Region, Remote: j.f.theirEnds, Notify: engine.Counts(j.f.shape.first(j.lane))})
	if err == nil {
		j.told++
	}
	return err
}
