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

// exported reads a package as its users see it: what is not exported is left out,
// and methods of an embedded type that is not are methods of who embeds it.
func exported(t *testing.T, p *listed) (*token.FileSet, *doc.Package) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Sorted(slices.Values(slices.Concat(p.GoFiles, p.CgoFiles))) {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	d, err := doc.NewFromFiles(fset, files, p.ImportPath)
	if err != nil {
		t.Fatal(err)
	}
	return fset, d
}

// plain are methods whose name says it all.
var plain, codec = []string{"Error", "Unwrap", "String"}, []string{"Encode", "Decode"}

// Everything that is exported has a comment of its own: a package, a type, a
// function, a method, and of constants and variables without a type of the package
// each one or their group. What an interface asks for is explained there, or with
// what stands before it and names it. Fields of structs may do with their names.
// In efa/wire every format has its size, Encode and Decode, as its package says.
func TestEverythingExportedIsExplained(t *testing.T) {
	for _, p := range publics(t) {
		fset, d := exported(t, p)
		bare := func(what string, at token.Pos) {
			t.Errorf("%s: %s.%s has no comment", fset.Position(at), p.name(), what)
		}
		if !strings.HasPrefix(d.Doc, "Package "+d.Name+" ") {
			t.Errorf("%s: the package's comment begins %.20q", p.name(), d.Doc)
		}
		format := func(name string) bool {
			return p.name() == "efa/wire" && slices.ContainsFunc(d.Types, func(k *doc.Type) bool { return name == "Size"+k.Name })
		}
		funcs := func(of string, list []*doc.Func) {
			for _, f := range list {
				if f.Doc == "" && (of == "" || !slices.Contains(plain, f.Name) && !(p.name() == "efa/wire" && slices.Contains(codec, f.Name))) {
					bare(of+f.Name, f.Decl.Pos())
				}
			}
		}
		values := func(list []*doc.Value) {
			for _, v := range list {
				for _, spec := range v.Decl.Specs {
					if s := spec.(*ast.ValueSpec); v.Doc == "" && s.Doc == nil && s.Comment == nil && !format(s.Names[0].Name) {
						bare(s.Names[0].Name, s.Pos())
					}
				}
			}
		}
		values(d.Consts)
		values(d.Vars)
		funcs("", d.Funcs)
		for _, kind := range d.Types {
			if kind.Doc == "" {
				bare(kind.Name, kind.Decl.Pos())
			}
			funcs("", kind.Funcs) // constants of a type are explained by its comment
			funcs(kind.Name+".", kind.Methods)
			ast.Inspect(kind.Decl, func(n ast.Node) bool {
				if i, ok := n.(*ast.InterfaceType); ok {
					var above string
					for _, m := range i.Methods.List {
						if m.Doc != nil {
							above = m.Doc.Text()
						}
						if len(m.Names) > 0 && m.Doc == nil && m.Comment == nil && !strings.Contains(above, m.Names[0].Name) {
							bare(kind.Name+"."+m.Names[0].Name, m.Pos())
						}
					}
				}
				return true
			})
		}
	}
}
