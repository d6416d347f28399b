package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/bench/path"
	"github.com/peerdirect/peerdirect/internal/cuda"
)

func TestBenchPathUsage(t *testing.T) {
	for args, text := range map[string]string{
		"cuda:0":                     "cuda:0 alone is no path",
		"cuda:1 cuda:1":              "a GPU and itself are no pair",
		"cuda:0 host":                `"host" is no GPU`,
		"cuda:0 cuda:-1":             `"cuda:-1" is no GPU`,
		"cuda:0 1":                   `"1" is no GPU`,
		"cuda:0 cuda:1 cuda:2":       "accepts at most 2 arg",
		"--min 8K --max 4K":          "--min 8 KiB",
		"--max 8G":                   "--max 8 GiB",
		"--max x":                    "no size",
		"--ways by-foot":             "pinned-piped",
		"--ways pageable,pageable":   "twice",
		"--rounds -1":                "--rounds -1",
		"--duration 2h":              "--duration 2h",
		"--buffers 65":               "--buffers 65",
		"--depth 5000":               "--depth 5000",
		"--chunk 1":                  "--chunk 1 B",
		"cuda:0 cuda:1 --no-such-it": "unknown flag",
	} {
		stdout, stderr, code := execute(t.Context(), "bench path "+args)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, text) {
			t.Errorf("%s: exit %d: %s", args, code, stderr)
		}
	}
}

// TestBenchPathByCommand: figures where there are two GPUs, elsewhere a line that
// names what is missing.
func TestBenchPathByCommand(t *testing.T) {
	n := 0
	if cuda.Start() == nil {
		n, _ = cuda.Devices()
	}
	stdout, stderr, code := execute(t.Context(), "bench path --max 64K --rounds 1 --duration 1ms --json")
	if n < 2 {
		if code != exitNoDevice || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "cuda") {
			t.Errorf("exit %d: %s%s", code, stdout, stderr)
		}
		return
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	var r path.Report
	if err := d.Decode(&r); err != nil || code != exitOK || stderr != "" || r.Schema != path.Schema || len(r.Rows) == 0 {
		t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
	}
}
