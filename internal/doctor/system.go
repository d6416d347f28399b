package doctor

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// text is a file of the system without the white space around it.
func (s *System) text(name string) (string, error) {
	b, err := fs.ReadFile(s.Root, name)
	return strings.TrimSpace(string(b)), err
}

// exists tells whether a file is there; known is false where that cannot be told: it
// may not be looked up, or a capture lacks the folder that it would be in.
func (s *System) exists(name string) (there, known bool) {
	_, err := fs.Stat(s.Root, name)
	switch {
	case err == nil:
		return true, true
	case !errors.Is(err, fs.ErrNotExist):
		return false, false
	case s.Live:
		return false, true
	}
	_, err = fs.Stat(s.Root, path.Dir(name))
	return false, err == nil
}

// missing is what a check says where the file that would tell cannot be read. A
// capture that does not hold it is not worth a line each.
func (s *System) missing(subject, name string, err error) Finding {
	f := Finding{Subject: subject, Verdict: Unknown, Summary: "/" + name + " cannot be read", Evidence: []string{why(name, err)}}
	if !s.Live && errors.Is(err, fs.ErrNotExist) {
		f.Summary, f.missing = "the capture does not hold /"+name, true
	}
	return f
}

// why tells what came of reading a file: "/proc/modules: permission denied".
func why(name string, err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return "/" + name + ": " + err.Error()
}

// name is how topo calls a function, and its address.
func (s *System) name(d *pci.Device) string {
	t, _ := s.Topology()
	if name := t.Name(d); name != d.Address.String() {
		return name + " " + d.Address.String()
	}
	return d.Address.String()
}
