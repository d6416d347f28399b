package tracereport

import (
	"strconv"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// Metric is a metric with its samples, before they are bounded and encoded.
type Metric struct {
	Name, Help string
	Type       MetricType
	Labels     []string // names; each sample has their values in this order
	Samples    []Sample
}

// MetricType is how values behave.
type MetricType uint8

const (
	Gauge MetricType = iota
	Counter
	Durations // a histogram, in seconds
)

// Sample is one value of a metric, or one histogram.
type Sample struct {
	Labels    []string
	Value     float64
	Histogram *ebpfprobes.Histogram // of Durations
}

// Metrics gives what was counted and how the tracing stands. Process identifiers are no
// labels: processes of one name are summed.
func (r *Registrations) Metrics() []Metric {
	by := []string{"process", "device", "operation", "kind", "size"}
	duration := Metric{Name: "peerdirect_registration_duration_seconds", Type: Durations, Labels: by,
		Help: "Whole calls that register or deregister memory regions. size: lengths from this to below its double, in bytes."}
	phases := Metric{Name: "peerdirect_registration_phase_seconds_total", Type: Counter, Labels: []string{"device", "operation", "kind", "phase"},
		Help: "Time of these calls by phase."}
	bytes := Metric{Name: "peerdirect_registration_bytes_total", Type: Counter, Labels: []string{"process", "device", "operation", "kind"},
		Help: "Lengths of the regions of these calls."}
	failed := Metric{Name: "peerdirect_registration_failures_total", Type: Counter,
		Labels: []string{"process", "device", "operation", "kind", "errno", "cause", "phase"},
		Help:   "Calls that failed: what they returned, what failed first (cause), and in which phase."}
	for i := range r.Rows {
		row := &r.Rows[i]
		process, device, operation, kind := label(row.Command), label(row.Device), row.Operation.String(), row.Kind.String()
		size := "unknown"
		if row.Size > 0 {
			size = strconv.FormatUint(row.Size, 10)
		}
		duration.Samples = append(duration.Samples, Sample{Labels: []string{process, device, operation, kind, size}, Histogram: &row.Whole})
		bytes.Samples = append(bytes.Samples, Sample{Labels: []string{process, device, operation, kind}, Value: float64(row.Bytes)})
		for p := range ebpfprobes.Phases {
			if h := &row.Phases[p]; h.Count > 0 {
				phases.Samples = append(phases.Samples, Sample{Labels: []string{device, operation, kind, p.String()}, Value: h.Sum.Seconds()})
			}
		}
	}
	for _, f := range r.Failures {
		cause := f.Cause
		if cause == 0 {
			cause = f.Err
		}
		failed.Samples = append(failed.Samples, Sample{Value: float64(f.Count), Labels: []string{label(f.Command), label(f.Device),
			f.Operation.String(), f.Kind.String(), errname.Of(f.Err), errname.Of(cause), f.CausePhase.String()}})
	}
	return append([]Metric{duration, phases, bytes, failed}, r.Tracing.metrics()...)
}

// label is a name as a label's value; Prometheus takes an empty one for none.
func label(name string) string {
	if name == "" {
		return "unknown"
	}
	return Name(name)
}

// metrics tells how the tracing stands.
func (t *Tracing) metrics() []Metric {
	lost := Metric{Name: "peerdirect_trace_lost_total", Type: Counter, Labels: []string{"what"},
		Help: "What was not seen or kept; all 0, with no untold probes, is the proof that the counts are exact."}
	for _, l := range losses(t.Losses) {
		lost.Samples = append(lost.Samples, Sample{Labels: []string{l.name}, Value: float64(l.count)})
	}
	probes := Metric{Name: "peerdirect_trace_probes", Type: Gauge, Labels: []string{"role"},
		Help: "Attached probes, by what they are for; 0 where a role is played by none."}
	for _, p := range t.Probes {
		one := 0.0
		if t.Attached && p.Usable == ebpfprobes.Yes {
			one = 1
		}
		probes.Samples = append(probes.Samples, Sample{Labels: []string{p.Role}, Value: one})
	}
	attached := Metric{Name: "peerdirect_trace_attached", Type: Gauge, Help: "1 while something is traced, 0 after SIGUSR1.", Samples: []Sample{{}}}
	if t.Attached {
		attached.Samples[0].Value = 1
	}
	untold := Metric{Name: "peerdirect_trace_untold_probes", Type: Gauge, Samples: []Sample{{Value: float64(t.Losses.Untold)}},
		Help: "Attached return probes of which the kernel does not tell what they missed (kprobes, before Linux 6.7)."}
	all := []Metric{lost, untold, probes, attached}
	if t.Overhead != nil {
		all = append(all, Metric{Name: "peerdirect_trace_overhead_ratio", Type: Gauge,
			Help:    "Part of the time of all CPUs that the probes took, in the last measurement.",
			Samples: []Sample{{Value: t.LastShare}}})
	}
	if t.Budget > 0 {
		all = append(all, Metric{Name: "peerdirect_trace_overhead_budget_ratio", Type: Gauge,
			Help: "Above this part of the time of all CPUs probes are detached.", Samples: []Sample{{Value: t.Budget}}})
	}
	return all
}
