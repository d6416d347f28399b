package regbench

import (
	"math"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// Schema names the form of a Report in JSON; it changes when a field does.
const Schema = "peerdirect.bench.registration/1"

// Report is what was measured.
type Report struct {
	Schema     string     `json:"schema"`
	Conditions Conditions `json:"conditions"`
	Rows       []Row      `json:"rows"`
	Growth     Growth     `json:"growth"`
}

// Conditions are what the values depend on.
type Conditions struct {
	Device    string  `json:"device"`
	NICs      int     `json:"nics"` // each piece is registered with all, one after the other
	Embedded  bool    `json:"embedded"`
	Transport string  `json:"transport"`
	MaxRegion uint64  `json:"max_mr_size_bytes"`
	Memory    string  `json:"memory"`
	Pool      uint64  `json:"pool_bytes"` // also the largest size
	PoolBy    string  `json:"pool_limited_by"`
	Runs      int     `json:"runs"`
	EachMilli float64 `json:"each_value_ms"` // in each run
	Kernel    string  `json:"kernel"`
	Arch      string  `json:"architecture"`
	CPUs      int     `json:"cpus"`
}

// Strategies of a Row.
const (
	StrategyEach   = "transfer" // registered and deregistered for each transfer
	StrategyCached = "cached"   // transfer/mrcache
	StrategyPool   = "pool"     // registered once
)

// Row is what the memory of one transfer costs by a strategy: time before and
// after the transfer, which itself is not in it.
type Row struct {
	Strategy string   `json:"strategy"`
	Size     uint64   `json:"size_bytes"`
	Hits     *int     `json:"hit_percent,omitempty"`          // cached
	Measured *float64 `json:"hit_percent_measured,omitempty"` // as the cache counted
	Uses     uint64   `json:"uses"`                           // in all runs
	Use      Spread   `json:"use"`

	// The two parts of a use, of the strategy transfer, and of the whole pool.
	Register   *Spread `json:"register,omitempty"`
	Deregister *Spread `json:"deregister,omitempty"`

	// PaysAfter is, of the pool, after how many transfers of this size its one
	// registration was cheaper than one for each.
	PaysAfter uint64 `json:"pays_after_transfers,omitempty"`
}

// Spread is a value over the runs, each of which is a mean. In microseconds.
type Spread struct {
	Median float64 `json:"median_us"`
	Min    float64 `json:"min_us"`
	Max    float64 `json:"max_us"`
}

// Growth is what another region costs when much is registered already.
type Growth struct {
	Piece      uint64      `json:"piece_bytes"`
	Pieces     int         `json:"pieces"`
	Rows       []GrowthRow `json:"rows"`
	Ascending  Spread      `json:"ascending_all"` // all pieces together
	Descending Spread      `json:"descending_all"`
}

// GrowthRow is of the pieces that were registered when at least so much was, and
// less than in the next row.
type GrowthRow struct {
	Registered uint64 `json:"registered_bytes"`
	Ascending  Spread `json:"ascending"` // the lowest addresses first
	Descending Spread `json:"descending"`
}

// key names a row.
type key struct {
	strategy string
	size     uint64
	hits     int
}

// samples are the values of the runs, in nanoseconds.
type samples struct {
	order []key
	of    map[key]*sample

	piece  uint64
	pieces int
	grow   [2][][]float64 // by order and bucket
	sums   [2][]float64
}

type sample struct {
	use, register, deregister []float64
	uses, hits, misses        uint64
}

func newSamples() *samples { return &samples{of: make(map[key]*sample)} }

func (m *samples) at(k key) *sample {
	s := m.of[k]
	if s == nil {
		s = new(sample)
		m.of[k], m.order = s, append(m.order, k)
	}
	return s
}

func (m *samples) add(k key, mean float64, times uint64) {
	s := m.at(k)
	s.use = append(s.use, mean)
	s.uses += times
}

func (m *samples) split(k key, register, deregister time.Duration, times uint64) {
	s := m.at(k)
	s.register = append(s.register, float64(register.Nanoseconds())/float64(times))
	s.deregister = append(s.deregister, float64(deregister.Nanoseconds())/float64(times))
}

func (m *samples) hit(k key, hits, misses uint64) {
	s := m.at(k)
	s.hits, s.misses = s.hits+hits, s.misses+misses
}

func misses(s mrcache.Stats) (n uint64) {
	for _, m := range s.Misses {
		n += m
	}
	return n
}

// bucket of a piece by how many were registered before it: 0, 1, 2 to 3, 4 to 7.
func bucket(before int) int {
	b := 0
	for ; before > 0; before /= 2 {
		b++
	}
	return b
}

// grown keeps what each piece took, in the order in which they were registered.
func (m *samples) grown(ascending bool, piece uint64, took []time.Duration) {
	m.piece, m.pieces = piece, len(took)
	which := 1
	if ascending {
		which = 0
	}
	var sum float64
	byBucket := make(map[int][]float64)
	for i, d := range took {
		ns := float64(d.Nanoseconds())
		sum += ns
		byBucket[bucket(i)] = append(byBucket[bucket(i)], ns)
	}
	m.sums[which] = append(m.sums[which], sum)
	for b := range bucket(len(took)-1) + 1 {
		for len(m.grow[which]) <= b {
			m.grow[which] = append(m.grow[which], nil)
		}
		m.grow[which][b] = append(m.grow[which][b], median(byBucket[b]))
	}
}

// enter puts everything into the report.
func (m *samples) enter(b *bench) {
	r := b.r
	rank := func(k key) int { return slices.Index([]string{StrategyEach, StrategyCached, StrategyPool}, k.strategy) }
	slices.SortStableFunc(m.order, func(a, b key) int {
		switch {
		case rank(a) != rank(b):
			return rank(a) - rank(b)
		case a.size != b.size:
			return int(math.Copysign(1, float64(a.size)-float64(b.size)))
		}
		return a.hits - b.hits
	})
	pool := m.of[key{strategy: StrategyPool, size: b.pool.size}]
	for _, k := range m.order {
		s := m.of[k]
		row := Row{Strategy: k.strategy, Size: k.size, Uses: s.uses, Use: spread(s.use)}
		if s.register != nil {
			reg, dereg := spread(s.register), spread(s.deregister)
			row.Register, row.Deregister = &reg, &dereg
		}
		switch k.strategy {
		case StrategyCached:
			hits, measured := k.hits, 100*float64(s.hits)/float64(s.hits+s.misses)
			row.Hits, row.Measured = &hits, &measured
		case StrategyPool:
			if each := m.of[key{strategy: StrategyEach, size: k.size}]; each != nil {
				row.PaysAfter = uint64(math.Ceil(median(pool.use) / median(each.use)))
			}
		}
		r.Rows = append(r.Rows, row)
	}
	g := &r.Growth
	g.Piece, g.Pieces = m.piece, m.pieces
	g.Ascending, g.Descending = spread(m.sums[0]), spread(m.sums[1])
	for i := range m.grow[0] {
		before := uint64(0)
		if i > 0 {
			before = 1 << (i - 1)
		}
		g.Rows = append(g.Rows, GrowthRow{Registered: before * m.piece, Ascending: spread(m.grow[0][i]), Descending: spread(m.grow[1][i])})
	}
}

// median of what may come in any order; 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// spread of nanoseconds, in microseconds.
func spread(ns []float64) Spread {
	if len(ns) == 0 {
		return Spread{}
	}
	return Spread{Median: median(ns) / 1e3, Min: slices.Min(ns) / 1e3, Max: slices.Max(ns) / 1e3}
}
