package mrcache_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// far is the other side of transfers: an endpoint and a region that peers write.
type far struct {
	ep   *efa.Endpoint
	b    *efa.Batch
	to   *efa.Dest
	mem  []byte
	mr   *efa.MR
	done []efa.Completion
}

// connect makes an endpoint on the NIC's device that writes into n bytes of
// another device.
func connect(t testing.TB, f *device.Fabric, g *nic, n int) *far {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dev, err := efa.Embedded(f, device.Options{})
	must(err)
	x := &far{mem: make([]byte, n), done: make([]efa.Completion, 64)}
	x.mr, err = dev.Register(x.mem, efa.LocalWrite|efa.RemoteWrite)
	must(err)
	theirs, err := dev.CreateSRD(efa.SRDOptions{})
	must(err)
	x.ep, err = g.dev.CreateSRD(efa.SRDOptions{MaxSend: 64})
	must(err)
	here, err := g.dev.CreateAH(dev.Attr().GID)
	must(err)
	there, err := dev.CreateAH(g.dev.Attr().GID)
	must(err)
	x.to = here.To(theirs.QPN(), theirs.Address().QKey)
	x.b = x.ep.Batch()
	t.Cleanup(func() {
		x.b.Close()
		for _, o := range []interface{ Close() error }{x.ep, theirs, here, there, x.mr, dev} {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return x
}

// write writes the referenced bytes to an offset at the far side and waits.
func (x *far) write(t testing.TB, ref *mrcache.Ref, n, to int) {
	m := ref.Registration().(*pinnedMR)
	x.b.Write(x.to, m.At(ref.Offset(), uint32(n)), x.mr.Remote().At(uint64(to)), 1)
	if err := x.b.Post(); err != nil {
		t.Fatal(err)
	}
	for {
		k, err := x.ep.Poll(x.done)
		if err != nil {
			t.Fatal(err)
		}
		if k > 0 {
			if err := x.done[0].Err(); err != nil {
				t.Fatal(err)
			}
			return
		}
		runtime.Gosched()
	}
}

// TestAMillionStepsWithoutAStaleHit allocates, registers, transfers and frees at
// random, on an EFA device of this process whose registrations keep the pages
// that were there at the time. Memory comes back at the same addresses with other
// pages. What every transfer brought is compared, byte by byte, with what is at
// the address.
//
// Some allocations have a number, of some the kernel tells, some are freed after
// Invalidate, and some are offsets in a file.
func TestAMillionStepsWithoutAStaleHit(t *testing.T) {
	steps := 1_000_000
	if testing.Short() || raceEnabled {
		steps = 20_000
	}
	const (
		slot  = 64 * page
		slots = 48
		most  = 16 << 10 // bytes of a transfer
	)
	nothingLeft(t)
	f := device.NewFabric(device.FabricOptions{Seed: 1})
	t.Cleanup(func() { f.Close() })
	arena := newArena(t, slots*slot)
	n := newNIC(t, f, arena, device.Options{MaxMRs: 450})
	c := newCache(t, mrcache.Options{Watch: true, Rails: []mrcache.Rail{{Name: "efa_0", Registrar: n, Budget: mrcache.Budget{Bytes: 8 << 20, Count: 400}}}})
	_, lacks := c.Watching()
	x := connect(t, f, n, most)

	type allocation struct {
		mrcache.Range // whole; no bytes if there is none
		explicit      bool
	}
	var all [slots]allocation
	rng := rand.New(rand.NewPCG(7, uint64(steps)))
	var ids, stamp, transfers, moved, frees uint64
	start := time.Now()
	free := func(i int) {
		a := &all[i]
		if a.explicit {
			if err := c.Invalidate(t.Context(), a.Range); err != nil {
				t.Fatal(err)
			}
		}
		arena.unmap(a.Addr, int(a.Length))
		*a = allocation{}
		frees++
	}
	alloc := func(i int) {
		size := (1 + rng.IntN(slot/page)) * page
		a := allocation{Range: pool(0, arena.alloc(i*slot, size), uint64(size))}
		switch rng.IntN(4) {
		case 0: // the kernel tells
		case 1:
			ids++
			a.Alloc.ID = ids
		case 2:
			a.Alloc.ID, a.explicit = 1<<40+uint64(i), true // the same number again and again
		case 3:
			ids++
			a.Alloc.ID, a.Base, a.Size = ids, a.Addr, a.Length
		}
		mem := at(a.Addr, size)
		for at := 0; at < size; at += 512 {
			stamp++
			binary.LittleEndian.PutUint64(mem[at:], stamp)
		}
		all[i] = a
	}
	for step := range steps {
		i := rng.IntN(slots)
		a := &all[i]
		switch {
		case a.Length == 0:
			alloc(i)
			continue
		case rng.IntN(50) == 0:
			free(i)
			continue
		}
		r := a.Range
		off := rng.Uint64N(a.Length)
		r.Addr, r.Length = a.Addr+off, min(a.Length-off, 1+rng.Uint64N(1<<(4+rng.IntN(11))))
		access := local
		if rng.IntN(8) == 0 {
			access = read
		}
		ref, err := c.Get(0, r, access)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		mem := at(r.Addr, int(r.Length))
		stamp++
		mem[rng.IntN(len(mem))] = byte(stamp)
		x.write(t, &ref, len(mem), 0)
		if !bytes.Equal(mem, x.mem[:len(mem)]) {
			t.Fatalf("step %d: a stale registration of %v: %v", step, r, ref.Range())
		}
		ref.Release()
		transfers++
		moved += uint64(len(mem))
	}
	took := time.Since(start)
	s := c.Stats()[0]
	t.Logf("%d steps in %v: %d transfers, %d bytes compared, %d frees; %d hits, misses %v, %d evictions, invalidations %v (%s)",
		steps, took.Round(time.Millisecond), transfers, moved, frees, s.Hits, s.Misses, s.Evictions, s.Invalidations, lacks)
	if s.Hits == 0 || s.Evictions == 0 || s.Invalidations["reallocated"] == 0 || s.Invalidations["invalidated"] == 0 {
		t.Error("not all of the cache was used")
	}
	if int64(s.Regions) < n.open.Load() {
		t.Errorf("%d registrations are open, the cache knows of %d", n.open.Load(), s.Regions)
	}
}

// TestGoroutinesOnTwoRails: hits, misses, evictions, invalidations and sweeps at
// once. What a reference gives is open for as long as it is held, and of the
// allocation that was asked for.
func TestGoroutinesOnTwoRails(t *testing.T) {
	nothingLeft(t)
	f := device.NewFabric(device.FabricOptions{Seed: 1})
	t.Cleanup(func() { f.Close() })
	const (
		workers = 6
		slot    = 16 * page
	)
	a := newArena(t, workers*slot)
	nics := []*nic{newNIC(t, f, a, device.Options{}), newNIC(t, f, a, device.Options{})}
	c := newCache(t, mrcache.Options{Watch: true, Rails: []mrcache.Rail{
		{Name: "efa_0", Registrar: nics[0], Budget: mrcache.Budget{Bytes: 128 * page, Count: 64}},
		{Name: "efa_1", Registrar: nics[1], Budget: mrcache.Unlimited},
	}})
	steps := 20_000
	if testing.Short() || raceEnabled {
		steps = 3_000
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 5))
			var whole mrcache.Range
			for step := range steps {
				if whole.Length == 0 {
					n := (1 + rng.IntN(slot/page)) * page
					whole = pool(uint64(rng.IntN(2)*(step+1)*workers+w)*uint64(rng.IntN(2)), a.alloc(w*slot, n), uint64(n))
					binary.LittleEndian.PutUint64(at(whole.Addr, 8), uint64(step))
				}
				if rng.IntN(20) == 0 {
					if whole.Alloc.ID != 0 && rng.IntN(2) == 0 {
						if err := c.Invalidate(t.Context(), whole); err != nil {
							t.Error(err)
						}
					}
					a.unmap(whole.Addr, int(whole.Length))
					whole = mrcache.Range{}
					continue
				}
				r := whole
				off := rng.Uint64N(whole.Length)
				r.Addr, r.Length = r.Addr+off, 1+rng.Uint64N(whole.Length-off)
				ref, err := c.Get(rng.IntN(2), r, local)
				if err != nil {
					t.Errorf("step %d: %v", step, err)
					return
				}
				m := ref.Registration().(*pinnedMR)
				if m.r.Alloc != r.Alloc || ref.Range().Addr+ref.Offset() != r.Addr || r.End() > ref.Range().End() {
					t.Errorf("step %d: %v for %v", step, m.r, r)
				}
				k := min(r.Length, 64)
				if !bytes.Equal(m.mem[ref.Offset():][:k], at(r.Addr, int(k))) {
					t.Errorf("step %d: a stale registration of %v", step, r)
					return
				}
				ref.Release()
			}
		})
	}
	all.Wait()
	for i, s := range c.Stats() {
		if s.Hits == 0 {
			t.Errorf("rail %d: %+v", i, s)
		}
	}
}
