package regbench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/uname"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
	"golang.org/x/sys/unix"
)

// Options say what is measured. Zero fields take the default in the comment.
type Options struct {
	Rail   transfer.Opener // the devices; several are registered with one after the other
	Memory dmabuf.Exporter // default nil, the process's own
	Min    uint64          // smallest size, bytes; default 4096
	Max    uint64          // largest; default as much as the machine allows, up to DefaultMax
	Hits   []int           // shares that the cache finds, percent; default 0, 50, 90, 99, 100
	Runs   int             // of everything; medians count; default 5
	Each   time.Duration   // how long a value is measured in each run; default 20 ms
	Tell   func(Progress)  // called between two values
	// Trace is told of each registration that the cache makes or ends, by
	// several goroutines at once. What it takes counts in the values.
	Trace func(mrcache.Event)
}

// DefaultMax is the largest size unless Options has another.
const DefaultMax = 1 << 30

// Progress is how far a measurement is.
type Progress struct {
	Done, Total int
	What        string // is measured next
}

// Bounds of the options.
const (
	minSize  = 4096 // a page: less is not pinned
	maxSize  = 1 << 46
	maxRuns  = 1000
	maxRatio = 16
)

func (o *Options) defaults() error {
	wrong := func(option, format string, args ...any) error {
		return &transfer.OptionError{Option: option, Err: fmt.Errorf(format, args...)}
	}
	if o.Min == 0 {
		o.Min = minSize
	}
	if o.Hits == nil {
		o.Hits = []int{0, 50, 90, 99, 100}
	}
	if o.Runs == 0 {
		o.Runs = 5
	}
	if o.Each == 0 {
		o.Each = 20 * time.Millisecond
	}
	if o.Tell == nil {
		o.Tell = func(Progress) {}
	}
	switch {
	case o.Min < minSize || o.Min > maxSize || o.Min&(o.Min-1) != 0:
		return wrong("min", "%d bytes: it is a power of two from %d on", o.Min, minSize)
	case o.Max != 0 && o.Max < o.Min || o.Max > maxSize:
		return wrong("max", "%d bytes: it is %d to %d", o.Max, o.Min, int64(maxSize))
	case o.Runs < 1 || o.Runs > maxRuns:
		return wrong("runs", "%d is not within 1 and %d", o.Runs, maxRuns)
	case o.Each < 0 || o.Each > time.Minute:
		return wrong("time", "%v is not within 0 and a minute", o.Each)
	case len(o.Hits) > maxRatio:
		return wrong("hits", "%d shares; there can be %d", len(o.Hits), maxRatio)
	}
	for _, h := range o.Hits {
		if h < 0 || h > 100 {
			return wrong("hits", "%d percent", h)
		}
	}
	o.Hits = slices.Compact(slices.Sorted(slices.Values(o.Hits)))
	return nil
}

// bench is a measurement under way.
type bench struct {
	o     Options
	ctx   context.Context
	rail  transfer.Rail
	pool  *pool
	sizes []uint64
	done  int
	total int
	r     *Report
}

// Run measures. When it returns, nothing is registered any more, whatever ended
// it; an interrupt ends it within one registration, or once the pool is made. The
// report is there if it is whole.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	rail, err := o.Rail.Open(transfer.Want{})
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, ctx: ctx, rail: rail}
	err = b.run()
	closing := rail.Close()
	if closing == nil { // else the device may still reach the pool
		closing = b.pool.close()
	}
	if err = errors.Join(err, closing); err != nil {
		return nil, err
	}
	return b.r, nil
}

func (b *bench) run() (err error) {
	limit, why, err := b.limit()
	if err != nil {
		return err
	}
	if limit < b.o.Min {
		return fmt.Errorf("%s allows %d bytes, the smallest size is %d: %w", why, limit, b.o.Min, unix.ENOMEM)
	}
	// Other limits show only now: of the exporter, and of what a device has room
	// for.
	for err = b.allocate(limit); err != nil; err = b.allocate(limit) {
		tooMuch := errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL)
		if !tooMuch || limit/4 < b.o.Min || b.o.Max != 0 || b.ctx.Err() != nil {
			return err
		}
		limit, why = limit/4, err.Error()
	}
	for s := b.o.Min; s <= limit; s *= 4 {
		b.sizes = append(b.sizes, s)
	}
	if last := b.sizes[len(b.sizes)-1]; last != limit && b.o.Max != 0 {
		b.sizes = append(b.sizes, limit)
	}
	b.report(limit, why)
	b.total = b.o.Runs * (len(b.sizes)*(len(b.o.Hits)+1) + 1 + 2)
	return b.measure()
}

