package engine

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// CacheOptions say what is kept of a region that is closed, so that the next one of
// the same memory need not be registered.
//
// Only registrations whose keys never left this process are kept: they serve as what
// is written from, and read into. Before a region is granted, its registrations are
// taken out of the cache, or made anew where others use them too, for exactly its
// bytes; they end with its Close. So nobody reaches memory by keys of a region that
// is closed, and nobody more of it than was granted.
type CacheOptions struct {
	// Budget is what each rail may hold registered; zero keeps nothing.
	Budget mrcache.Budget
	// Host is the caller's promise to call Forget before memory of the process that
	// was registered is unmapped, or another mapped in its place. It is kept then,
	// too. An exporter's memory needs no promise: its allocations have names.
	Host bool
}

// cache is the engine's registrations. A nil one keeps nothing.
type cache struct {
	*mrcache.Cache
	host bool

	mu       sync.Mutex
	memories map[mrcache.Range]*memoryOf // whose ranges are being registered
}

type memoryOf struct {
	m     dmabuf.Memory
	start uint64 // of its first byte, as the cache counts
	users int
}

func newCache(e *Engine) (*cache, error) {
	o := e.o.Cache
	if o.Budget == (mrcache.Budget{}) {
		return nil, nil
	}
	c := &cache{host: o.Host, memories: make(map[mrcache.Range]*memoryOf)}
	// What is registered is what was asked for: bytes beside it may be no memory of
	// the exporter's, and registering them takes time that nobody has asked for.
	opts := mrcache.Options{Explicit: o.Host, Policy: mrcache.Policy{NoMerge: true, NoWhole: true}}
	for _, r := range e.rails {
		opts.Rails = append(opts.Rails, mrcache.Rail{
			Name: fmt.Sprintf("%d, %s", r.index, r.info.Device), Budget: o.Budget,
			Limits:    mrcache.Limits{RegionBytes: r.info.MaxRegion},
			Registrar: mrcache.RegistrarFunc(func(of mrcache.Range, _ mrcache.Access) (mrcache.Registration, error) { return c.register(r.rail, of) }),
		})
	}
	var err error
	c.Cache, err = mrcache.New(opts)
	return c, err
}

// kept is a registration in the cache.
type kept struct {
	*transfer.Region
	export *transfer.Export // nil of memory of the process
}

func (k *kept) Close() error {
	if err := k.Region.Close(); err != nil || k.export == nil {
		return err
	}
	return k.export.Close()
}

// register registers a range with a rail.
func (c *cache) register(r Rail, of mrcache.Range) (mrcache.Registration, error) {
	if of.Alloc.Space == mrcache.Host {
		addr := uintptr(of.Addr)
		mem := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), of.Length)
		region, err := r.Register(mem)
		if err != nil {
			return nil, err
		}
		return &kept{Region: region}, nil
	}
	c.mu.Lock()
	m := c.memories[of]
	c.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("%v: nobody has asked for these bytes", of)
	}
	x := transfer.NewExport(m.m, of.Addr-m.start, of.Length)
	region, err := r.RegisterExport(x)
	if err == nil {
		if err = x.Registered(); err == nil {
			return &kept{region, x}, nil
		}
		region.Close()
	}
	x.Close()
	return nil, err
}

// source is a range that regions register through the cache.
type source struct {
	c     *cache
	of    mrcache.Range
	m     dmabuf.Memory // nil of memory of the process
	start uint64
	refs  map[int]*mrcache.Ref // by rail
}

// ofHost is nil where memory of the process is not kept.
func (c *cache) ofHost(mem []byte) *source {
	if c == nil || !c.host || len(mem) == 0 {
		return nil
	}
	return &source{c: c, of: hostRange(mem), refs: make(map[int]*mrcache.Ref)}
}

func hostRange(mem []byte) mrcache.Range {
	return mrcache.Range{Alloc: mrcache.Allocation{Space: mrcache.Host}, Addr: uint64(uintptr(unsafe.Pointer(&mem[0]))), Length: uint64(len(mem))}
}

// ofMemory is nil for memory whose allocation the cache has no name for.
func (c *cache) ofMemory(m dmabuf.Memory, offset, length uint64) (*source, error) {
	if c == nil || length == 0 {
		return nil, nil
	}
	alloc, start, err := allocation(m)
	if err != nil || alloc == (mrcache.Allocation{}) {
		return nil, err
	}
	return &source{c: c, m: m, start: start, of: mrcache.Range{Alloc: alloc, Addr: start + offset, Length: length}, refs: make(map[int]*mrcache.Ref)}, nil
}

// allocation names a memory's allocation, and where the memory begins in it; no
// name where that is not known.
func allocation(m dmabuf.Memory) (a mrcache.Allocation, start uint64, err error) {
	id, err := m.Identity()
	if err != nil {
		return a, 0, err // it was freed
	}
	switch id.Kind {
	case "cuda":
		start = m.Address()
	case "memfd": // it may be a part of it
		part, ok := m.(interface{ Start() uint64 })
		if !ok {
			return a, 0, nil
		}
		start = part.Start()
	case "dmabuf":
	default:
		return a, 0, nil
	}
	a, err = mrcache.Identity(id.Kind, id.ID)
	return a, start, err
}

// get gives the range's registration with a rail.
func (s *source) get(rail int) (*transfer.Region, error) {
	if s.m != nil {
		defer s.c.using(s)()
	}
	ref, err := s.c.Get(rail, s.of, 0)
	if err != nil {
		return nil, err
	}
	s.refs[rail] = &ref
	return ref.Registration().(*kept).Part(ref.Offset(), s.of.Length, ref.Close)
}

// own makes the registration with a rail this source's alone, if it has no others'
// bytes and nobody else refers to it.
func (s *source) own(rail int) bool {
	ref := s.refs[rail]
	return ref != nil && ref.Range().Length == s.of.Length && ref.Own()
}

// using lets the memory be found while it is registered.
func (c *cache) using(s *source) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[s.of]
	if m == nil {
		m = &memoryOf{m: s.m, start: s.start}
		c.memories[s.of] = m
	}
	m.users++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.users--; m.users == 0 {
			delete(c.memories, s.of)
		}
	}
}

// Forget deregisters what the cache keeps of memory of the process: call it before
// that is unmapped. It waits until regions of it are closed, or the context ends.
func (e *Engine) Forget(ctx context.Context, mem []byte) error {
	if e.cache == nil || len(mem) == 0 {
		return nil
	}
	return e.cache.Invalidate(ctx, hostRange(mem))
}

// ForgetMemory is Forget of an exporter's memory, all of its allocation. Without it
// what is kept holds the memory, after its Close, until there is no room.
func (e *Engine) ForgetMemory(ctx context.Context, m dmabuf.Memory) error {
	if e.cache == nil {
		return nil
	}
	a, _, err := allocation(m)
	if err != nil || a == (mrcache.Allocation{}) {
		return err
	}
	return e.cache.Invalidate(ctx, mrcache.Range{Alloc: a})
}

// CacheStats are the cache's numbers by rail; nil without one.
func (e *Engine) CacheStats() []mrcache.Stats {
	if e.cache == nil {
		return nil
	}
	return e.cache.Stats()
}

// close deregisters everything, once all regions are closed. What one holds still
// is an error.
func (c *cache) close() error {
	if c == nil || c.Cache == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing is to be waited for
	return c.Close(ctx)
}
