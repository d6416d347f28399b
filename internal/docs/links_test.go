package docs

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs instead of comparing")

// tree is the project's.
var tree = os.DirFS("../..")

// documents calls each for every document of the tree.
func documents(t *testing.T, each func(name, text string)) {
	t.Helper()
	names, err := Files(tree)
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		each(name, string(text))
	}
}

// TestLinks: what a document links to is there, and so is the heading.
func TestLinks(t *testing.T) {
	documents(t, func(name, text string) {
		for _, link := range Links(name, text) {
			target, anchor, _ := strings.Cut(link.Target, "#")
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := fs.Stat(tree, to); err != nil {
				t.Errorf("%s:%d: %s: %v", name, link.Line, link.Target, err)
				continue
			}
			if anchor == "" {
				continue
			}
			if there, err := fs.ReadFile(tree, to); err != nil || !Anchors(string(there))[anchor] {
				t.Errorf("%s:%d: %s: no such heading", name, link.Line, link.Target)
			}
		}
	})
}

// TestEveryDocumentIsFound: README leads to every document, in one step or two.
func TestEveryDocumentIsFound(t *testing.T) {
	linked := map[string]bool{"README.md": true}
	follow := func(name string) {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range Links(name, string(text)) {
			target, _, _ := strings.Cut(link.Target, "#")
			linked[path.Join(path.Dir(name), target)] = true
		}
	}
	follow("README.md")
	for name := range linked {
		if strings.HasSuffix(name, ".md") {
			follow(name)
		}
	}
	documents(t, func(name, _ string) {
		if strings.HasPrefix(name, "docs/") && !linked[name] && !strings.HasPrefix(name, "docs/man/") {
			t.Errorf("%s: no document that README names leads to it", name)
		}
	})
}
