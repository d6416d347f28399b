package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/bench"
)

func TestReadPairsOursWithPeerByMedians(t *testing.T) {
	in := `goos: linux
BenchmarkPost/ours-2   	 100	 10 ns/op	 0 B/op	 0 allocs/op
BenchmarkPost/peer-2   	 100	 20 ns/op
BenchmarkPost/ours-2   	 100	 30 ns/op	 0 B/op	 0 allocs/op
BenchmarkPost/peer-2   	 100	 40 ns/op
BenchmarkPost/ours-2   	 100	 11 ns/op	 0 B/op	 0 allocs/op
BenchmarkPost/peer-2   	 100	 22 ns/op
BenchmarkAlone-2   	 100	 7 MB/s
PASS
`
	got, err := read(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	want := []bench.Result{
		{Name: "Post", Unit: "ns/op", Ours: 11, Peer: 22, Ratio: 0.5, Runs: 3},
		{Name: "Post", Unit: "B/op", Ours: 0, Runs: 3},
		{Name: "Post", Unit: "allocs/op", Ours: 0, Runs: 3},
		{Name: "Alone", Unit: "MB/s", Ours: 7, Runs: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestReadRefusesInputWithoutBenchmarks(t *testing.T) {
	if _, err := read(strings.NewReader("PASS\n")); err == nil {
		t.Error("no error")
	}
}

func TestPrintLines(t *testing.T) {
	var out strings.Builder
	err := printLines(&out, []bench.Result{
		{Name: "Post", Unit: "ns/op", Ours: 11, Peer: 22, Ratio: 0.5, Runs: 3},
		{Name: "Post", Unit: "allocs/op", Ours: 0, Runs: 3},
		{Name: "Scatter", Unit: "ns/op", Ours: 123456.7, Runs: 3},
		{Name: "Scatter", Unit: "p50-ns", Ours: 2374.25, Runs: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `Post      11 ns/op (peer 22, ratio 0.500)   0 allocs/op
Scatter   2374 p50-ns   123457 ns/op
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}
