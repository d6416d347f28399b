package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/bench/ladder"
)

func TestBenchLadderByCommand(t *testing.T) {
	const args = "bench ladder --nics 2 --gbps 1 --page-size 4K --rounds 1 --duration 2ms"
	stdout, stderr, code := execute(t.Context(), args)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "paced to 1 Gbit/s") || !strings.Contains(stdout, "\none NIC, operation queue ") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	stdout, stderr, code = execute(t.Context(), args+" --json")
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	var r ladder.Report
	if err := d.Decode(&r); err != nil || code != exitOK || stderr != "" || r.Schema != ladder.Schema || len(r.Rungs) < 8 {
		t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
	}
	if _, stderr, code := execute(t.Context(), "bench ladder --nics 100"); code != exitUsage || !strings.Contains(stderr, "--nics 100") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
