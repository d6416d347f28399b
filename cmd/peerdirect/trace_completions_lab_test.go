//go:build lab

package main

import (
	"strconv"
	"testing"
)

// TestTraceCompletions holds the records to a program that counts what it moves.
func TestTraceCompletions(t *testing.T) {
	const count = 200
	t.Run("events", func(t *testing.T) {
		var events uint64
		for _, r := range completions(t, "events", count, "--duration", "8s") {
			if r.Wait != "woken" && r.Wait != "collected" || r.Number == nil || r.Opcode != nil || r.Times == nil {
				t.Errorf("row %+v", r)
				continue
			}
			events += r.Times.Count
		}
		if events != count {
			t.Errorf("%d events were counted, of %d", events, count)
		}
	})
	// One window over the whole run, so that the counts have to be the same.
	for _, how := range []string{"poll", "extended"} {
		t.Run(how, func(t *testing.T) {
			var timed uint64
			for _, r := range completions(t, how, count, "--polled", "--window", "12s", "--every", "1h", "--duration", "20s") {
				if r.Record == "sampling" {
					if r.Posts != count || r.Windows != 1 || len(r.NotFollowed) != 0 {
						t.Errorf("%+v; the program posted %d", r, count)
					}
					continue
				}
				if r.Wait != "polled" || r.Number != nil || r.Opcode == nil || *r.Opcode != "write" || r.Size == nil || *r.Size != 4096 || r.Times == nil {
					t.Errorf("row %+v", r)
					continue
				}
				timed += r.Times.Count
			}
			if timed != count {
				t.Errorf("%d completions were timed, of %d", timed, count)
			}
		})
	}
	t.Run("flush", func(t *testing.T) {
		var failed uint64
		for _, r := range completions(t, "flush", count, "--polled", "--window", "12s", "--every", "1h", "--duration", "20s") {
			if r.Record == "failure" && r.Status == "flushed" && r.QP != nil {
				failed += r.Count
			}
		}
		if failed != count {
			t.Errorf("%d completions failed, of %d", failed, count)
		}
	})
}

// completions runs the program that polls or sleeps, and gives the records of what was
// counted of it.
func completions(t *testing.T, how string, count int, trace ...string) (all []objectRecord) {
	t.Helper()
	for _, r := range traced(t, "poller", []string{"rc", how, "4096", strconv.Itoa(count)}, append([]string{"completions"}, trace...)...) {
		switch r.Record {
		case "row", "failure", "sampling":
			all = append(all, r)
		case "tracing":
			for what, n := range r.Lost {
				if n != 0 {
					t.Errorf("%d %s were lost", n, what)
				}
			}
		}
	}
	return all
}
