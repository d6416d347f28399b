package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Patterns of traffic.
const (
	// Pair: one node writes to another.
	Pair = "pair"
	// All: every node writes to others, each time to one drawn by lot, as caches
	// of keys and values go from prefill to decode.
	All = "all"
	// Scatter: one node writes a page to each of the others, waits, and does it
	// again.
	Scatter = "scatter"
	// Weights: half of the nodes write to each of the other half, in an order
	// that has every receiver busy with one sender at a time.
	Weights = "weights"
)

// Patterns are all of them.
func Patterns() []string { return []string{Pair, All, Scatter, Weights} }

// Run is what is simulated. Zero fields take the default in the comment.
type Run struct {
	Shape   Shape  `json:"shape"`
	Nodes   int    `json:"nodes"`      // default 2
	Pattern string `json:"pattern"`    // default Pair
	Page    uint64 `json:"page_bytes"` // bytes; default 64 KiB
	Pages   int    `json:"pages"`      // of a transfer; default 64; Scatter: always 1
	Window  int    `json:"window"`     // transfers of a node on their way at once; default 32; Scatter: one for each peer
	// Transfers are how many are measured of each node that writes; default 200.
	// Before that come a fifth as many, and as many as are on their way at once at
	// least. Weights: one to each receiver, all of them measured.
	Transfers int    `json:"transfers"`
	Seed      uint64 `json:"seed"`
	Batch     int    `json:"batch"` // requests a doorbell; default 16
	Model     Model  `json:"model"`
}

func (r *Run) defaults() error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	if r.Pattern == "" {
		r.Pattern = Pair
	}
	if r.Page == 0 {
		r.Page = 64 << 10
	}
	set(&r.Nodes, 2)
	set(&r.Pages, 64)
	set(&r.Window, 32)
	set(&r.Transfers, 200)
	set(&r.Batch, 16)
	if r.Pattern == Scatter {
		r.Pages, r.Window = 1, r.Nodes-1
	}
	if err := r.Model.defaults(r.Shape); err != nil {
		return err
	}
	switch {
	case !slices.Contains(Patterns(), r.Pattern):
		return fmt.Errorf("no pattern %q: there are %s", r.Pattern, strings.Join(Patterns(), ", "))
	case r.Shape.NICs > engine.MaxRails:
		return fmt.Errorf("%d NICs of a node: %d at most", r.Shape.NICs, engine.MaxRails)
	case r.Nodes < 2 || r.Nodes > 1024:
		return fmt.Errorf("%d nodes: it takes 2 to 1024", r.Nodes)
	case r.Page > 1<<20:
		return fmt.Errorf("pages of %d bytes: 1 MiB at most, so that each is one request", r.Page)
	case r.Pages < 1 || r.Pages > 1<<14:
		return fmt.Errorf("%d pages: 1 to 16384", r.Pages)
	case r.Window < 1 || r.Window > 1024:
		return fmt.Errorf("%d transfers at once: 1 to 1024", r.Window)
	case r.Transfers < 5 || r.Transfers > 1<<20:
		return fmt.Errorf("%d transfers: 5 to %d", r.Transfers, 1<<20)
	case r.Batch < 1 || r.Batch > 4096:
		return fmt.Errorf("%d requests a doorbell: 1 to 4096", r.Batch)
	case r.Pattern == Weights && r.Nodes%2 != 0:
		return fmt.Errorf("%d nodes: weights go from one half to the other", r.Nodes)
	}
	return nil
}

// writers is how many nodes write.
func (r *Run) writers() int {
	switch r.Pattern {
	case All:
		return r.Nodes
	case Weights:
		return r.Nodes / 2
	}
	return 1
}

// Check tells what of a run makes no sense.
func (r Run) Check() error { return r.defaults() }

// Simulate runs it and gives the figures.
func Simulate(ctx context.Context, r Run) (f *Figure, err error) {
	if err := r.defaults(); err != nil {
		return nil, err
	}
	w, err := New(r.Shape, r.Nodes, r.Model, Options{Seed: r.Seed, Engine: engine.Options{Batch: r.Batch, Queue: 1 << 14}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.stop = func() bool { return ctx.Err() != nil }
	t := newTraffic(&r, w)
	if err := w.JoinAll(t.pairs); err != nil && ctx.Err() == nil {
		return nil, err
	}
	switch r.Pattern {
	case Scatter:
		t.scatter()
	default:
		t.stream()
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case t.err != nil:
		return nil, t.err
	}
	return t.figure(), nil
}

// Figure is what a run gave. Everything in it is simulated.
type Figure struct {
	Run       Run           `json:"run"`
	Limit     Limit         `json:"limit"`
	Transfers int           `json:"measured_transfers"`          // that were measured
	Elapsed   time.Duration `json:"elapsed_ns"`                  // while they were
	Gbits     float64       `json:"gbit_per_s"`                  // of a node that writes, Gbit/s
	OfLine    float64       `json:"of_line"`                     // of what its NICs carry
	OfLimit   float64       `json:"of_limit"`                    // of what the model allows
	Latency   Spread        `json:"latency"`                     // of a transfer, from the call to its end at the writer
	Posting   Spread        `json:"first_to_last_post,omitzero"` // Scatter: from the first to the last request posted
	Called    Spread        `json:"call_to_last_post,omitzero"`  // Scatter: from the call to the last request posted
	Requests  float64       `json:"requests_per_s"`              // a second, of a node that writes
	PerCore   float64       `json:"requests_per_s_of_work"`      // a second that a worker works
	Busy      float64       `json:"busy"`                        // share of the time that workers worked
}

// Spread is a distribution: 50, 99 and 99.9 of a hundred are no longer.
type Spread struct {
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
}

// spread sorts the times.
func spread(times []Time) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[min(int(share*float64(len(times))), len(times)-1)].Duration()
	}
	return Spread{at(0.5), at(0.99), at(0.999)}
}

// Tail is how many times the limit of the latency the slowest of a thousand took.
func (f *Figure) Tail() float64 { return float64(f.Latency.P999) / float64(f.Limit.Latency) }
