package mrcache_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// A CUDA address does not tell that its memory is another allocation's by now;
// the driver does.
func TestTheIdentityIsAskedForAtEachHit(t *testing.T) {
	var id, asked atomic.Uint64
	var gone atomic.Bool
	id.Store(7)
	g := newRig(t, mrcache.Options{Identify: map[mrcache.Space]func(mrcache.Range) (uint64, error){
		mrcache.CUDA: func(mrcache.Range) (uint64, error) {
			asked.Add(1)
			if gone.Load() {
				return 0, syscall.EINVAL
			}
			return id.Load(), nil
		},
	}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	r := pool(0, g.a.alloc(0, page), page)
	r.Alloc.Space = mrcache.CUDA
	known := r
	known.Alloc.ID = 7
	g.get(t, r, local)
	g.get(t, r, local)
	g.get(t, known, local)
	if asked.Load() != 3 || g.calls.Load() != 1 {
		t.Fatalf("asked %d times, registered %d times", asked.Load(), g.calls.Load())
	}
	id.Store(8) // freed, and allocated again at the same address
	_, err := g.Get(0, known, local)
	refused(t, err, mrcache.ErrStale, "cuda:8")
	if g.open.Load() != 0 {
		t.Error("the old one is registered")
	}
	g.get(t, r, local)
	id.Store(9)
	g.get(t, r, local)
	if s := g.stats(); s.Misses["reallocated"] != 1 || s.Entries != 1 || g.open.Load() != 1 {
		t.Errorf("%+v", s)
	}
	if n, err := g.Sweep(); n != 0 || err != nil {
		t.Errorf("%d swept, %v", n, err)
	}
	gone.Store(true)
	if n, err := g.Sweep(); n != 1 || err != nil || g.open.Load() != 0 {
		t.Errorf("%d swept, %v; %d are registered", n, err, g.open.Load())
	}
	_, err = g.Get(0, r, local)
	refused(t, err, syscall.EINVAL, "identify")
	if s := g.stats(); s.Invalidations["identity"] != 2 {
		t.Errorf("%+v", s)
	}
}

func TestSweepingByItself(t *testing.T) {
	var gone atomic.Bool
	g := newRig(t, mrcache.Options{SweepEvery: time.Millisecond, Identify: map[mrcache.Space]func(mrcache.Range) (uint64, error){
		mrcache.DMABuf: func(mrcache.Range) (uint64, error) { return 3, nil },
		mrcache.MemFD: func(mrcache.Range) (uint64, error) {
			if gone.Load() {
				return 0, syscall.ENOENT
			}
			return 3, nil
		},
	}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	r := pool(3, g.a.alloc(0, page), page)
	r.Alloc.Space = mrcache.MemFD
	g.get(t, r, local)
	gone.Store(true)
	for end := time.Now().Add(10 * time.Second); g.open.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still registered")
		}
	}
}

func TestMemoryOfWhoseEndNobodyTellsIsNotKept(t *testing.T) {
	for _, c := range []struct {
		name string
		o    mrcache.Options
		kept bool
	}{
		{name: "nobody tells"},
		{name: "the caller promised", o: mrcache.Options{Explicit: true}, kept: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, c.o, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
			if ok, why := g.Watching(); ok || why == "" {
				t.Errorf("watching %v, %q", ok, why)
			}
			r := pool(0, g.a.alloc(0, page), page)
			g.get(t, r, local)
			if kept := g.open.Load() == 1; kept != c.kept {
				t.Errorf("kept: %v", kept)
			}
			if n := g.stats().Misses["unwatched"]; (n == 0) != c.kept {
				t.Errorf("%+v", g.stats())
			}
		})
	}
}

func TestTraceAndPrometheus(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	g := newRig(t, mrcache.Options{Trace: func(e mrcache.Event) {
		mu.Lock()
		lines = append(lines, e.String())
		mu.Unlock()
	}}, mrcache.Unlimited, mrcache.Limits{}, device.Options{})
	base := g.a.alloc(0, 2*page)
	g.get(t, pool(4, base, page), local)
	g.get(t, pool(4, base, page), local)
	g.Get(0, pool(4, base+8*page, page), local)
	g.Invalidate(patient(t), pool(0, base, page))
	want := []string{
		"register rail=efa_0 allocation=host:4 range=0x", "reason=new",
		"error=", "deregister rail=efa_0 allocation=host:4", "cause=invalidated",
	}
	text := strings.Join(lines, "\n")
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the trace lacks %q:\n%s", w, text)
		}
	}
	if len(lines) != 3 {
		t.Errorf("the trace has %d lines, not one for each registration and end:\n%s", len(lines), text)
	}
	var b strings.Builder
	if err := g.WritePrometheus(&b); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{
		"# TYPE peerdirect_mrcache_hits_total counter\npeerdirect_mrcache_hits_total{rail=\"efa_0\"} 1\n",
		"peerdirect_mrcache_misses_total{rail=\"efa_0\",reason=\"new\"} 2\n",
		"peerdirect_mrcache_invalidations_total{rail=\"efa_0\",cause=\"invalidated\"} 1\n",
		"peerdirect_mrcache_failures_total{rail=\"efa_0\"} 1\n",
		"peerdirect_mrcache_registered_bytes{rail=\"efa_0\"} 0\n",
		"peerdirect_mrcache_registration_seconds_bucket{rail=\"efa_0\",le=\"+Inf\"} 1\n",
		"peerdirect_mrcache_registration_seconds_count{rail=\"efa_0\"} 1\n",
	} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("lacks %q:\n%s", w, b.String())
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	reg := mrcache.RegistrarFunc(func(mrcache.Range, mrcache.Access) (mrcache.Registration, error) { return nil, syscall.ENODEV })
	rail := []mrcache.Rail{{Name: "efa_0", Registrar: reg}}
	for name, o := range map[string]mrcache.Options{
		"no rails":           {},
		"no registrar":       {Rails: []mrcache.Rail{{Name: "efa_0"}}},
		"a negative budget":  {Rails: []mrcache.Rail{{Name: "efa_0", Registrar: reg, Budget: mrcache.Budget{Count: -1}}}},
		"a small alignment":  {Rails: rail, Policy: mrcache.Policy{Align: 64}},
		"an odd alignment":   {Rails: rail, Policy: mrcache.Policy{Align: 3 * page}},
		"no concurrency":     {Rails: rail, Concurrency: -1},
		"identity of nought": {Rails: rail, Identify: map[mrcache.Space]func(mrcache.Range) (uint64, error){0: nil}},
	} {
		if _, err := mrcache.New(o); !errors.Is(err, mrcache.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
