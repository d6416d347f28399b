package perf

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Schema names the form of a Report in JSON; it changes when a field does.
const Schema = "peerdirect.perf/1"

// Report is the outcome of a run, the same on both sides.
type Report struct {
	Schema     string     `json:"schema"`
	Conditions Conditions `json:"conditions"`
	Results    []Result   `json:"results"`
}

// Conditions are what a result holds under.
type Conditions struct {
	Workload
	Client *Side `json:"client"`
	Server *Side `json:"server,omitempty"` // not for memcpy, which has one side
}

// Side is one machine and its device.
type Side struct {
	Host      string `json:"host"`
	Kernel    string `json:"kernel"`
	Arch      string `json:"arch"`
	Version   string `json:"version"` // of the program
	Device    string `json:"device,omitempty"`
	Port      int    `json:"port,omitempty"`
	Protocol  string `json:"protocol,omitempty"` // as "InfiniBand", "iWARP"
	LinkLayer string `json:"link_layer,omitempty"`
	GIDIndex  int    `json:"gid_index"` // -1 without
	GIDType   string `json:"gid_type,omitempty"`
	MTU       int    `json:"mtu_bytes,omitempty"` // path MTU
	Inline    int    `json:"inline_bytes"`
	Events    bool   `json:"events"`
}

// plain makes what a peer says of itself harmless on a terminal.
func (s *Side) plain() {
	const most = 64
	for _, text := range []*string{&s.Host, &s.Kernel, &s.Arch, &s.Version, &s.Device, &s.Protocol, &s.LinkLayer, &s.GIDType} {
		*text = strings.Map(func(r rune) rune {
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, *text)
		if len(*text) > most {
			*text = strings.ToValidUTF8((*text)[:most], "")
		}
	}
}

// Result is one size's.
type Result struct {
	Bytes      int           `json:"message_bytes"`
	Iterations uint64        `json:"iterations"` // messages, over all queue pairs and both directions
	TotalBytes uint64        `json:"total_bytes"`
	Seconds    float64       `json:"seconds"`
	Peak       *float64      `json:"peak_bytes_per_second,omitempty"`
	Average    *float64      `json:"average_bytes_per_second,omitempty"`
	Rate       *float64      `json:"messages_per_second,omitempty"`
	Latency    *LatencyStats `json:"latency,omitempty"`
	// Completion is the time from posting a request to its completion, with
	// the send queue full as it is in a bandwidth test.
	Completion *LatencyStats `json:"completion,omitempty"`
	Verified   *bool         `json:"verified,omitempty"` // absent: not asked for
}

// LatencyStats are times in microseconds.
type LatencyStats struct {
	Min     float64 `json:"min_usec"`
	Max     float64 `json:"max_usec"`
	Typical float64 `json:"typical_usec"` // median
	Avg     float64 `json:"avg_usec"`
	Stdev   float64 `json:"stdev_usec"`
	P99     float64 `json:"p99_usec"`
	P999    float64 `json:"p99_9_usec"`
}

// sideResult is what one side measured of one size.
type sideResult struct {
	Sent       uint64        `json:"sent"`    // messages that this side initiated
	Seconds    float64       `json:"seconds"` // of its sending
	Peak       float64       `json:"peak"`    // bytes per second, 0: not looked for
	Latency    *LatencyStats `json:"latency,omitempty"`
	Completion *LatencyStats `json:"completion,omitempty"`
	Verified   bool          `json:"verified"`
}

// combine makes the one result of what both sides measured. Directions add up.
func combine(w *Workload, size int, sides ...*sideResult) Result {
	r := Result{Bytes: size}
	var peak, average, rate float64
	peaks := true
	verified := w.Verify
	for _, s := range sides {
		verified = verified && s.Verified
		if s.Sent == 0 {
			continue
		}
		r.Iterations += s.Sent
		r.Seconds = max(r.Seconds, s.Seconds)
		if s.Seconds > 0 {
			average += float64(s.Sent) * float64(size) / s.Seconds
			rate += float64(s.Sent) / s.Seconds
		}
		peaks = peaks && s.Peak > 0
		peak += s.Peak
		if r.Latency == nil {
			r.Latency = s.Latency
		}
		if r.Completion == nil {
			r.Completion = s.Completion
		}
	}
	r.TotalBytes = r.Iterations * uint64(size)
	if w.Test == Bandwidth {
		r.Average, r.Rate = &average, &rate
		if peaks && peak > 0 {
			r.Peak = &peak
		}
	}
	if w.Verify {
		r.Verified = &verified
	}
	return r
}
