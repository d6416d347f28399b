package house

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/printer"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
)

// The files of testdata/api are what the packages export, so that a change of it is
// seen in a review. go test ./internal/house -update writes them; docs/library.md
// says what may change.
func TestAPI(t *testing.T) {
	kept := map[string]bool{}
	for _, p := range publics(t) {
		file := strings.ReplaceAll(p.name(), "/", "-") + ".txt"
		kept[file] = true
		golden.Check(t, "api/"+file, listing(t, p))
	}
	files, err := os.ReadDir("testdata/api")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !kept[f.Name()] {
			t.Errorf("testdata/api/%s is of no public package", f.Name())
		}
	}
}

// listing is what a package exports, without comments: constants, variables and
// functions, then each type with what belongs to it.
func listing(t *testing.T, p *listed) []byte {
	_, d := exported(t, p)
	var b bytes.Buffer
	b.WriteString("package " + p.name() + "\n\n")
	line := func(n any) {
		if err := (&printer.Config{Mode: printer.TabIndent, Tabwidth: 8}).Fprint(&b, token.NewFileSet(), n); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			line(bare(v.Decl))
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			line(bare(f.Decl))
		}
	}
	values(d.Consts)
	values(d.Vars)
	funcs(d.Funcs)
	for _, k := range d.Types {
		b.WriteByte('\n')
		line(bare(k.Decl))
		values(k.Consts)
		values(k.Vars)
		funcs(k.Funcs)
		funcs(k.Methods)
	}
	return b.Bytes()
}

// bare takes from a declaration what is no part of the API: comments, and what a
// variable begins as. Of fields that are not exported it says that there are some.
func bare(decl ast.Decl) ast.Decl {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			n.Doc = nil
		case *ast.FuncDecl:
			n.Doc, n.Body = nil, nil
		case *ast.Field:
			n.Doc, n.Comment = nil, nil
		case *ast.TypeSpec:
			n.Doc, n.Comment = nil, nil
		case *ast.ValueSpec:
			n.Doc, n.Comment = nil, nil
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
				if l, ok := n.Values[0].(*ast.CompositeLit); ok && n.Type == nil {
					n.Type = l.Type
				}
				n.Values = nil
			}
		case *ast.StructType:
			if n.Incomplete { // which is kept: to convert to such a type, or from it, is no use
				n.Incomplete = false
				n.Fields.List = append(n.Fields.List, &ast.Field{Names: []*ast.Ident{ast.NewIdent("_")}, Type: ast.NewIdent("unexported")})
			}
		}
		return true
	})
	return decl
}
