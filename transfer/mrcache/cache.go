package mrcache

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Budget is what a rail may hold registered. A budget of no bytes or of no
// regions keeps nothing: each use registers, and deregisters at its end.
type Budget struct {
	Bytes uint64
	Count int
}

// Unlimited is a budget that only the device bounds.
var Unlimited = Budget{Bytes: 1<<64 - 1, Count: 1<<31 - 1}

// Limits are a device's, 0 where it has none or they are not known. They also
// bound what is not kept.
type Limits struct {
	Count       int    // regions (max_mr)
	Bytes       uint64 // in all regions together
	RegionBytes uint64 // in one region (max_mr_size)
}

// Policy says what is registered when a range is. Its zero value is for most.
type Policy struct {
	// Align is to what the range is rounded outwards, a power of two from the
	// page's size on, which is the default: host memory is pinned by pages,
	// and many small ranges in one page then are one registration. Other
	// memory is rounded only inside an allocation whose bounds are known.
	Align uint64
	// MaxMerged is the most bytes of a registration that was merged of
	// neighbours; default 64 MiB.
	MaxMerged uint64
	// NoMerge: never register idle neighbours of the same allocation and
	// rights along with a range. With merging, a neighbour goes along that is
	// no longer than the rest, so that a buffer which is registered piece by
	// piece is registered a logarithmic number of times.
	NoMerge bool
	// NoWhole: never register the whole of an allocation whose bounds are
	// known.
	NoWhole bool
}

// Rail is a NIC to register with.
type Rail struct {
	Name      string
	Registrar Registrar
	Budget    Budget // zero keeps nothing
	Limits    Limits
}

// Options describe a cache.
type Options struct {
	Rails  []Rail
	Policy Policy

	// Concurrency is how many registrations run at once, over all rails;
	// default half of the processors, at least 2.
	Concurrency int

	// Watch asks the kernel to tell when host memory goes (userfaultfd), so
	// that memory without a number can be kept. It must not be memory of Go's
	// heap or of a C allocator that shares the thread which reads the events;
	// see [Cache.Watching] for whether it works, and docs/mrcache.md for what
	// it sees.
	Watch bool
	// Explicit is the caller's promise to call Invalidate before host memory
	// without a number is freed or changes. It is kept then, watched or not.
	Explicit bool

	// Identify finds the ID of the allocation that a range is of now, or fails
	// if it is of none. It is asked for each request of its space, also those
	// that hit, and by Sweep: CUDA's cuPointerGetAttribute.
	Identify map[Space]func(Range) (uint64, error)
	// SweepEvery is how often Sweep runs by itself; never if 0.
	SweepEvery time.Duration

	// Trace is told of each registration and of each end of one. It is called
	// by several goroutines at once and must not call the cache.
	Trace func(Event)
}

// Cache keeps registrations for several rails. All its methods may be called by
// several goroutines at once.
type Cache struct {
	rails    []*rail
	policy   Policy
	explicit bool
	identify [spaces]func(Range) (uint64, error)
	trace    func(Event)
	slots    chan struct{} // of registrations that run
	watch    *watch        // nil without
	unwatch  string        // why

	ending  sync.Once
	stop    chan struct{}
	helpers sync.WaitGroup
}

var pageSize = uint64(4096)

// New makes a cache. It fails only for options that make no sense: a kernel that
// does not tell of host memory is no error, see Watching.
func New(o Options) (*Cache, error) {
	invalid := func(format string, args ...any) (*Cache, error) {
		return nil, &Error{Op: "new cache", Err: ErrInvalid, Detail: fmt.Sprintf(format, args...)}
	}
	if o.Policy.Align == 0 {
		o.Policy.Align = pageSize
	}
	if a := o.Policy.Align; a < pageSize || a&(a-1) != 0 {
		return invalid("an alignment of %d: it takes a power of two, at least %d", a, pageSize)
	}
	if o.Policy.MaxMerged == 0 {
		o.Policy.MaxMerged = 64 << 20
	}
	if o.Concurrency == 0 {
		o.Concurrency = max(2, runtime.GOMAXPROCS(0)/2)
	}
	if o.Concurrency < 0 {
		return invalid("%d registrations at once", o.Concurrency)
	}
	if len(o.Rails) == 0 {
		return invalid("no rails")
	}
	c := &Cache{
		policy: o.Policy, explicit: o.Explicit, trace: o.Trace,
		slots: make(chan struct{}, o.Concurrency), stop: make(chan struct{}),
	}
	for space, f := range o.Identify {
		if space == 0 || space >= spaces {
			return invalid("Identify of space %d", space)
		}
		c.identify[space] = f
	}
	for i, r := range o.Rails {
		switch {
		case r.Registrar == nil:
			return invalid("rail %d, %q, has no registrar", i, r.Name)
		case r.Budget.Count < 0 || r.Limits.Count < 0:
			return invalid("rail %d, %q, may have a negative number of regions", i, r.Name)
		}
		c.rails = append(c.rails, newRail(c, r))
	}
	switch {
	case o.Watch:
		var err error
		if c.watch, err = newWatch(c); err != nil {
			c.unwatch = err.Error()
		}
	default:
		c.unwatch = "not asked for"
	}
	if o.SweepEvery > 0 {
		c.helpers.Go(func() { c.sweeping(o.SweepEvery) })
	}
	return c, nil
}

// Watching tells whether the kernel tells of the end of host memory, and if not,
// why: then host memory without a number is kept only if Explicit was promised.
func (c *Cache) Watching() (ok bool, reason string) {
	if c.watch == nil {
		return false, c.unwatch
	}
	return true, c.watch.lacks
}

// request is a range that somebody wants on a rail.
type request struct {
	Range
	end    uint64
	access Access
}

func (q *request) inside(start, end uint64) bool { return start <= q.Addr && q.end <= end }

// Get gives a registration that holds the range with the rights asked for, and
// registers if there is none. The reference must be released.
func (c *Cache) Get(rail int, r Range, access Access) (Ref, error) {
	if uint(rail) >= uint(len(c.rails)) {
		return Ref{}, &Error{Op: "register", Range: r, Err: ErrInvalid, Detail: fmt.Sprintf("no rail %d of %d", rail, len(c.rails))}
	}
	if s := r.Alloc.Space; s < spaces && c.identify[s] != nil {
		if err := c.identified(&r.Alloc, r); err != nil {
			return Ref{}, err
		}
	}
	q := request{Range: r, end: r.Addr + r.Length, access: access}
	if r.Alloc.Space == Host && c.watch != nil {
		c.watch.settle()
	}
	rl := c.rails[rail]
	if q.end > q.Addr {
		if e := rl.index.find(&q); e != nil {
			return Ref{e, q.Addr - e.start}, nil
		}
	}
	return rl.miss(q)
}

// identified finds out of which allocation the memory is now. It takes the range
// by value, so that a hit allocates nothing.
func (c *Cache) identified(alloc *Allocation, r Range) error {
	id, err := c.identify[alloc.Space](r)
	if err != nil {
		deregisterAll(c.take(Range{Alloc: r.Alloc, Addr: r.Addr, Length: max(r.Length, 1)}, CauseIdentity))
		return &Error{Op: "identify", Range: r, Err: err}
	}
	if alloc.ID == 0 {
		alloc.ID = id
	}
	if alloc.ID != id {
		deregisterAll(c.take(Range{Alloc: *alloc}, CauseIdentity))
		return &Error{Op: "register", Range: r, Err: ErrStale,
			Detail: fmt.Sprintf("the memory is of %v now; ask for its identity again after each allocation", Allocation{alloc.Space, id})}
	}
	return nil
}
