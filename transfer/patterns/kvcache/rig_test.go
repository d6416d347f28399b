package kvcache_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/internal/leaktest"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
	"github.com/peerdirect/peerdirect/transfer/patterns/kvcache"
)

const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// pair is a decode node (0) and a prefill node (1).
type pair struct {
	t      *testing.T
	nodes  *local.Cluster
	shape  kvcache.Shape
	cache  [2]*memory.Block
	peer   [2]*engine.Peer
	decode *kvcache.Decode
	served chan error
	stop   context.CancelFunc
}

var small = kvcache.Shape{Layers: 5, Pages: 32, PageSize: 4096, Lanes: 3, MaxPages: 16}

// newPair has the prefill node serve. What is computed for a page of a layer is
// told by content.
func newPair(t *testing.T, o transfer.EmbeddedOptions, s kvcache.Shape, h func(*pair) kvcache.Handler) *pair {
	t.Helper()
	t.Cleanup(leaktest.Check(t))
	ctx := within(t)
	o.Nodes, o.PeerTimeout = 2, 200*time.Millisecond
	nodes, err := local.New(o, engine.Options{MaxPiece: 4096, CoolDown: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, nodes: nodes, shape: s, served: make(chan error, 1)}
	for i := range p.cache {
		if p.cache[i], err = memory.Allocate(nodes.Nodes[i], int(s.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	if p.peer[0], p.peer[1], err = nodes.Join(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		f, err := kvcache.NewPrefill(ctx, nodes.Nodes[1], p.peer[1], p.cache[1].Region, s)
		if err == nil {
			err = f.Serve(serving, h(p))
			err = errors.Join(err, f.Close())
		}
		p.served <- err
	}()
	t.Cleanup(func() {
		stop()
		if p.served != nil {
			<-p.served
		}
		if p.decode != nil {
			if err := p.decode.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(p.cache[0].Close(), p.cache[1].Close(), nodes.Close()); err != nil {
			t.Error(err)
		}
	})
	if p.decode, err = kvcache.NewDecode(ctx, nodes.Nodes[0], p.peer[0], p.cache[0].Region, s); err != nil {
		t.Fatal(err)
	}
	return p
}

// page is a page of a layer of a node's cache.
func (p *pair) page(node, layer int, n uint32) []byte {
	s := p.shape
	at := (uint64(layer*s.Pages) + uint64(n)) * s.PageSize
	return p.cache[node].Bytes[at:][:s.PageSize]
}

// fill makes what the i-th page of a layer of a request is.
func fill(b []byte, request uint64, layer, i int) {
	for at := 0; at+8 <= len(b); at += 8 {
		binary.BigEndian.PutUint64(b[at:], request<<40|uint64(layer)<<32|uint64(i)<<24|uint64(at))
	}
}

// computes computes requests, each lane in pages of its own.
func (p *pair) computes(_ context.Context, j *kvcache.Job) error {
	local := make([]uint32, j.Pages())
	first := int(j.ID()) * 16 % p.shape.Pages
	for layer := range p.shape.Layers {
		for i := range local {
			local[i] = uint32((first + i) % p.shape.Pages)
			fill(p.page(1, layer, local[i]), j.ID(), layer, i)
		}
		if err := j.Layer(layer, local); err != nil {
			return err
		}
	}
	return nil
}

// computingAlone computes one request at a time: the lanes share the local pages.
func computingAlone(p *pair) kvcache.Handler {
	one := make(chan struct{}, 1)
	return kvcache.Handler{
		Compute: func(ctx context.Context, j *kvcache.Job) error { one <- struct{}{}; return p.computes(ctx, j) },
		Ended:   func(*kvcache.Job, error) { <-one },
	}
}

// holdingTheFirst is computingAlone, and has the first request begin when it is
// cancelled.
func holdingTheFirst(p *pair) kvcache.Handler {
	h := computingAlone(p)
	compute := h.Compute
	h.Compute = func(ctx context.Context, j *kvcache.Job) error {
		if j.ID() == 1 {
			<-ctx.Done()
		}
		return compute(ctx, j)
	}
	return h
}

// holds looks whether layers of a request are in place.
func (p *pair) holds(r *kvcache.Request, pages []uint32, layers int) {
	p.t.Helper()
	want := make([]byte, p.shape.PageSize)
	for layer := range layers {
		for i, n := range pages {
			fill(want, r.ID(), layer, i)
			if got := p.page(0, layer, n); string(got) != string(want) {
				p.t.Fatalf("request %d, layer %d, page %d differs", r.ID(), layer, n)
			}
		}
	}
}

// breaks injects a plan at every NIC.
func (p *pair) breaks(plan device.FaultPlan) {
	for _, d := range p.nodes.Fabric.Fabric().Devices() {
		d.Faults().Set(plan)
	}
}
