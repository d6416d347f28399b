package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

func TestTraceCompletionsUsage(t *testing.T) {
	for args, want := range map[string]string{
		"completions --polled":                                 "--polled needs --pid",
		"completions --window 1ms":                             "are for --polled",
		"completions --pid 1 --every 1m":                       "are for --polled",
		"completions --pid 1 --polled --window 0s":             "above 0",
		"completions --pid 1 --polled --window 1s":             "longer than --window",
		"completions --pid 1 --polled --window 2s --every 1s":  "longer than --window",
		"completions --pid 1 --polled --window 1ms --every 0s": "longer than --window",
		"completions --pid -1":                                 `"-1" is no process`,
		"completions --device=":                                "--device needs a name",
		"completions --json --log2":                            "--log2 is for the table",
		"completions --events":                                 "unknown flag",
		"completions extra":                                    "unknown command",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"trace"}, strings.Fields(args)...), nil, &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("trace %s: %d, %s", args, code, &stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"trace", "completions", "--polled", "--pid", "2147483647"}, nil, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "no such process") {
		t.Errorf("%d, %s", code, &stderr)
	}
}

// TestTraceCompletionsHelp: who asks for windows is told that their cost is not bounded.
func TestTraceCompletionsHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"trace", "completions", "--help"}, nil, &stdout, &stderr)
	help := strings.Join(strings.Fields(stdout.String()), " ")
	for _, want := range []string{"on hardware was not measured", "--max-overhead neither shows nor bounds it"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is not in: %s", want, help)
		}
	}
}

// TestTraceCompletionsProbes: probes --purpose completions lists what completions attaches.
func TestTraceCompletionsProbes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"trace", "probes", "--purpose", "completions", "--json"}, nil, &stdout, &stderr)
	var got struct {
		Probes []struct{ Purpose, Role, Function string }
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	want := ebpfprobes.CompletionProbes()
	if len(got.Probes) != len(want) || len(want) == 0 {
		t.Fatalf("%+v, want %+v", got.Probes, want)
	}
	for i, p := range got.Probes {
		if p.Purpose != "completions" || p.Role != want[i].Role || p.Function != want[i].Function {
			t.Errorf("%+v, want %+v", p, want[i])
		}
	}
}
