package verbs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newerHeaders are folders that hold an infiniband/verbs.h: those of the
// lab's roots, and those listed in PEERDIRECT_VERBS_HEADERS.
func newerHeaders(t *testing.T) []string {
	dirs := filepath.SplitList(os.Getenv("PEERDIRECT_VERBS_HEADERS"))
	if cache, err := os.UserCacheDir(); err == nil {
		roots, _ := filepath.Glob(filepath.Join(cache, "peerdirect/lab/root-*/tree/usr/include"))
		dirs = append(dirs, roots...)
	}
	if len(dirs) == 0 {
		t.Skip("no other verbs.h here: build a lab root, or name folders in PEERDIRECT_VERBS_HEADERS")
	}
	return dirs
}

// preambles is the C text of all sources in one, since starting the compiler
// is what takes the time; so no two of them may use a name for two things.
func preambles(t *testing.T) string {
	var lines []string
	sources, _ := filepath.Glob("*.go")
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && len(g.Specs) == 1 && g.Specs[0].(*ast.ImportSpec).Path.Value == `"C"` {
				for line := range strings.SplitSeq(g.Doc.Text(), "\n") {
					if !strings.HasPrefix(line, "#cgo ") {
						lines = append(lines, line)
					}
				}
			}
		}
	}
	return strings.Join(lines, "\n") + "\n#include \"shim.c\"\n"
}

func TestSourcesCompileWithEveryHeader(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc")
	}
	text := preambles(t)
	for _, dir := range newerHeaders(t) {
		// Only the folder of the verbs: a root's other headers are its C
		// library's.
		inc := t.TempDir()
		for _, sub := range []string{"infiniband", "rdma"} {
			if err := os.Symlink(filepath.Join(dir, sub), filepath.Join(inc, sub)); err != nil {
				t.Fatal(err)
			}
		}
		cc := exec.Command(gcc, "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function", "-D_GNU_SOURCE", "-I"+inc, "-I.", "-xc", "-")
		cc.Stdin = strings.NewReader(text)
		if out, err := cc.CombinedOutput(); err != nil {
			t.Errorf("with %s: %v\n%s", dir, err, out)
		}
	}
}
