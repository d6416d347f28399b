package ladder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixedReport has figures that were made up.
func fixedReport() *Report {
	return &Report{Schema: Schema, Conditions: Conditions{
		NICs: 32, Gbps: 0.35, Machine: 28, PageSize: 64 << 10, Workers: 2, CPUs: 2, Rounds: 3, Seconds: 1, Arch: "amd64", Devices: "embedded",
	}, Rungs: []Rung{
		{Name: "one NIC, operation queue", NICs: 1, Workers: 1, Line: 0.35, Gbps: 0.34, OfLine: 97.1, Least: 0.33, Most: 0.35, Operations: 648.4, First: 812.5},
		{Name: "all NICs, one worker", NICs: 32, Workers: 1, Line: 11.2, Gbps: 1, OfLine: 8.93, Least: 0.9, Most: 1.1, Operations: 1907.3, First: 26_000},
		{Name: "credits from real queue depth", NICs: 32, Workers: 2, Line: 11.2, Gbps: 11.1, OfLine: 99.11, Least: 11, Most: 11.15, Operations: 21171.5, First: 1_340_000},
	}}
}

func TestFormats(t *testing.T) {
	var table, asJSON bytes.Buffer
	if err := Table(&table, fixedReport()); err != nil {
		t.Fatal(err)
	}
	e := json.NewEncoder(&asJSON)
	e.SetIndent("", "  ")
	if err := e.Encode(fixedReport()); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"testdata/ladder.txt": table.Bytes(), "testdata/ladder.json": asJSON.Bytes()} {
		if *update {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is now\n%s", name, got)
		}
	}
	for line := range strings.Lines(table.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %q", len(line)-1, line)
		}
	}
}

// TestRun climbs a small ladder: every rung moves all its pages.
func TestRun(t *testing.T) {
	var told []Progress
	r, err := Run(t.Context(), Options{NICs: 2, Gbps: 1, Workers: 2, PageSize: 4096, Rounds: 2, Duration: 5 * time.Millisecond,
		Tell: func(p Progress) { told = append(told, p) }})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range r.Rungs {
		names[g.Name] = true
		if !(g.Gbps > 0 && g.Least <= g.Gbps && g.Gbps <= g.Most) || g.First <= 0 || g.Operations <= 0 || g.Line != float64(g.NICs) {
			t.Errorf("%+v", g)
		}
	}
	if len(names) != len(r.Rungs) || len(r.Rungs) != 10 {
		t.Errorf("%d rungs, %d names", len(r.Rungs), len(names))
	}
	if last := told[len(told)-1]; len(told) != 20 || last.Total != 20 || last.Done != 19 {
		t.Errorf("told %d times, at last of %+v", len(told), last)
	}
}

// TestRateOfTheMachine: without a rate, the machine's own decides.
func TestRateOfTheMachine(t *testing.T) {
	r, err := Run(t.Context(), Options{NICs: 1, Rounds: 1, Duration: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Conditions; c.Machine <= 0 || c.Gbps <= 0 || c.Gbps > c.Machine*paced {
		t.Errorf("%+v", c)
	}
}

func TestWhatMakesNoSense(t *testing.T) {
	for _, o := range []Options{
		{NICs: -1}, {NICs: 65}, {Gbps: -1}, {PageSize: 100}, {NICs: 2, Workers: 3}, {Rounds: -1}, {Duration: time.Hour},
	} {
		if o.Check() == nil {
			t.Errorf("%+v makes sense", o)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{NICs: 1, Gbps: 1, Rounds: 1}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRound(t *testing.T) {
	for gbps, want := range map[float64]float64{0: 0.01, 0.0123: 0.012, 0.3499: 0.34, 1: 1, 13.7: 13, 256: 250} {
		if got := round(gbps); got < want*0.999 || got > want*1.001 {
			t.Errorf("%g became %g, want %g", gbps, got, want)
		}
	}
}
