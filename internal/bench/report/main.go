// Command report reads the output of go test -bench on standard input, prints
// the medians, a line for each benchmark, and keeps them as DIR/NAME.json. A benchmark named
// X/peer is the peer of X/ours.
//
// Usage: go test -bench … | report DIR NAME
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/peerdirect/peerdirect/internal/bench"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go test -bench . | report DIR NAME")
		os.Exit(2)
	}
	results, err := read(os.Stdin)
	if err == nil {
		err = printLines(os.Stdout, results)
	}
	if err == nil {
		err = bench.Write(os.Args[1], os.Args[2], results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

type series struct{ name, unit string }

// read collects the values of each benchmark and unit. Lines that are no
// benchmark's go to standard error, so that a failure is seen.
func read(r io.Reader) ([]bench.Result, error) {
	values := make(map[series][]float64)
	var order []series
	in := benchfmt.NewReader(r, "go test")
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.Result:
			for _, v := range rec.Values {
				unit, value := v.Unit, v.Value
				if v.OrigUnit != "" {
					unit, value = v.OrigUnit, v.OrigValue
				}
				name, _ := rec.Name.Parts()
				base, parts := rec.Name.Parts()
				for _, p := range parts {
					if strings.HasPrefix(string(p), "-") {
						continue // GOMAXPROCS
					}
					base = append(base, p...)
				}
				if len(base) > 0 {
					name = base
				}
				s := series{string(name), unit}
				if _, ok := values[s]; !ok {
					order = append(order, s)
				}
				values[s] = append(values[s], value)
			}
		case *benchfmt.SyntaxError:
			fmt.Fprintln(os.Stderr, "report:", rec)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("no benchmark in the input")
	}
	var out []bench.Result
	for _, s := range order {
		if strings.HasSuffix(s.name, "/peer") {
			continue
		}
		name, ours := strings.CutSuffix(s.name, "/ours")
		var peer []float64
		if ours {
			peer = values[series{name + "/peer", s.unit}]
		}
		out = append(out, bench.Compare(name, s.unit, values[s], peer))
	}
	return out, nil
}
