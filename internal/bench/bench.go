// Package bench is the form in which the project keeps measurements: a table
// for the eye and a JSON list for the next comparison.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
)

// Result is one measurement beside its peer's, both medians of alternating
// runs. Without a peer, Peer and Ratio are left out.
type Result struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"` // of Ours and Peer, as "MiB/s" or "ns/op"
	Ours  float64 `json:"ours"`
	Peer  float64 `json:"peer,omitempty"`
	Ratio float64 `json:"ratio,omitempty"` // ours / peer
	Runs  int     `json:"runs"`            // of each side
}

// Compare makes a result of both sides' runs.
func Compare(name, unit string, ours, peer []float64) Result {
	r := Result{Name: name, Unit: unit, Ours: Median(ours), Peer: Median(peer), Runs: len(ours)}
	if r.Peer != 0 {
		r.Ratio = r.Ours / r.Peer
	}
	return r
}

// Median is the middle of the values, or the mean of the two in the middle; 0
// of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Interval is where Ours / Peer lies with a probability of 90 %, by resampling
// the runs (a percentile bootstrap of the ratio of medians): what a ratio is
// worth that comes of few or scattered runs. Equal runs give equal intervals.
func Interval(ours, peer []float64) [2]float64 {
	const resamples = 2000
	if len(ours) == 0 || len(peer) == 0 {
		return [2]float64{}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(from, into []float64) float64 {
		for i := range into {
			into[i] = from[rnd.IntN(len(from))]
		}
		return Median(into)
	}
	a, b := make([]float64, len(ours)), make([]float64, len(peer))
	ratios := make([]float64, resamples)
	for i := range ratios {
		ratios[i] = draw(ours, a) / draw(peer, b)
	}
	slices.Sort(ratios)
	return [2]float64{ratios[resamples/20], ratios[resamples-1-resamples/20]}
}

// Print writes the results as a table.
func Print(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "name\tunit\tours\tpeer\tratio\truns\t")
	for _, r := range results {
		peer, ratio := "-", "-"
		if r.Peer != 0 {
			peer, ratio = number(r.Peer), strconv.FormatFloat(r.Ratio, 'f', 3, 64)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t\n", r.Name, r.Unit, number(r.Ours), peer, ratio, r.Runs)
	}
	return t.Flush()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// Write keeps the results as DIR/NAME.json.
func Write(dir, name string, results []Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), append(b, '\n'), 0o644)
}
