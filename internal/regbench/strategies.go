package regbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// chunkTime is about how long is measured between two looks at the clock, so that
// looking costs nothing beside what is measured.
const chunkTime = time.Millisecond

// repeat does something again and again for the time of one value, and gives the
// mean of one in nanoseconds. Its first is not counted: caches are cold.
func (b *bench) repeat(once func() error) (mean float64, times uint64, err error) {
	if err := once(); err != nil {
		return 0, 0, err
	}
	var took time.Duration
	for chunk := uint64(1); ; {
		if b.ctx.Err() != nil {
			return 0, 0, transfer.ErrCancelled
		}
		start := time.Now()
		for range chunk {
			if err := once(); err != nil {
				return 0, 0, err
			}
		}
		d := time.Since(start)
		took, times = took+d, times+chunk
		if took >= b.o.Each {
			return float64(took.Nanoseconds()) / float64(times), times, nil
		}
		if d < chunkTime/2 {
			chunk *= 2
		}
	}
}

// slots is how many pieces of a size are used in turn, so that not always the
// same pages are.
func (b *bench) slots(size uint64) uint64 { return max(1, min(64, b.pool.size/size)) }

// whole registers the pool, and then only finds pieces in it.
func (b *bench) whole(m *samples) error {
	if err := b.next("the whole pool"); err != nil {
		return err
	}
	var register, deregister time.Duration
	mean, times, err := b.repeat(func() error {
		start := time.Now()
		x, err := b.pool.register(b.rail, 0, b.pool.size)
		if err != nil {
			return err
		}
		register += time.Since(start)
		start = time.Now()
		err = x.Close()
		deregister += time.Since(start)
		return err
	})
	if err != nil {
		return err
	}
	m.add(key{strategy: StrategyPool, size: b.pool.size}, mean, times)
	m.split(key{strategy: StrategyPool, size: b.pool.size}, register, deregister, times+1)
	x, err := b.pool.register(b.rail, 0, b.pool.size)
	if err != nil {
		return err
	}
	for _, size := range b.sizes {
		n, slots := uint64(0), b.slots(size)
		var last transfer.Local
		mean, times, err := b.repeat(func() error {
			last = x.region.At(n%slots*size, uint32(min(size, 1<<30)))
			n++
			return nil
		})
		if err != nil || last.Key != x.region.At(0, 0).Key {
			return errors.Join(err, x.Close())
		}
		if size != b.pool.size {
			m.add(key{strategy: StrategyPool, size: size}, mean, times)
		}
	}
	return x.Close()
}

// perTransfer registers and deregisters a piece for every transfer.
func (b *bench) perTransfer(m *samples, size uint64) error {
	if err := b.next("register each time, %d bytes", size); err != nil {
		return err
	}
	var register, deregister time.Duration
	n, slots := uint64(0), b.slots(size)
	mean, times, err := b.repeat(func() error {
		start := time.Now()
		x, err := b.pool.register(b.rail, n%slots*size, size)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		n++
		middle := time.Now()
		register += middle.Sub(start)
		err = x.Close()
		deregister += time.Since(middle)
		return err
	})
	if err != nil {
		return err
	}
	k := key{strategy: StrategyEach, size: size}
	m.add(k, mean, times)
	m.split(k, register, deregister, times+1)
	return nil
}

// cached asks a cache, which finds what was asked for in so many of a hundred
// cases; in the others the piece was taken out of it just before. The taking out
// counts: what is registered in a full cache costs the end of another.
func (b *bench) cached(m *samples, size uint64, hits int) (err error) {
	if err := b.next("cached with %d %% hits, %d bytes", hits, size); err != nil {
		return err
	}
	const space, number, access = mrcache.Host, 1, 3 // local and remote write
	base := uint64(1) << 40                          // addresses are this package's own: offsets
	slots := b.slots(size)
	c, err := mrcache.New(mrcache.Options{
		Rails: []mrcache.Rail{{Name: b.rail.Info().Device, Budget: mrcache.Unlimited, Registrar: mrcache.RegistrarFunc(
			func(r mrcache.Range, _ mrcache.Access) (mrcache.Registration, error) {
				x, err := b.pool.register(b.rail, r.Addr-base, r.Length)
				if err != nil {
					return nil, err // and no *piece that is nil
				}
				return x, nil
			})}},
		Policy: mrcache.Policy{NoMerge: true, NoWhole: true},
		Trace:  b.o.Trace,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.Background())) }()
	at := func(slot uint64) mrcache.Range {
		return mrcache.Range{Alloc: mrcache.Allocation{Space: space, ID: number}, Addr: base + slot*size, Length: size}
	}
	use := func(slot uint64) error {
		ref, err := c.Get(0, at(slot), access)
		if err != nil {
			return err
		}
		ref.Release()
		return nil
	}
	for slot := range slots {
		if err := use(slot); err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if b.ctx.Err() != nil {
			return transfer.ErrCancelled
		}
	}
	before := c.Stats()[0]
	uses, n, owed := cycle(hits), uint64(0), 0
	mean, times, err := b.repeat(func() error {
		for range uses {
			slot := n % slots
			n++
			if owed += 100 - hits; owed >= 100 {
				owed -= 100
				if b.ctx.Err() != nil {
					return transfer.ErrCancelled
				}
				if err := c.Invalidate(context.Background(), at(slot)); err != nil {
					return err
				}
			}
			if err := use(slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	after := c.Stats()[0]
	k := key{strategy: StrategyCached, size: size, hits: hits}
	m.add(k, mean/float64(uses), times*uint64(uses))
	m.hit(k, after.Hits-before.Hits, misses(after)-misses(before))
	return nil
}

// cycle is the least number of uses that has exactly the share of hits.
func cycle(hits int) int {
	a, b := 100, hits
	for b != 0 {
		a, b = b, a%b
	}
	return 100 / a
}
