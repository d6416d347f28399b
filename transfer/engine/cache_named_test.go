package engine

import (
	"context"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
	"github.com/peerdirect/peerdirect/verbs"
)

// named is memory of an exporter, of which only the name matters.
type named struct {
	dmabuf.Memory
	id dmabuf.Identity
}

func (n named) Identity() (dmabuf.Identity, error) { return n.id, nil }
func (n named) Exporter() string                   { return "named" }
func (n named) Address() uint64                    { return 0x7000_0000_0000 }

// TestCacheOfExporters: allocations are told apart by their names, and those without
// are not kept.
func TestCacheOfExporters(t *testing.T) {
	p, made, open := newCached(t, CacheOptions{Budget: mrcache.Unlimited})
	held := open.Load()
	for _, c := range []struct {
		id     dmabuf.Identity
		offset uint64
		made   int64
	}{
		{dmabuf.Identity{Kind: "dmabuf", ID: 7}, 0, 2},
		{dmabuf.Identity{Kind: "dmabuf", ID: 7}, 0, 0},
		{dmabuf.Identity{Kind: "dmabuf", ID: 7}, 4096, 0},
		{dmabuf.Identity{Kind: "dmabuf", ID: 7}, 1 << 20, 2},
		{dmabuf.Identity{Kind: "dmabuf", ID: 8}, 0, 2},
		{dmabuf.Identity{Kind: "cuda", ID: 7}, 0, 2},
		{dmabuf.Identity{Kind: "cuda", ID: 7}, 0, 0},
		{dmabuf.Identity{Kind: "cuda pieces", ID: 7}, 0, 2},
		{dmabuf.Identity{Kind: "cuda pieces", ID: 7}, 0, 2},
		{dmabuf.Identity{Kind: "memfd", ID: 7}, 0, 2}, // it does not tell where in the memfd it is
		{dmabuf.Identity{Kind: "memfd", ID: 7}, 0, 2},
	} {
		start := made.Load()
		r, err := p.e[0].RegisterMemory(named{id: c.id}, c.offset, 1<<20-c.offset%(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if got := made.Load() - start; got != c.made {
			t.Errorf("%+v: %d registrations", c, got)
		}
	}
	counts(t, "kept", open, held, 4*2)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.e[0].ForgetMemory(ctx, named{id: dmabuf.Identity{Kind: "dmabuf", ID: 7}}); err != nil {
		t.Error(err)
	}
	counts(t, "kept of others", open, held, 2*2)
}

// BenchmarkRegister is a region of 1 MiB, registered with 4 embedded NICs or found
// in the cache, and closed.
func BenchmarkRegister(b *testing.B) {
	for _, way := range []struct {
		name string
		o    CacheOptions
	}{{"new", CacheOptions{}}, {"hit", unlimited}} {
		b.Run(way.name, func(b *testing.B) {
			fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{NICs: 4})
			if err != nil {
				b.Fatal(err)
			}
			defer fabric.Close()
			e, err := New(Options{Rails: Specs(fabric.Node(0), transfer.Want{}, 1), Cache: way.o})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			buf, err := verbs.NewBuffer(1<<20, verbs.BufferOptions{Populate: true})
			if err != nil {
				b.Fatal(err)
			}
			defer buf.Close()
			defer e.Close()
			b.ReportAllocs()
			for b.Loop() {
				r, err := e.Register(buf.Bytes())
				if err != nil {
					b.Fatal(err)
				}
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
