package buildinfo

import (
	"path/filepath"
	"strings"
)

// LibraryAt describes a library by the path that it was loaded from, or by the error
// of loading it.
func LibraryAt(name, path string, err error) Library {
	l := Library{Name: name, Path: path}
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	// libX.so.1 is a link to the file that is named by the whole version.
	file := path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		file = target
	}
	if _, version, ok := strings.Cut(filepath.Base(file), ".so."); ok {
		l.Version = version
	}
	return l
}
