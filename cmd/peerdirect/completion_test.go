package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletionScripts: each shell that is here takes its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range completionShells {
		t.Run(shell, func(t *testing.T) {
			stdout, stderr, code := execute(t.Context(), "completion "+shell)
			if code != exitOK || stderr != "" || !strings.Contains(stdout, "peerdirect") {
				t.Fatalf("exit %d\n%s", code, stderr)
			}
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("needs %s ('scripts/deps test' installs it)", shell)
			}
			name := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(name, []byte(stdout), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), program, "-n", name).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestCompletionOffers asks as the scripts do.
func TestCompletionOffers(t *testing.T) {
	for args, want := range map[string]string{
		"transfer to --device ":         "embedded",
		"transfer to --rails ":          "near",
		"transfer listen --memory ":     "host",
		"bench simulate --shape ":       "p6-b300",
		"bench simulate --pattern ":     "scatter",
		"bench path --ways ":            "pinned-piped",
		"bench collective --operation ": "all-gather",
		"lab run --kernel ":             "6.12",
		"demo --link ":                  "siw",
		"perf write bw --transport ":    "memcpy",
		"trace probes --purpose ":       "leaks",
		"topo --scheme ":                "dark",
		"dmabuf check --access ":        "remote-atomic",
		"completion ":                   "zsh",
		"":                              "transfer",
	} {
		// The last word is what is being written: nothing yet.
		var out, errs bytes.Buffer
		words := append(append([]string{"__complete"}, strings.Fields(args)...), "")
		code := run(t.Context(), words, strings.NewReader(""), &out, &errs)
		stdout := out.String()
		if code != exitOK || !strings.Contains("\n"+stdout, "\n"+want) {
			t.Errorf("%q: exit %d, want %s among\n%s", args, code, want, stdout)
		}
	}
}
