package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestLabUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"no command":             {"lab run", "arg"},
		"unknown kernel":         {"lab run --kernel 2.4 -- true", "choose one of 6.1, 6.12, 7.3"},
		"unknown to build":       {"lab build --kernel 2.4", "choose one of"},
		"unknown link":           {"lab run --link ib -- true", "rxe, siw or none"},
		"unknown layer":          {"lab run --with cake -- true", "choose one of acceptance"},
		"layer to build":         {"lab build --kernel 2.4 --with cake", "choose one of"},
		"too many EFA":           {"lab run --efa 33 -- true", "0 to 32"},
		"unknown API":            {"lab run --efa 1 --efa-api 1.0 -- true", "0.1, 0.2 or 0.3"},
		"three sub-CQs":          {"lab run --efa 1 --efa-sub-cqs 3 -- true", "1 or 2"},
		"too much loss":          {"lab run --efa 1 --efa-loss 1 -- true", "below 1"},
		"links down for no time": {"lab run --efa 1 --efa-flap -1s -- true", "above 0"},
		"negative EFA":           {"lab run --efa -1 -- true", "0 to 32"},
		"too many accelerators":  {"lab run --accelerator 17 -- true", "0 to 16"},
		"odd BAR":                {"lab run --accelerator 1 --accelerator-memory 48 -- true", "power of two"},
		"unknown accel":          {"lab run --accel hvf -- true", "tcg, kvm"},
		"too many nodes":         {"lab run --nodes 1000 -- true", "1 to 64"},
		"little memory":          {"lab run --memory 1 -- true", "256"},
		"no number":              {"lab run --nodes two -- true", "two"},
		"no duration":            {"lab run --timeout soon -- true", "soon"},
		"unknown flag":           {"lab run --no-such-flag -- true", "no-such-flag"},
		"unknown verb":           {"lab dance", "dance"},
		"no terminal":            {"lab shell", "no terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, &stdout, &stderr, exitUsage, c.want)
			}
		})
	}
}

// The flags of a command in the lab are its own.
func TestLabRunKeepsFlagsApart(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"lab", "run", "--kernel", "none", "ls", "--help"}, strings.NewReader(""), &stdout, &stderr)
	if code != exitUsage || stdout.Len() > 0 {
		t.Errorf("exit %d, stdout %q: --help was taken for ours", code, &stdout)
	}
}
