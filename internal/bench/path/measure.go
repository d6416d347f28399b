package path

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/internal/cuda"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// both stands for both directions at once, where 0 and 1 are one.
const both = 2

// key is a value that is measured.
type key struct {
	route
	lane int
	size uint64
}

// series has a key's values of all rounds.
type series struct {
	alone, rate []float64 // us; GB/s
}

func run(ctx context.Context, o Options, drv driver, beat func()) (rep *Report, err error) {
	r := &rig{o: o, drv: drv, beat: beat, grace: grace}
	defer func() {
		closed := r.close()
		if err != nil && errors.Is(closed, errLate) {
			err = fmt.Errorf("%w; %w", err, closed)
		}
		if err = explained(cmp.Or(err, closed)); err != nil {
			rep = nil
		}
	}()
	if err := r.open(); err != nil {
		return nil, err
	}
	all := r.keys()
	if len(all) == 0 {
		return nil, fmt.Errorf("peer access between %s and %s is not possible, and --ways names no other way: %w", r.ends[0].name, r.ends[1].name, errors.ErrUnsupported)
	}
	values := make(map[key]*series, len(all))
	var checked uint64
	done := 0
	for round := range o.Rounds {
		for _, k := range order(all, round) {
			if err := context.Cause(ctx); err != nil {
				return nil, fmt.Errorf("interrupted: %w", err)
			}
			if o.Tell != nil {
				o.Tell(Progress{done, o.Rounds * len(all), fmt.Sprintf("%s, %v", k.way.label(), report.Bytes(k.size))})
			}
			done++
			if err := r.access(k.way != NoAccess); err != nil {
				return nil, err
			}
			if values[k] == nil {
				values[k] = new(series)
			}
			n, err := r.measure(ctx, k, values[k])
			if err != nil {
				return nil, err
			}
			checked += n
		}
	}
	rep = r.report(all, values, checked)
	return rep, r.access(false)
}

// measure takes a key's values of one round, and gives how many bytes it checked.
func (r *rig) measure(ctx context.Context, k key, into *series) (checked uint64, err error) {
	lanes := r.lanes[:]
	if k.lane != both {
		lanes = r.lanes[k.lane : k.lane+1]
	}
	depth := r.o.depth(k.size)
	slots := min(uint64(depth), r.o.span()/k.size)
	at := func(i int) uint64 { return uint64(i) % slots * k.size }
	for _, l := range lanes {
		if !r.o.Trust {
			if err := l.up.fill(l.to.in, poison, slots*k.size+guard); err != nil {
				return 0, fmt.Errorf("%v: %w", l, err)
			}
			if err := l.finish(ctx); err != nil {
				return 0, err
			}
		}
		// The first copy after others finds things cold, and is not measured.
		if err := r.copies(ctx, l, k, 1, at); err != nil {
			return 0, err
		}
	}
	if k.lane != both {
		var us []float64
		for begun := time.Now(); time.Since(begun) < r.o.Duration || len(us) == 0; {
			t := time.Now()
			if err := r.copies(ctx, lanes[0], k, 1, at); err != nil {
				return 0, err
			}
			us = append(us, float64(time.Since(t).Nanoseconds())/1e3)
		}
		into.alone = append(into.alone, bench.Median(us))
	}
	rate, err := r.rate(ctx, lanes, k, depth, at)
	if err != nil {
		return 0, err
	}
	into.rate = append(into.rate, rate)
	if r.o.Trust {
		return 0, nil
	}
	for i, l := range r.lanes {
		if k.lane == both || k.lane == i {
			if err := r.verify(l, i, k, slots); err != nil {
				return 0, err
			}
			checked += slots * k.size
		}
	}
	return checked, nil
}

// copies makes n copies back to back, and waits for the last.
func (r *rig) copies(ctx context.Context, l *lane, k key, n int, at func(int) uint64) error {
	for i := range n {
		if err := l.submit(k.route, at(i), k.size); err != nil {
			return fmt.Errorf("%v, copies of %v, %s: %w", l, report.Bytes(k.size), k.way, err)
		}
	}
	r.beat()
	return l.finish(ctx)
}

// rate makes copies in each lane at once until the time is over, and gives the GB/s
// of all: their bytes by the time that the last lane took.
func (r *rig) rate(ctx context.Context, lanes []*lane, k key, depth int, at func(int) uint64) (float64, error) {
	type result struct {
		copies int
		err    error
	}
	results := make(chan result, len(lanes))
	begun := time.Now()
	loop := func(l *lane) {
		var made result
		for made.err == nil && (made.copies == 0 || time.Since(begun) < r.o.Duration) {
			made.err = r.copies(ctx, l, k, depth, at)
			made.copies += depth
		}
		results <- made
	}
	for _, l := range lanes[1:] {
		go loop(l)
	}
	loop(lanes[0])
	copies, err := 0, error(nil)
	for range lanes {
		made := <-results
		copies += made.copies
		err = cmp.Or(err, made.err)
	}
	took := time.Since(begun)
	return float64(copies) * float64(k.size) / float64(took.Nanoseconds()), err
}

// verify reads back what copies wrote, and a piece behind it.
func (r *rig) verify(l *lane, source int, k key, slots uint64) error {
	n := slots * k.size
	want := r.pattern[source*shift:][:n]
	mismatch := func(at uint64, got, want byte) error {
		e := &MismatchError{Lane: l.String(), Way: k.way, Size: k.size, Copy: int(at / k.size), Offset: at % k.size, Got: got, Want: want}
		if at >= n {
			e.Copy, e.Offset = -1, at-n
		}
		return e
	}
	for off := uint64(0); off < n+guard; {
		got := r.check[:min(uint64(len(r.check)), n+guard-off)]
		if off < n {
			got = got[:min(uint64(len(got)), n-off)]
		}
		if err := l.to.gpu.toHost(got, l.to.in+off); err != nil {
			return fmt.Errorf("reading %s back: %w", l.to.name, err)
		}
		r.beat()
		if off >= n {
			for i, v := range got {
				if v != poison {
					return mismatch(off+uint64(i), v, poison)
				}
			}
		} else if i := differs(got, want[off:off+uint64(len(got))]); i >= 0 {
			return mismatch(off+uint64(i), got[i], want[off+uint64(i)])
		}
		off += uint64(len(got))
	}
	return nil
}

// explained adds to an error of the driver's what to do.
func explained(err error) error {
	var e *cuda.Error
	if errors.As(err, &e) && e.Result.Remedy() != "" {
		return fmt.Errorf("%w: %s", err, e.Result.Remedy())
	}
	return err
}
