package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestSteps(t *testing.T) {
	const text = "```sh\nnot run\n```\n```sh host\n# a comment\ntrue # prints: not this\n# prints: ^a$\n# prints: b+\n# exits: 3\n# tries: 2\n```\n" +
		"```go host file=main.go\npackage main\n```\n```sh hardware\nrm x\n```\n```sh efa1\ntrue\n```\n```text\nx\n```\n"
	all, err := steps("x.md", text)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d steps: %v", len(all), err)
	}
	if s := all[0]; s.place != onHost || s.exit != 3 || s.tries != 2 || len(s.want) != 2 || s.title() != "x.md:5 host: true # prints: not this" {
		t.Errorf("%+v, %s", s, s.title())
	}
	if all[1].file != "main.go" || all[2].place != onHardware || all[3].place != "efa1" {
		t.Errorf("%+v", all[1:])
	}
	for output, good := range map[string]bool{"x\na\nbb\n": true, "bb\na\n": false, "a\n": false, "": false} {
		if err := all[0].judge(output, 3); (err == nil) != good {
			t.Errorf("%q: %v", output, err)
		}
	}
	if err := all[0].judge("a\nb\n", 0); err == nil {
		t.Error("another exit status passes")
	}
	for _, wrong := range []string{"```sh elsewhere\nx\n```", "```go host\nx\n```", "```sh host now\nx\n```", "```sh rxe file=x\nx\n```",
		"```sh host\n# prints: (\n```", "```sh host\n# exits: many\n```", "```sh host\n# tries: x\n```"} {
		if _, err := steps("x.md", wrong+"\n"); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// TestRunOnHost runs a guide whose second block fails and whose third needs the lab.
func TestRunOnHost(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("docs/guides", 0o755); err != nil {
		t.Fatal(err)
	}
	guide := "```c host file=x.c\nint x;\n```\n```sh host\ncat x.c\ntest -n \"$SRC\"\n# prints: int x\n```\n" +
		"```sh host\nfalse\necho on\n```\n```sh rxe\ntrue\n```\n```sh hardware\ntrue\n```\n"
	if err := os.WriteFile("docs/guides/one.md", []byte(guide), 0o644); err != nil {
		t.Fatal(err)
	}
	failed, err := run(t.Context(), []string{"--host"})
	if failed != 1 || err != nil {
		t.Fatalf("%d failed, %v", failed, err)
	}
	if text, err := os.ReadFile("build/guides/one/2.log"); err != nil || len(text) > 0 {
		t.Errorf("the third block went on behind what failed: %q, %v", text, err)
	}
	for _, wrong := range []string{"two", "--help", "../guides/one"} {
		if failed, err := run(t.Context(), []string{"one", wrong}); !errors.As(err, new(usageError)) || failed != 0 {
			t.Errorf("%q: %d, %v", wrong, failed, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(cancelled, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestGuidesRead: every guide of the project has steps, and each of its text says where.
func TestGuidesRead(t *testing.T) {
	files, err := filepath.Glob("../../../docs/guides/*.md")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := steps(filepath.Base(file), string(text))
		if err != nil {
			t.Error(err)
		}
		run := 0
		for _, s := range all {
			if s.place != onHardware && len(s.want) > 0 {
				run++
			}
		}
		if run < 1 {
			t.Errorf("%s has no block whose output is looked at", file)
		}
	}
}
