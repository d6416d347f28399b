package docs

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEmbeddedProgram compiles and runs the program of docs/guides/embed.md.
func TestEmbeddedProgram(t *testing.T) {
	text, err := fs.ReadFile(tree, "docs/guides/embed.md")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	programs := 0
	for _, b := range Blocks("embed.md", string(text)) {
		if b.Lang != "go" || !strings.HasPrefix(b.Text, "//") {
			continue
		}
		programs++
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(b.Text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, "go", "run", file)
		cmd.Dir = "../.." // the module that its imports are of
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "all as sent") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if programs != 1 {
		t.Errorf("%d programs", programs)
	}
}
