//go:build lab

package ebpfprobes_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// BenchmarkAddedCost tells what a session adds to each call of a program that registers
// and deregisters memory, by that program's own stopwatch: with and without in turn,
// medians of the rounds' medians.
func BenchmarkAddedCost(b *testing.B) {
	program := build(b)
	for _, length := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(strconv.Itoa(length>>10)+"K", func(b *testing.B) {
			const rounds, count = 5, 400
			var times [2][]medians // without, with
			for range b.N {
				for range rounds {
					times[0] = append(times[0], registrar(b, program, "host", length, count, nil))
					times[1] = append(times[1], registrar(b, program, "host", length, count, func(pid int) func() {
						s, err := ebpfprobes.Registrations(ebpfprobes.Filter{PID: pid})
						if err != nil {
							b.Fatal(err)
						}
						return func() {
							if err := s.Close(); err != nil {
								b.Error(err)
							}
						}
					}))
				}
			}
			without, with := middle(times[0]), middle(times[1])
			b.ReportMetric(0, "ns/op") // a run is many calls: this says nothing
			b.ReportMetric(with.register/without.register, "register-ratio")
			b.ReportMetric(with.register-without.register, "register-added-ns")
			b.ReportMetric(with.deregister/without.deregister, "deregister-ratio")
			b.ReportMetric(with.deregister-without.deregister, "deregister-added-ns")
			b.ReportMetric(without.register, "register-ns")
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

func (m medians) String() string {
	return fmt.Sprintf("register %v deregister %v ns", m.register, m.deregister)
}
