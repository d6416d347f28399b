// Package tracereport shows what ebpfprobes counted: tables, histograms, records of
// JSON, a heat map over time, and metrics for Prometheus.
//
// Names that other processes chose are printed with escapes, and none of them can add
// a line, a colour or markup to what is printed.
package tracereport

import (
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// Tracing tells how the tracing itself stands, whatever is traced.
type Tracing struct {
	At       time.Time
	Traced   time.Duration // how long programs were attached, all in all
	Attached bool
	Probes   []ebpfprobes.Probe
	Losses   ebpfprobes.Losses
	// Overhead is the sum of the measurements since probes were last attached or
	// detached; nil if there is none, and Unmeasured tells why. LastShare is the last one's.
	Overhead   *ebpfprobes.Overhead
	LastShare  float64
	Unmeasured string
	Budget     float64 // share of the machine's time; 0 is no bound
}

// Registrations is what a session counted until a moment.
type Registrations struct {
	Tracing
	Rows     []ebpfprobes.RegistrationRow
	Rates    []float64 // calls a second of each row; nil is the mean over Traced
	Failures []ebpfprobes.RegistrationFailure
}

// rate is calls a second of row i; nil is of processes that have ended: they make none.
func (r *Registrations) rate(i int) *float64 {
	rate := 0.0
	switch {
	case r.Rows[i].PID == 0:
		return nil
	case r.Rates != nil:
		rate = r.Rates[i]
	case r.Traced > 0:
		rate = float64(r.Rows[i].Whole.Count) / r.Traced.Seconds()
	}
	return &rate
}

func rateText(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return Rate(*rate)
}

// RatesSince gives each row's calls a second since an earlier moment.
func (r *Registrations) RatesSince(before *Registrations) []float64 {
	past := r.At.Sub(before.At).Seconds()
	// Processes that have ended are told apart by their name only.
	type key struct {
		ebpfprobes.RegistrationKey
		command string
	}
	counts := make(map[key]uint64, len(before.Rows))
	for i := range before.Rows {
		row := &before.Rows[i]
		counts[key{row.RegistrationKey, row.Command}] = row.Whole.Count
	}
	rates := make([]float64, len(r.Rows))
	for i := range r.Rows {
		now, was := r.Rows[i].Whole.Count, counts[key{r.Rows[i].RegistrationKey, r.Rows[i].Command}]
		if past > 0 && now > was {
			rates[i] = float64(now-was) / past
		}
	}
	return rates
}

// Only leaves what is on one device; a call that failed before its device was known
// goes too.
func (r *Registrations) Only(device string) {
	var rows []ebpfprobes.RegistrationRow
	for _, row := range r.Rows {
		if row.Device == device {
			rows = append(rows, row)
		}
	}
	var failures []ebpfprobes.RegistrationFailure
	for _, f := range r.Failures {
		if f.Device == device {
			failures = append(failures, f)
		}
	}
	r.Rows, r.Failures = rows, failures
}
