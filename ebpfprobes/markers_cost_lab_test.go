//go:build lab

package ebpfprobes_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/bench"
	"github.com/peerdirect/peerdirect/internal/perf"
)

// unmarkedFile in the environment names these tests built with the tags lab and nomarks.
const unmarkedFile = "PEERDIRECT_UNMARKED"

// BenchmarkMarkedPerf tells what marks take of the rate of a run of perf, both sides of
// which are one process: with marks and no tracer, and traced, each against a program
// without marks if there is one, in turn; medians. It is for a clock that counts
// instructions (lab run --accel icount --cpus 1), where runs hardly differ:
//
//	go test -c -tags lab -o build/lab.test ./ebpfprobes
//	go test -c -tags lab,nomarks -o build/unmarked.test ./ebpfprobes
//	peerdirect lab run --kernel 7.3 --link rxe --accel icount --cpus 1 -- sh -c 'cd /peerdirect/src/ebpfprobes &&
//	    PEERDIRECT_UNMARKED=../build/unmarked.test ../build/lab.test -test.run - -test.bench MarkedPerf -test.benchtime 7x'
//
// Each is run once before it counts, and then N times.
func BenchmarkMarkedPerf(b *testing.B) {
	rxeDevice(b)
	for _, what := range []string{
		"perf write bw 65536 300", "perf write bw 8 5000", "perf read lat 8 500",
		"perf write bw 65536 300 1", "perf write bw 8 5000 1", // each asks for a completion
	} {
		b.Run(strings.ReplaceAll(strings.TrimPrefix(what, "perf "), " ", "-"), func(b *testing.B) {
			programs := []*markedProcess{startMarked(b, os.Args[0], what)}
			if unmarked := os.Getenv(unmarkedFile); unmarked != "" {
				programs = append(programs, startMarked(b, unmarked, what))
			}
			run := func(p *markedProcess) (said perf.Result) {
				if err := json.Unmarshal([]byte(p.ask(b, "run")), &said); err != nil {
					b.Fatal(err)
				}
				return said
			}
			for _, p := range programs {
				run(p)
			}
			var idle, traced, without, marked, count, own []float64
			for range b.N {
				for i, p := range programs {
					if seconds := run(p).Seconds; i == 0 {
						idle = append(idle, seconds)
					} else {
						without = append(without, seconds)
					}
				}
				s := followMarks(b, programs[0].cmd.Process.Pid)
				said := run(programs[0])
				traced = append(traced, said.Seconds)
				rows, err := s.Rows()
				if err != nil {
					b.Fatal(err)
				}
				var times ebpfprobes.Histogram
				for _, r := range rows {
					if r.Wait == ebpfprobes.Marked {
						times.Add(&r.Times)
					}
				}
				if err := s.Close(); err != nil {
					b.Error(err)
				}
				if times.Count == 0 {
					b.Fatal("no operation was marked")
				}
				count = append(count, float64(times.Count))
				if said.Latency != nil {
					marked = append(marked, float64(times.Quantile(.5))/1e3)
					own = append(own, said.Latency.Typical)
				}
			}
			b.ReportMetric(0, "ns/op") // a run is many messages: this says nothing
			b.ReportMetric(bench.Median(count), "marks/run")
			b.ReportMetric(bench.Median(idle)*1e3, "idle-ms")
			b.ReportMetric(bench.Median(traced)*1e3, "traced-ms")
			b.ReportMetric(bench.Median(traced)/bench.Median(idle), "traced/idle")
			if without != nil {
				b.ReportMetric(bench.Median(idle)/bench.Median(without), "idle/without")
				b.ReportMetric(bench.Median(traced)/bench.Median(without), "traced/without")
				b.Logf("without %.6f", without)
			}
			b.Logf("idle %.6f", idle)
			b.Logf("traced %.6f", traced)
			if marked == nil {
				return
			}
			// The same operations, by the tracer and by perf, whose clock is read before.
			tells, says := bench.Median(marked), bench.Median(own)
			b.ReportMetric(tells, "marked-median-us")
			b.ReportMetric(says, "perf-median-us")
			if math.Abs(tells-says) > says/20 {
				b.Errorf("the median of marks is %v us, by perf %v", tells, says)
			}
		})
	}
}
