package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTraceObjectsUsage(t *testing.T) {
	for args, want := range map[string]string{
		"leaks --window 1":               "2 at least",
		"leaks --pid -1":                 `"-1" is no process`,
		"leaks --device=":                "--device needs a name",
		"leaks --svg x":                  "unknown flag",
		"leaks extra":                    "unknown command",
		"connections --interval 1ms":     "at least 50ms",
		"connections --log2":             "unknown flag",
		"errors --max-series 3":          "--max-series is for --listen",
		"errors --events --max-overhead": "needs an argument",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"trace"}, strings.Fields(args)...), nil, &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("trace %s: %d, %s", args, code, &stderr)
		}
	}
	for _, what := range []string{"leaks", "connections", "errors"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"trace", what, "--pid", "2147483647"}, nil, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "no such process") {
			t.Errorf("trace %s: %d, %s", what, code, &stderr)
		}
	}
}
