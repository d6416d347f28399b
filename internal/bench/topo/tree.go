package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tree writes files below a folder. After the first failure it writes no more; err
// says which it was.
type tree struct {
	dir  string
	err  error
	made map[string]bool // folders
}

func newTree(dir string) *tree { return &tree{dir: dir, made: map[string]bool{}} }

// place makes the folder of a file and gives the file's path.
func (t *tree) place(name string) string {
	name = filepath.Join(t.dir, name)
	if dir := filepath.Dir(name); t.err == nil && !t.made[dir] {
		t.err = os.MkdirAll(dir, 0o755)
		t.made[dir] = true
	}
	return name
}

func (t *tree) bytes(name string, data []byte) {
	if name = t.place(name); t.err == nil {
		t.err = os.WriteFile(name, data, 0o644)
	}
}

// file writes a file of one line, as most of sysfs are.
func (t *tree) file(name, format string, args ...any) {
	t.bytes(name, []byte(fmt.Sprintf(format, args...)+"\n"))
}

// link makes a link to another place of the tree, relative as the kernel's are.
func (t *tree) link(name, to string) {
	if at := t.place(name); t.err == nil {
		t.err = os.Symlink(strings.Repeat("../", strings.Count(name, "/"))+to, at)
	}
}
