//go:build lab

package ebpfprobes_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// The benchmarks are for a clock that counts instructions (lab run --accel icount --cpus
// 1): there medians hardly differ from run to run.
const costRounds, costCalls = 3, 200

var costLengths = []int{4 << 10, 64 << 10, 1 << 20}

// BenchmarkAddedCost tells what a session adds to each call of a program that registers
// and deregisters the same memory again and again, by that program's own stopwatch: with
// and without in turn, medians of the rounds' medians.
func BenchmarkAddedCost(b *testing.B) {
	path := build(b)
	for _, length := range costLengths {
		b.Run(strconv.Itoa(length>>10)+"K", func(b *testing.B) {
			r := startRegistrar(b, path, "host", length, costCalls, b.N*2*costRounds+1)
			defer r.end()
			var times [2][]medians // without, with
			for range b.N * costRounds {
				times[0] = append(times[0], r.round(b))
				s := follow(b, r)
				times[1] = append(times[1], r.round(b))
				closed(b, s)
			}
			without, with := middle(times[0]), middle(times[1])
			b.ReportMetric(0, "ns/op") // a run is many calls: this says nothing
			for _, m := range []struct {
				name          string
				without, with float64
			}{
				{"register", without.register, with.register},
				{"deregister", without.deregister, with.deregister},
				{"cycle", without.register + without.deregister, with.register + with.deregister},
			} {
				b.ReportMetric(m.with/m.without, m.name+"-ratio")
				b.ReportMetric(m.with-m.without, m.name+"-added-ns")
				b.ReportMetric(m.without, m.name+"-ns")
			}
			b.ReportMetric(float64(hits(b, r))/costCalls, "hits/cycle")
		})
	}
}

// follow begins a session of the registrar.
func follow(b *testing.B, r registering) *ebpfprobes.RegistrationSession {
	b.Helper()
	s, err := ebpfprobes.Registrations(ebpfprobes.Filter{PID: r.cmd.Process.Pid})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func closed(b *testing.B, s *ebpfprobes.RegistrationSession) {
	b.Helper()
	if lost, err := s.Losses(); err != nil || lost.Any() {
		b.Errorf("lost %+v, %v", lost, err)
	}
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

// hits is how often programs run in a round.
func hits(b *testing.B, r registering) (n uint64) {
	s := follow(b, r)
	defer closed(b, s)
	ctx, cancel := context.WithCancel(b.Context())
	measured := make(chan ebpfprobes.Overhead, 1)
	go func() {
		o, err := s.Measure(ctx, time.Hour)
		if err != nil {
			b.Error(err)
		}
		measured <- o
	}()
	time.Sleep(500 * time.Millisecond) // the measurement has begun
	r.round(b)
	cancel()
	for _, p := range (<-measured).Probes {
		n += p.Hits
	}
	return n
}

// BenchmarkAgainstStopwatch fails unless the median that a session tells is within 5 % or
// 2 us of what the program's own stopwatch says, which has the library and the way into
// the kernel in it too.
func BenchmarkAgainstStopwatch(b *testing.B) {
	path := build(b)
	for _, length := range costLengths {
		b.Run(strconv.Itoa(length>>10)+"K", func(b *testing.B) {
			r := startRegistrar(b, path, "host", length, costCalls, b.N)
			defer r.end()
			b.ReportMetric(0, "ns/op")
			for range b.N {
				s := follow(b, r)
				stopwatch := r.round(b)
				rows, err := s.Rows()
				if err != nil || len(rows) != 2 {
					b.Fatalf("%d rows, %v", len(rows), err)
				}
				closed(b, s)
				for i, says := range []float64{stopwatch.register, stopwatch.deregister} {
					tells := float64(rows[i].Whole.Quantile(.5))
					if off := math.Abs(says - tells); off > 2000 && off > says/20 {
						b.Errorf("%v: the median is %v ns, by the stopwatch %v", rows[i].Operation, tells, says)
					}
					b.ReportMetric(tells, rows[i].Operation.String()+"-ns")
					b.ReportMetric(says, rows[i].Operation.String()+"-stopwatch-ns")
				}
			}
		})
	}
}

func middle(all []medians) medians {
	by := func(f func(medians) float64) float64 {
		v := make([]float64, len(all))
		for i, m := range all {
			v[i] = f(m)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return medians{by(func(m medians) float64 { return m.register }), by(func(m medians) float64 { return m.deregister })}
}
