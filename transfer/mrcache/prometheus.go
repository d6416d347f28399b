package mrcache

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WritePrometheus writes the numbers of all rails in Prometheus' text format,
// version 0.0.4.
func (c *Cache) WritePrometheus(w io.Writer) error {
	var b bytes.Buffer
	all := c.Stats()
	family := func(name, kind, help string, each func(s *Stats, sample func(value any, labels ...string))) {
		name = "peerdirect_mrcache_" + name
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		for i := range all {
			each(&all[i], func(value any, labels ...string) {
				suffix := ""
				if len(labels)%2 == 1 {
					suffix, labels = labels[0], labels[1:]
				}
				fmt.Fprintf(&b, "%s%s{rail=%s", name, suffix, label(all[i].Rail))
				for k := 0; k < len(labels); k += 2 {
					fmt.Fprintf(&b, ",%s=%s", labels[k], label(labels[k+1]))
				}
				fmt.Fprintf(&b, "} %v\n", value)
			})
		}
	}
	one := func(name, kind, help string, value func(*Stats) any) {
		family(name, kind, help, func(s *Stats, sample func(any, ...string)) { sample(value(s)) })
	}
	by := func(name, help, key string, values func(*Stats) map[string]uint64) {
		family(name, "counter", help, func(s *Stats, sample func(any, ...string)) {
			v := values(s)
			for _, k := range slices.Sorted(maps.Keys(v)) {
				sample(v[k], key, k)
			}
		})
	}
	one("hits_total", "counter", "Requests that found a registration.", func(s *Stats) any { return s.Hits })
	by("misses_total", "Requests that had to register, by why.", "reason", func(s *Stats) map[string]uint64 { return s.Misses })
	one("joined_total", "counter", "Requests that waited for another's registration.", func(s *Stats) any { return s.Joined })
	one("failures_total", "counter", "Registrations that failed.", func(s *Stats) any { return s.Failures })
	one("evictions_total", "counter", "Idle registrations given back for room.", func(s *Stats) any { return s.Evictions })
	one("merged_total", "counter", "Registrations that a larger one replaced.", func(s *Stats) any { return s.Merged })
	by("invalidations_total", "Registrations whose memory went, by what told.", "cause", func(s *Stats) map[string]uint64 { return s.Invalidations })
	one("deregistration_failures_total", "counter", "Deregistrations that the device refused.", func(s *Stats) any { return s.Refused })
	one("entries", "gauge", "Registrations that requests can find.", func(s *Stats) any { return s.Entries })
	one("registered_regions", "gauge", "Registrations of the device, kept or not.", func(s *Stats) any { return s.Regions })
	one("registered_bytes", "gauge", "Bytes in them.", func(s *Stats) any { return s.Bytes })
	family("registration_seconds", "histogram", "What registrations cost.", func(s *Stats, sample func(any, ...string)) {
		var n uint64
		for i, limit := range buckets {
			n += s.under[i]
			sample(n, "_bucket", "le", strconv.FormatFloat(limit.Seconds(), 'g', -1, 64))
		}
		sample(n+s.under[len(buckets)], "_bucket", "le", "+Inf")
		sample(s.Seconds, "_sum")
		sample(s.Registrations, "_count")
	})
	_, err := b.WriteTo(w)
	return err
}

func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
