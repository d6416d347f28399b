package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
	"github.com/peerdirect/peerdirect/verbs"
)

// counting is a rail that counts what is registered with it.
type counting struct {
	Rail
	made, open *atomic.Int64
	stuck      atomic.Bool // nothing is deregistered
}

var errStuck = errors.New("the NIC does not let go of it")

func (c *counting) count(r *transfer.Region, err error) (*transfer.Region, error) {
	if err != nil {
		return nil, err
	}
	c.made.Add(1)
	c.open.Add(1)
	return r.Part(0, r.Length(), func() error {
		if c.stuck.Load() {
			return errStuck
		}
		c.open.Add(-1)
		return r.Close()
	})
}

func (c *counting) Register(mem []byte) (*transfer.Region, error) {
	return c.count(c.Rail.Register(mem))
}

// RegisterExport takes any memory, and does nothing with it.
func (c *counting) RegisterExport(*transfer.Export) (*transfer.Region, error) {
	return c.count(transfer.NewRegion(1<<40, 1<<30, 1, 1, func() error { return nil }), nil)
}

// newCached is a pair whose engine 0 keeps registrations, which are counted.
func newCached(t *testing.T, o CacheOptions) (p *pair, made, open *atomic.Int64) {
	t.Helper()
	made, open = new(atomic.Int64), new(atomic.Int64)
	engines := 0
	p = newPairWith(t, 2, 2, patience, Options{MaxPiece: 4096, Cache: o}, func(specs []RailSpec) {
		if engines++; engines > 1 {
			return
		}
		for i := range specs {
			nic := specs[i].Open
			specs[i].Open = func() (Rail, error) {
				r, err := nic()
				return &counting{Rail: r, made: made, open: open}, err
			}
		}
	})
	return p, made, open
}

func counts(t *testing.T, what string, of *atomic.Int64, since, want int64) {
	t.Helper()
	if got := of.Load() - since; got != want {
		t.Errorf("%s: %d registrations, want %d", what, got, want)
	}
}

var unlimited = CacheOptions{Budget: mrcache.Unlimited, Host: true}

// TestCacheHits: memory that was registered before is not registered again, nor a
// part of it; the engine's Close leaves nothing.
func TestCacheHits(t *testing.T) {
	p, made, open := newCached(t, unlimited)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p.transfer(ctx) // it registers what Warm and messages need, if anything
	start := made.Load()
	region := func(mem []byte) *Region {
		r, err := p.e[0].Register(mem)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 3 { // p.region[0] has it
		r := region(p.mem[0])
		part := region(p.mem[0][4096:8192])
		p.region[0], r = r, p.region[0]
		p.transfer(ctx)
		for _, r := range []*Region{r, part} {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	counts(t, "what is registered already", made, start, 0)
	if err := p.region[0].Close(); err != nil {
		t.Error(err)
	}
	p.region[0] = region(p.mem[0])
	counts(t, "what was closed", made, start, 0)
	p.transfer(ctx)
	var hits uint64
	for _, s := range p.e[0].CacheStats() {
		hits += s.Hits
	}
	if hits != 2*(3*2+1) {
		t.Errorf("%d hits", hits)
	}
	if err := p.region[0].Close(); err != nil {
		t.Error(err)
	}
	held := open.Load()
	if err := p.e[0].Forget(ctx, p.mem[0]); err != nil {
		t.Error(err)
	}
	counts(t, "what is forgotten", open, held, -2)
	p.region[0] = region(p.mem[0])
	counts(t, "what was forgotten", made, start, 2)
	if err := p.e[0].Close(); err != nil {
		t.Error(err)
	}
	counts(t, "after the end", open, 0, 0)
}

// TestCacheKeepsNothingTold: a region whose keys a peer knows is deregistered by its
// Close, though another of the same memory stays.
func TestCacheKeepsNothingTold(t *testing.T) {
	for _, shared := range []bool{false, true} {
		p, made, open := newCached(t, unlimited)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		buf, err := verbs.NewBuffer(8192, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Close()
		defer p.e[0].Close()
		mine := make([]*Region, 2)
		for i := range mine {
			if mine[i], err = p.e[0].Register(buf.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		if !shared {
			mine[1].Close()
		}
		start, held := made.Load(), open.Load()
		if err := p.peer[0].Grant("told", mine[0], Write); err != nil {
			t.Fatal(err)
		}
		if want := int64(0); shared {
			counts(t, "of a shared region that is granted", made, start, 2)
		} else {
			counts(t, "of a region that is granted", made, start, want)
		}
		target, err := p.peer[1].Target(ctx, "told")
		if err != nil {
			t.Fatal(err)
		}
		write := func() error {
			w, err := p.peer[1].Write(ctx, Move{Local: p.region[1], Remote: target, Segments: []Segment{{Length: 4096}}})
			if err != nil {
				return err
			}
			return w.Wait(ctx)
		}
		if err := write(); err != nil {
			t.Error(err)
		}
		again, err := p.e[0].Register(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if again.on[0].Load().Descriptor().Keys[0] == mine[0].on[0].Load().Descriptor().Keys[0] {
			t.Error("a registration whose keys a peer knows was given again")
		}
		if err := mine[0].Close(); err != nil {
			t.Error(err)
		}
		counts(t, "what is left once it is closed", open, held, 0)
		var lost *transfer.LostError
		if err := write(); !errors.As(err, &lost) || !lost.Request {
			t.Errorf("a write by the keys of a region that is closed: %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCacheToldAndStuck: a region whose keys a peer knows, and that a NIC does not
// deregister, is not closed; nor is it lost.
func TestCacheToldAndStuck(t *testing.T) {
	p, _, open := newCached(t, unlimited)
	held := open.Load()
	if err := p.peer[0].Grant("told", p.region[0], Write); err != nil {
		t.Fatal(err)
	}
	stuck := &p.e[0].rails[1].rail.(*counting).stuck
	stuck.Store(true)
	for range 2 {
		if err := p.region[0].Close(); !errors.Is(err, errStuck) {
			t.Errorf("closing it: %v", err)
		}
	}
	counts(t, "of which a NIC does not let go", open, held, -1)
	stuck.Store(false)
	if err := p.region[0].Close(); err != nil {
		t.Error(err)
	}
	counts(t, "of which it has", open, held, -2)
}

// TestCacheWithoutAPromise: memory of the process is not kept unless the caller will
// tell of its end.
func TestCacheWithoutAPromise(t *testing.T) {
	p, made, open := newCached(t, CacheOptions{Budget: mrcache.Unlimited})
	start, held := made.Load(), open.Load()
	for range 3 {
		r, err := p.e[0].Register(p.mem[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	counts(t, "3 regions", made, start, 3*2)
	counts(t, "and kept", open, held, 0)
}
