package tracereport

import (
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// Panels sums rows for a heat map, by wait and opcode.
func (r *Completions) Panels() []Panel {
	var panels []Panel
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Times.Count == 0 {
			continue
		}
		name := row.Wait.String()
		if row.Wait.FromPosting() {
			name += ", " + row.Opcode.String()
		}
		at := slices.IndexFunc(panels, func(p Panel) bool { return p.Name == name })
		if at < 0 {
			at, panels = len(panels), append(panels, Panel{Name: name})
		}
		panels[at].Add(&row.Times)
	}
	slices.SortFunc(panels, func(a, b Panel) int { return strings.Compare(a.Name, b.Name) })
	return panels
}

// Metrics gives what was counted and how the tracing stands. Queues are no labels: those
// of one process and device are summed.
func (r *Completions) Metrics() []Metric {
	waits := Metric{Name: "peerdirect_completion_wait_seconds", Type: Durations, Labels: []string{"process", "device", "wait", "opcode", "size"},
		Help: "How long completions waited: from the interrupt to the program (woken, collected), or from posting to it (polled, in windows only; marked, a sample of this project's own)."}
	labels := []string{"process", "device", "opcode"}
	bytes := Metric{Name: "peerdirect_completion_bytes_total", Type: Counter, Labels: labels, Help: "Lengths of polled completions, as far as they are told, in windows only."}
	untimed := Metric{Name: "peerdirect_completions_untimed_total", Type: Counter, Labels: labels, Help: "Polled completions in windows whose posting was not seen, or of which it cannot be told."}
	repeated := Metric{Name: "peerdirect_completions_repeated_total", Type: Counter, Labels: labels, Help: "Work requests in windows whose id another in flight had: neither is timed."}
	for i := range r.Rows {
		row := &r.Rows[i]
		process, device, opcode, size := label(row.Command), label(row.Device), "none", "none"
		if row.Wait.FromPosting() {
			opcode, size = row.Opcode.String(), "unknown"
			if row.Size > 0 {
				size = strconv.FormatUint(row.Size, 10)
			}
		}
		if row.Wait == ebpfprobes.Polled {
			for to, n := range map[*Metric]uint64{&bytes: row.Bytes, &untimed: row.Untimed, &repeated: row.Repeated} {
				to.Samples = append(to.Samples, Sample{Labels: []string{process, device, opcode}, Value: float64(n)})
			}
		}
		if row.Times.Count > 0 {
			waits.Samples = append(waits.Samples, Sample{Labels: []string{process, device, row.Wait.String(), opcode, size}, Histogram: &row.Times})
		}
	}
	failed := Metric{Name: "peerdirect_completion_failures_total", Type: Counter, Labels: []string{"process", "device", "opcode", "status"},
		Help: "Completions in error: polled, in windows only, or marked, a sample."}
	for _, f := range r.Failures {
		failed.Samples = append(failed.Samples, Sample{Labels: []string{label(f.Command), label(f.Device), f.Opcode.String(), f.Status.String()}, Value: float64(f.Count)})
	}
	all := []Metric{waits, bytes, untimed, repeated, failed}
	if s := r.Sampling; s != nil {
		one := func(name, help string, v float64) Metric {
			return Metric{Name: name, Type: Counter, Help: help, Samples: []Sample{{Value: v}}}
		}
		all = append(all,
			one("peerdirect_polled_windows_total", "Windows in which polled queues were followed.", float64(s.Windows)),
			one("peerdirect_polled_window_seconds_total", "All windows together.", s.Followed.Seconds()),
			one("peerdirect_polled_window_opening_seconds_total", "Attaching for all windows; the program is slower then, too.", s.Opening.Seconds()),
			one("peerdirect_polled_window_closing_seconds_total", "Detaching after all windows; the program is slower then, too.", s.Closing.Seconds()),
			one("peerdirect_polled_posts_total", "Work requests posted in windows.", float64(s.Posts)),
			one("peerdirect_polled_silent_posts_total", "Of these, those that complete without telling.", float64(s.Unsignaled)))
	}
	return append(all, r.Tracing.metrics()...)
}
