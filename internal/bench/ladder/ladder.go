// Package ladder measures what each part of the engine's design is worth: the
// rungs of a ladder, each the one below and one thing more, on paced software
// devices inside this process.
package ladder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench"
)

// Options say what to measure. Zero fields take the default in the comment.
type Options struct {
	NICs     int           // of each of the two nodes; default 32
	Gbps     float64       // of each NIC; default what the machine can do, see Run
	PageSize int           // bytes; default 64 KiB
	Workers  int           // "a worker for each group of NICs"; default one for 4 NICs, at most one for each CPU
	Rounds   int           // of all rungs; medians count; default 3
	Duration time.Duration // of a rung in a round, at line rate; default 1 s

	// Tell is told of each measurement that begins.
	Tell func(Progress)
}

// Progress is how far it is.
type Progress struct {
	Done, Total int
	What        string
}

// Check finds what makes no sense.
func (o Options) Check() error { return o.defaults() }

func (o *Options) defaults() error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.NICs, 32)
	set(&o.PageSize, 64<<10)
	set(&o.Workers, max(1, min(o.NICs/4, runtime.GOMAXPROCS(0))))
	set(&o.Rounds, 3)
	if o.Duration == 0 {
		o.Duration = time.Second
	}
	for _, b := range []struct {
		name      string
		v, lo, hi int
	}{
		{"--nics", o.NICs, 1, 64},
		{"--pages", o.PageSize, 512, 1 << 20},
		{"--workers", o.Workers, 1, o.NICs},
		{"--rounds", o.Rounds, 1, 1000},
	} {
		if b.v < b.lo || b.v > b.hi {
			return fmt.Errorf("%s %d: it is %d to %d", b.name, b.v, b.lo, b.hi)
		}
	}
	if !(o.Gbps >= 0 && o.Gbps <= 1e5) {
		return fmt.Errorf("--gbps %g: it is above 0, to 100000", o.Gbps)
	}
	if o.Duration < time.Millisecond || o.Duration > time.Minute {
		return fmt.Errorf("--duration %v: it is 1ms to 1m", o.Duration)
	}
	return nil
}

// paced is the part of what the machine moves unpaced that the NICs are paced to:
// less than half, since other programs take their share of the machine as well.
const paced = 0.4

// Run measures. Where no rate is given, the top rung moves pages over devices
// that are not paced first, and the NICs are paced to a part of that together.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	all := rungs(o)
	r := &Report{Schema: Schema, Conditions: conditions(o)}
	total := o.Rounds * len(all)
	done := 0
	tell := func(what string) {
		if o.Tell != nil {
			o.Tell(Progress{Done: done, Total: total, What: what})
		}
		done++
	}
	if o.Gbps == 0 {
		total++
		tell("the machine's own rate")
		top := all[len(all)-1]
		m, err := measure(ctx, o, top, calibrated(o))
		if err != nil {
			return nil, fmt.Errorf("how fast the machine is: %w", err)
		}
		r.Conditions.Machine = m.gbps
		o.Gbps = round(m.gbps * paced / float64(o.NICs))
	}
	r.Conditions.Gbps = o.Gbps
	rates := make([][]float64, len(all))
	ops := make([][]float64, len(all))
	first := make([][]float64, len(all))
	for range o.Rounds {
		for i, g := range all {
			tell(g.name)
			m, err := measure(ctx, o, g, o.pages(g))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", g.name, err)
			}
			rates[i], ops[i] = append(rates[i], m.gbps), append(ops[i], m.ops)
			first[i] = append(first[i], float64(m.first.Nanoseconds())/1e3)
		}
	}
	for i, g := range all {
		line := o.Gbps * float64(g.nics)
		gbps := bench.Median(rates[i])
		r.Rungs = append(r.Rungs, Rung{
			Name: g.name, NICs: g.nics, Workers: g.workers, Line: line, Gbps: gbps, OfLine: 100 * gbps / line,
			Least: slices.Min(rates[i]), Most: slices.Max(rates[i]), Operations: bench.Median(ops[i]), First: bench.Median(first[i]),
		})
	}
	return r, nil
}

// pages is how many a rung moves in the time that is to be measured.
func (o *Options) pages(g rung) int {
	return max(1, int(o.Gbps*1e9/8*float64(g.nics)*o.Duration.Seconds())/o.PageSize)
}

// calibrated is how many pages tell how fast the machine is.
func calibrated(o Options) int { return max(1, 256<<20/o.PageSize) }

// round makes a rate of two digits, downwards.
func round(gbps float64) float64 {
	if gbps <= 0 {
		return 0.01
	}
	digit := math.Pow(10, math.Floor(math.Log10(gbps))-1)
	return math.Max(0.01, math.Floor(gbps/digit)*digit)
}

var errSlow = errors.New("it moves less than a tenth of the line: the NICs are paced higher than the machine, see --gbps")
