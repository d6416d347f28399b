package mrcache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// entries is how many registrations a rail has in the benchmarks of hits.
const entries = 100_000

// spread registers with several EFA devices in turn: one has 65,535 regions.
type spread struct {
	devs []*efa.Device
	next atomic.Uint64
}

func newSpread(t testing.TB, f *device.Fabric) *spread {
	t.Helper()
	s := new(spread)
	for range 2 {
		dev, err := efa.Embedded(f, device.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		s.devs = append(s.devs, dev)
	}
	return s
}

func (s *spread) Register(r mrcache.Range, access mrcache.Access) (mrcache.Registration, error) {
	return s.devs[s.next.Add(1)%uint64(len(s.devs))].Register(at(r.Addr, int(r.Length)), efa.Access(access))
}

// full is a cache with entries on each of its rails: single pages, every second
// of a mapping, so that none touches another.
func full(t testing.TB, rails int) (*mrcache.Cache, []mrcache.Range) {
	t.Helper()
	f := device.NewFabric(device.FabricOptions{Seed: 1})
	t.Cleanup(func() { f.Close() })
	var o mrcache.Options
	for i := range rails {
		o.Rails = append(o.Rails, mrcache.Rail{Name: fmt.Sprintf("efa_%d", i), Registrar: newSpread(t, f), Budget: mrcache.Unlimited})
	}
	base := reserved(t, 2*entries*page)
	ranges := make([]mrcache.Range, entries)
	for i := range ranges {
		ranges[i] = pool(1, base+uint64(2*i)*page, page)
	}
	c := newCache(t, o)
	for n := range rails {
		for _, r := range ranges {
			ref, err := c.Get(n, r, remote)
			if err != nil {
				t.Fatal(err)
			}
			ref.Release()
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(ranges), func(i, k int) { ranges[i], ranges[k] = ranges[k], ranges[i] })
	return c, ranges
}

// BenchmarkHit finds one of 100,000 registrations, in random order, and releases
// it. p50 and p99 are of single hits, less what two looks at the clock cost.
func BenchmarkHit(b *testing.B) {
	c, ranges := full(b, 2)
	for _, k := range []struct {
		name           string
		workers, rails int
		ranges         []mrcache.Range
	}{
		{"1 goroutine", 1, 1, ranges}, {"2 goroutines, 2 rails", 2, 2, ranges}, {"2 goroutines, 1 rail", 2, 1, ranges},
		{"1 goroutine, 16 of them", 1, 1, ranges[:16]}, // in the processor's caches
	} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for w := range k.workers {
				all.Go(func() { hits(b, c, w%k.rails, k.ranges, w*len(k.ranges)/2, b.N) })
			}
			all.Wait()
			b.StopTimer()
			samples := make([][]float64, k.workers)
			for w := range k.workers {
				all.Go(func() { samples[w] = single(b, c, w%k.rails, k.ranges, w*len(k.ranges)/2) })
			}
			all.Wait()
			sorted := slices.Sorted(slices.Values(slices.Concat(samples...)))
			clock := looks()
			b.ReportMetric(max(0, sorted[len(sorted)/2]-clock), "p50-ns")
			b.ReportMetric(max(0, sorted[len(sorted)*99/100]-clock), "p99-ns")
		})
	}
}

func hits(t testing.TB, c *mrcache.Cache, rail int, ranges []mrcache.Range, from, n int) {
	for i := range n {
		ref, err := c.Get(rail, ranges[(from+i)%len(ranges)], remote)
		if err != nil {
			t.Error(err)
			return
		}
		ref.Release()
	}
}

// single times hits one by one, each of the ranges twice, in nanoseconds.
func single(t testing.TB, c *mrcache.Cache, rail int, ranges []mrcache.Range, from int) []float64 {
	out := make([]float64, 0, 2*entries)
	for i := range cap(out) {
		r := &ranges[(from+i)%len(ranges)]
		start := time.Now()
		ref, err := c.Get(rail, *r, remote)
		ref.Release()
		out = append(out, float64(time.Since(start).Nanoseconds()))
		if err != nil {
			t.Error(err)
			return out
		}
	}
	return out
}

// looks is what it takes to look at the clock twice, the median in nanoseconds.
func looks() float64 {
	out := make([]float64, 10_001)
	for i := range out {
		start := time.Now()
		out[i] = float64(time.Since(start).Nanoseconds())
	}
	slices.Sort(out)
	return out[len(out)/2]
}

// BenchmarkMiss registers and gives back on an EFA device of this process, with
// 100,000 other registrations in the cache: what the cache adds to the device.
func BenchmarkMiss(b *testing.B) {
	c, _ := full(b, 1)
	base := reserved(b, page)
	r := pool(2, base, page)
	b.ReportAllocs()
	for b.Loop() {
		ref, err := c.Get(0, r, remote)
		if err != nil {
			b.Fatal(err)
		}
		ref.Release()
		if err := c.Invalidate(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	g := newRig(t, mrcache.Options{Watch: true}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 8*page)
	for _, r := range []mrcache.Range{pool(1, base, page), pool(0, base+4*page, page)} {
		if ok, _ := g.Watching(); !ok && r.Alloc.ID == 0 {
			continue
		}
		g.get(t, r, remote)
		n := testing.AllocsPerRun(1000, func() {
			ref, err := g.Get(0, r, local)
			if err != nil || ref.Registration() == nil {
				t.Fatal(err)
			}
			ref.Release()
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", r, n)
		}
	}
}
