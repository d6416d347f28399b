package house

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every public package has an example in its documentation that go test executes on
// any machine, written as its user would: from outside. patterns is an index, and
// railtest is run by the tests of the rails.
func TestEveryPackageHasAnExampleThatRuns(t *testing.T) {
	for _, p := range publics(t) {
		if slices.Contains([]string{"transfer/patterns", "transfer/railtest"}, p.name()) {
			continue
		}
		names, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(f.Name.Name, "_test") && !strings.HasSuffix(name, "_lab_test.go") {
				files = append(files, f)
			}
		}
		if !slices.ContainsFunc(doc.Examples(files...), func(e *doc.Example) bool { return e.Output != "" && e.Doc != "" }) {
			t.Errorf("%s has no example with a comment and an output", p.name())
		}
	}
}