// allocate makes the pool and registers it once as a trial.
func (b *bench) allocate(size uint64) (err error) {
	p, err := newPool(b.o.Memory, size)
	if err != nil {
		return err
	}
	x, err := p.register(b.rail, 0, size)
	if err == nil {
		err = x.Close()
	}
	if err != nil {
		return errors.Join(err, p.close())
	}
	b.pool = p
	return nil
}

// limit is how large the pool may be, and what sets that. What was asked for is
// not made smaller.
func (b *bench) limit() (bytes uint64, why string, err error) {
	i := b.rail.Info()
	if most := b.o.Max; most != 0 {
		if i.MaxRegion > 0 && most > i.MaxRegion {
			return 0, "", &transfer.OptionError{Option: "max", Err: fmt.Errorf("%d bytes: max_mr_size of %s is %d", most, i.Device, i.MaxRegion)}
		}
		return most &^ (minSize - 1), "--max", nil
	}
	bytes, why = DefaultMax, "the default"
	lower := func(to uint64, reason string) {
		if to > 0 && to < bytes {
			bytes, why = to, reason
		}
	}
	lower(i.MaxRegion, "max_mr_size of "+i.Device)
	if !i.Embedded && b.o.Memory == nil {
		var l unix.Rlimit
		if unix.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur != unix.RLIM_INFINITY {
			lower(l.Cur-min(l.Cur, memlockSpare), "the memlock limit (ulimit -l)")
		}
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		lower((s.Freeram+s.Bufferram)*uint64(s.Unit)/2, "half of the free memory")
	}
	// A power of four above the smallest is among the sizes.
	size := b.o.Min
	for size <= bytes/4 {
		size *= 4
	}
	if bytes >= b.o.Min {
		bytes = size
	}
	return bytes &^ (minSize - 1), why, nil
}

// memlockSpare is what the rail itself has pinned, about.
const memlockSpare = 2 << 20

// report begins the report with the conditions.
func (b *bench) report(limit uint64, why string) {
	i := b.rail.Info()
	memory := transfer.HostMemory
	if b.o.Memory != nil {
		memory = b.o.Memory.Name()
	}
	b.r = &Report{Schema: Schema, Conditions: Conditions{
		Device: i.Device, NICs: i.NICs, Embedded: i.Embedded, Transport: i.Transport, MaxRegion: i.MaxRegion, Memory: memory,
		Pool: limit, PoolBy: why, Runs: b.o.Runs, EachMilli: float64(b.o.Each) / 1e6,
		Kernel: uname.Release(), Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
	}}
}

// measure does everything once for each run, so that what drifts on the machine
// touches all values alike.
func (b *bench) measure() error {
	m := newSamples()
	for run := range b.o.Runs {
		if err := b.whole(m); err != nil {
			return err
		}
		for _, size := range b.sizes {
			if err := b.perTransfer(m, size); err != nil {
				return err
			}
			for _, hits := range b.o.Hits {
				if err := b.cached(m, size, hits); err != nil {
					return err
				}
			}
		}
		orders := []bool{true, false}
		if run%2 == 1 {
			slices.Reverse(orders)
		}
		for _, ascending := range orders {
			if err := b.growth(m, ascending); err != nil {
				return err
			}
		}
	}
	m.enter(b)
	return nil
}

// next tells of the value that comes, and ends the measurement if that is wanted.
func (b *bench) next(format string, args ...any) error {
	if b.ctx.Err() != nil {
		return transfer.ErrCancelled
	}
	b.o.Tell(Progress{Done: b.done, Total: b.total, What: fmt.Sprintf(format, args...)})
	b.done++
	return nil
}
