package mrcache_test

import (
	"context"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
	"github.com/peerdirect/peerdirect/verbs"
)

// A cache over one NIC, here an embedded one: the first use of a buffer registers,
// the second finds it. The pool has a number and bounds, so that it is registered as
// a whole, and the program says when it goes.
func Example() {
	ctx := context.Background()
	fabric := device.NewFabric(device.FabricOptions{})
	defer fabric.Close()
	nic, err := efa.Embedded(fabric, device.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()
	pool, err := verbs.NewBuffer(1<<20, verbs.BufferOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	const base = 1 << 32 // of the pool, in addresses that the caller counts
	register := func(r mrcache.Range, access mrcache.Access) (mrcache.Registration, error) {
		return nic.Register(pool.Bytes()[r.Addr-base:][:r.Length], efa.Access(access))
	}
	cache, err := mrcache.New(mrcache.Options{Rails: []mrcache.Rail{
		{Name: "efa_0", Registrar: mrcache.RegistrarFunc(register), Budget: mrcache.Unlimited},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, at := range []uint64{0, 256 << 10} {
		ref, err := cache.Get(0, mrcache.Range{
			Alloc: mrcache.Allocation{Space: mrcache.Host, ID: 1}, Addr: base + at, Length: 4096, Base: base, Size: 1 << 20,
		}, mrcache.Access(efa.LocalWrite))
		if err != nil {
			log.Fatal(err)
		}
		mr := ref.Registration().(*efa.MR)
		fmt.Println("in use:", mr.At(ref.Offset(), 4096).Length, "bytes of", mr.Length())
		ref.Release() // when the transfer has completed
	}
	s := cache.Stats()[0]
	fmt.Println(s.Registrations, "registration,", s.Hits, "hit")

	// Before the pool is freed. Close would do, too.
	if err := cache.Invalidate(ctx, mrcache.Range{Alloc: mrcache.Allocation{Space: mrcache.Host, ID: 1}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cache.Stats()[0].Regions, "regions are left")
	if err := cache.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// in use: 4096 bytes of 1048576
	// in use: 4096 bytes of 1048576
	// 1 registration, 1 hit
	// 0 regions are left
}
