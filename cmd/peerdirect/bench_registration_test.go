package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/regbench"
)

func TestBenchRegistrationByCommand(t *testing.T) {
	const args = "bench registration --device embedded:nics=2 --max 64K --rounds 2 --duration 1ms --hits 0,100"
	stdout, stderr, code := execute(t.Context(), args)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "registration of host memory on efa_0..efa_1 (2 NICs") || !strings.Contains(stdout, "\n64 KiB ") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	stdout, stderr, code = execute(t.Context(), args+" --json")
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	var r regbench.Report
	if err := d.Decode(&r); err != nil || code != exitOK || stderr != "" || r.Schema != regbench.Schema || len(r.Rows) != 3*4 {
		t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
	}
}

func TestBenchRegistrationTracesTheCache(t *testing.T) {
	stdout, stderr, code := execute(t.Context(), "bench registration --device embedded --max 4K --rounds 1 --duration 1ms --hits 50 --trace")
	if code != exitOK || !strings.Contains(stdout, "\n4 KiB ") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	made, ended := 0, 0
	for line := range strings.Lines(stderr) {
		switch {
		case strings.HasPrefix(line, "register rail=efa_0 ") && strings.Contains(line, " took=") && strings.Contains(line, " reason="):
			made++
		case strings.HasPrefix(line, "deregister rail=efa_0 ") && strings.Contains(line, " took=") && strings.Contains(line, " cause="):
			ended++
		default:
			t.Fatalf("%q", line)
		}
	}
	if made == 0 || made != ended {
		t.Errorf("%d registrations, %d ends", made, ended)
	}
}

func TestBenchRegistrationThatIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	start := time.Now()
	stdout, stderr, code := execute(ctx, "bench registration --device embedded --max 16M --rounds 1000")
	if took := time.Since(start); code != exitFailed || stdout != "" || !strings.Contains(stderr, "interrupted") || took > time.Minute {
		t.Errorf("exit %d after %v\n%s\n%s", code, took, stdout, stderr)
	}
}

// TestMemoryThatIsNotHere: every command that takes memory says what is missing,
// and exits by its class.
func TestMemoryThatIsNotHere(t *testing.T) {
	missing := map[string]int{"nosuch": exitUsage, "nosuch:0": exitUsage, "udmabuf:1": exitUsage, "cuda:x": exitUsage}
	for _, e := range dmabuf.Exporters() {
		if err := e.Available(); err != nil {
			missing[e.Name()] = exitCode(err)
		}
	}
	for _, command := range []string{"transfer listen --listen 127.0.0.1:0 --device embedded", "transfer to --device embedded", "bench registration --device embedded"} {
		for name, want := range missing {
			stdout, stderr, code := execute(t.Context(), command+" --memory "+name)
			if code != want || want == exitFailed || stdout != "" || !strings.Contains(stderr, name) {
				t.Errorf("%s, %s: exit %d, want %d: %s", command, name, code, want, stderr)
			}
		}
	}
}
