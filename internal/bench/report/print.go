package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/peerdirect/peerdirect/internal/bench"
)

// printLines writes a line for each benchmark: its values with their units, and
// those of its peer with the ratio of the two. What the benchmark reports itself
// comes before what go test does.
func printLines(w io.Writer, results []bench.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].Name == results[0].Name {
			n++
		}
		var own, others []string
		for _, r := range results[:n] {
			text := digits(r.Ours) + " " + r.Unit
			if r.Peer != 0 {
				text += fmt.Sprintf(" (peer %s, ratio %.3f)", digits(r.Peer), r.Ratio)
			}
			if standard[r.Unit] {
				others = append(others, text)
			} else {
				own = append(own, text)
			}
		}
		fmt.Fprintf(t, "%s\t%s\n", results[0].Name, strings.Join(append(own, others...), "   "))
		results = results[n:]
	}
	return t.Flush()
}

// standard are the units that go test reports of every benchmark.
var standard = map[string]bool{"ns/op": true, "B/op": true, "allocs/op": true}

// digits writes a value with its four first digits or more, and without an exponent
// where it is large.
func digits(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
