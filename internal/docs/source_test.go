package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources parses every Go file of the tree that is no test, and calls each with its
// package's folder.
func sources(t *testing.T, each func(folder string, file *ast.File)) {
	t.Helper()
	files, set := 0, token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		each(path.Dir(name), file)
		return nil
	})
	if err != nil || files < 200 {
		t.Fatalf("%d files: %v", files, err)
	}
}

var schemaName = regexp.MustCompile(`peerdirect\.[a-z.-]+/[0-9]+`)

// TestSchemas: docs/formats.md has every schema of the code with its version, and no
// other.
func TestSchemas(t *testing.T) {
	inCode := make(map[string]string)
	sources(t, func(folder string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && schemaName.FindString(s) == s && s != "" {
					inCode[s] = folder
				}
			}
			return true
		})
	})
	text, err := fs.ReadFile(tree, "docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	inText := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `("+schemaName.String()+")` \\|").FindAllStringSubmatch(string(text), -1) {
		inText[m[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(inCode)) {
		if !inText[name] {
			t.Errorf("docs/formats.md does not have %s of %s", name, inCode[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inText)) {
		if inCode[name] == "" {
			t.Errorf("docs/formats.md has %s, which no code has", name)
		}
	}
	documents(t, func(name, text string) {
		for _, s := range schemaName.FindAllString(text, -1) {
			if inCode[s] == "" {
				t.Errorf("%s has %s, which no code has", name, s)
			}
		}
	})
}

// TestProtocols: the versions of protocols in docs/formats.md are the code's.
func TestProtocols(t *testing.T) {
	text, err := fs.ReadFile(tree, "docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string) // by "folder name"
	sources(t, func(folder string, file *ast.File) {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i >= len(v.Values) {
						continue
					}
					if lit, ok := v.Values[i].(*ast.BasicLit); ok {
						versions[folder+" "+name.Name] = lit.Value
					}
				}
			}
		}
	})
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([a-z/]+)` \\| `(\\w+)` ([0-9]+) \\|").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 6 {
		t.Fatalf("%d protocols were found in docs/formats.md", len(rows))
	}
	for _, m := range rows {
		if got := versions[m[1]+" "+m[2]]; got != m[3] {
			t.Errorf("docs/formats.md: %s of %s is %s, in the code %q", m[2], m[1], m[3], got)
		}
	}
}

// TestErrors: docs/errors.md has the error types and sentinels of all public packages.
// With -update it is written.
func TestErrors(t *testing.T) {
	types, sentinels := make(map[string][]string), make(map[string][]string)
	sources(t, func(folder string, file *ast.File) {
		if file.Name.Name == "main" || slices.Contains(strings.Split(folder, "/"), "internal") {
			return
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
						types[folder] = append(types[folder], "`"+s.Name.Name+"`")
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if strings.HasPrefix(name.Name, "Err") && g.Tok == token.VAR {
							sentinels[folder] = append(sentinels[folder], "`"+name.Name+"`")
						}
					}
				}
			}
		}
	})
	var rows []string
	folders := maps.Clone(types)
	maps.Copy(folders, sentinels)
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		slices.Sort(types[folder])
		slices.Sort(sentinels[folder])
		rows = append(rows, "| `"+folder+"` | "+orNone(types[folder])+" | "+orNone(sentinels[folder])+" |")
	}
	inTable(t, "docs/errors.md", "| package | types | sentinels |\n| --- | --- | --- |\n", rows)
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
