package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/bench/collective"
)

func TestBenchCollectiveByCommand(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "curve.svg")
	const args = "bench collective -d embedded:nodes=2 --sizes 1K,64K --rounds 1 --duration 1ms"
	stdout, stderr, code := execute(t.Context(), args+" --svg "+picture)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "all-reduce among 2 nodes") || !strings.Contains(stdout, "\nVerdict\n") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	b, err := os.ReadFile(picture)
	if err != nil || xml.Unmarshal(b, new(struct{ XMLName xml.Name })) != nil {
		t.Errorf("%v: %s", err, b)
	}
	stdout, stderr, code = execute(t.Context(), args+" --json --operation all-gather")
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	var r collective.Report
	if err := d.Decode(&r); err != nil || code != exitOK || stderr != "" || r.Schema != collective.Schema || len(r.Measurements) != 2*4 || !r.Conditions.Verified {
		t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
	}
}

// TestBenchCollectiveIsPrintedThough the picture cannot be written: it took minutes.
func TestBenchCollectiveIsPrintedThough(t *testing.T) {
	stdout, stderr, code := execute(t.Context(), "bench collective -d embedded:nodes=2 --sizes 1K --rounds 1 --duration 1ms --operation all-gather --svg "+
		filepath.Join(t.TempDir(), "nowhere", "curve.svg"))
	if code != exitFailed || !strings.Contains(stderr, "curve.svg") || !strings.Contains(stdout, "\nVerdict\n") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestBenchCollectiveFlags(t *testing.T) {
	const peers = " --peers 127.0.0.1:0,127.0.0.1:2"
	const token = " --token 0123456789abcdef"
	for args, want := range map[string]string{
		"-d embedded:nodes=2 --nodes 3":            "--nodes 3",
		"-d embedded:nodes=1":                      "1 nodes",
		"-d embedded:nodes=0":                      "nodes",
		"-d rxe0":                                  "--peers",
		"-d embedded --sizes 5X":                   "--sizes",
		"-d embedded --sizes 6":                    "multiple of 4",
		"-d embedded --min 1M --max 1K":            "--min",
		"-d embedded --operation broadcast":        "broadcast",
		"-d embedded --rounds -1":                  "--rounds",
		"-d embedded --memory nothing":             "--memory nothing",
		"--rank 2" + peers + token:                 "--rank 2",
		"--peers a:1" + token:                      "1 nodes",
		"--peers a,b" + token:                      "--peers",
		peers:                                      "--token-file",
		peers + " --token short":                   "16",
		peers + " --cert a.pem":                    "--ca",
		peers + token + " --cert a --key b --ca c": "give one of them",
		peers + token + " --token-file f":          "give one of them",
		peers + token + " -d embedded:nodes=2":     "leave out --peers",
		"superfluous":                              "superfluous",
	} {
		if stdout, stderr, code := execute(t.Context(), "bench collective "+args); code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, want %q in\n%s", args, code, want, stderr)
		}
	}
	for args, want := range map[string]int{
		peers + " --token-file /nowhere/token -d rxe0": exitFailed,
		peers + token + " -d nosuch0 --wait 100ms":     exitNoDevice,
	} {
		if _, stderr, code := execute(t.Context(), "bench collective "+args); code != want {
			t.Errorf("%s: exit %d, want %d: %s", args, code, want, stderr)
		}
	}
}

func TestBenchCollectiveInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if stdout, stderr, code := execute(ctx, "bench collective -d embedded"); code != exitFailed || stdout != "" || stderr == "" {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}
