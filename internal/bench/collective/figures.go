package collective

import (
	"slices"

	"github.com/peerdirect/peerdirect/internal/bench"
)

// measurement makes figures of the rounds.
func measurement(op, path string, nodes int, size uint64, iterations int, rounds []took) Measurement {
	of := func(part func(took) float64) float64 {
		var all []float64
		for _, t := range rounds {
			all = append(all, part(t))
		}
		return bench.Median(all)
	}
	var total []float64
	for _, t := range rounds {
		total = append(total, t.Total)
	}
	m := Measurement{
		Operation: op, Path: path, Nodes: nodes, Bytes: size, Iterations: iterations,
		Seconds: bench.Median(total), Least: slices.Min(total), Most: slices.Max(total),
		Wait: of(func(t took) float64 { return t.Wait }), Copy: of(func(t took) float64 { return t.Copy }),
		Sum: of(func(t took) float64 { return t.Sum }), Register: of(func(t took) float64 { return t.Register }),
	}
	m.AlgGBs = algorithmBandwidth(size, m.Seconds)
	m.BusGBs = m.AlgGBs * busFactor(op, nodes)
	return m
}

// algorithmBandwidth is GB/s (10^9 bytes a second) of the vector.
func algorithmBandwidth(size uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(size) / 1e9 / seconds
}

// busFactor makes of it what each link of a ring carries, as nccl-tests define it.
func busFactor(op string, nodes int) float64 {
	n := float64(nodes)
	if op == AllReduce {
		return 2 * (n - 1) / n
	}
	return (n - 1) / n
}
