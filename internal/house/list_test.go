package house

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/peerdirect/peerdirect"
	root   = "../.."
)

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct{ Path string }
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
}

// name is the path inside the module: "verbs/nldev"; "" of any other package.
func (p *listed) name() string {
	if rest, ok := strings.CutPrefix(p.ImportPath, module+"/"); ok {
		return rest
	}
	return ""
}

// public tells whether another module can import the package and has a use for it.
func public(name string) bool {
	return name != "" && !strings.HasPrefix(name, "cmd/") &&
		!slices.Contains(strings.Split(name, "/"), "internal")
}

var list = sync.OnceValues(func() (map[string]*listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module,GoFiles,CgoFiles,Imports,Deps", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=1")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, errors.New(string(exit.Stderr))
	} else if err != nil {
		return nil, err
	}
	all := map[string]*listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := d.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

// packages gives every package of the module and all that they import, by path.
// It opens the files that go list reads, so that go test knows what its result
// stands on.
func packages(t *testing.T) map[string]*listed {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.name() == "" {
			continue
		}
		if _, err := os.ReadDir(p.Dir); err != nil {
			t.Fatal(err)
		}
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles) {
			if _, err := os.ReadFile(filepath.Join(p.Dir, f)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// publics are the packages that others import, in order.
func publics(t *testing.T) []*listed {
	t.Helper()
	var found []*listed
	for _, p := range packages(t) {
		if public(p.name()) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *listed) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return found
}
