package tracereport

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What Prometheus scrapes is written here, without its client library: importing that
// one makes every command start later, whether it serves metrics or not.

// arrange sorts labels by name, samples by their labels' values, and metrics by name,
// so that two scrapes of the same counts are the same.
func arrange(metrics []Metric) {
	for i := range metrics {
		m := &metrics[i]
		order := make([]int, len(m.Labels))
		for at := range order {
			order[at] = at
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(m.Labels[a], m.Labels[b]) })
		sorted := func(labels []string) []string {
			to := make([]string, len(order))
			for at, from := range order {
				to[at] = labels[from]
			}
			return to
		}
		for s := range m.Samples {
			m.Samples[s].Labels = sorted(m.Samples[s].Labels)
		}
		m.Labels = sorted(m.Labels)
		slices.SortFunc(m.Samples, func(a, b Sample) int { return slices.Compare(a.Labels, b.Labels) })
	}
	slices.SortFunc(metrics, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
}

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// appendText writes a metric in the text format, version 0.0.4, with classic buckets
// (Prometheus' documentation, "Exposition formats").
func appendText(to []byte, m *Metric) []byte {
	kind := [...]string{Gauge: "gauge", Counter: "counter", Durations: "histogram"}[m.Type]
	to = append(to, "# HELP "+m.Name+" "+helpEscaper.Replace(m.Help)+"\n# TYPE "+m.Name+" "+kind+"\n"...)
	for i := range m.Samples {
		s := &m.Samples[i]
		h := s.Histogram
		if m.Type != Durations {
			to = appendLine(to, m, s, "", "", s.Value)
			continue
		}
		for _, b := range classicBuckets(h) {
			to = appendLine(to, m, s, "_bucket", string(appendFloat(nil, b.bound)), float64(b.count))
		}
		to = appendLine(to, m, s, "_bucket", "+Inf", float64(h.Count))
		to = appendLine(to, m, s, "_sum", "", h.Sum.Seconds())
		to = appendLine(to, m, s, "_count", "", float64(h.Count))
	}
	return to
}

// appendLine writes a value; bound is of a bucket.
func appendLine(to []byte, m *Metric, s *Sample, suffix, bound string, v float64) []byte {
	to = append(to, m.Name+suffix...)
	before := byte('{')
	label := func(name, value string) {
		to = append(to, before)
		to = append(to, name+`="`+labelEscaper.Replace(value)+`"`...)
		before = ','
	}
	for i, name := range m.Labels {
		label(name, s.Labels[i])
	}
	if bound != "" {
		label("le", bound)
	}
	if before == ',' {
		to = append(to, '}')
	}
	return append(appendFloat(append(to, ' '), v), '\n')
}

// appendFloat writes a number as the format has it.
func appendFloat(to []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(to, "+Inf"...)
	case math.IsInf(v, -1):
		return append(to, "-Inf"...)
	}
	return strconv.AppendFloat(to, v, 'g', -1, 64)
}
