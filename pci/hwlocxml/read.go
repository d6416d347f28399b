package hwlocxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// Bounds of a file. That of the largest machines has some megabytes and 20,000
// objects, nested some 30 deep.
const (
	maxBytes  = 64 << 20
	maxTokens = 4 << 20 // of XML: tags, and text between them
	maxNested = 300
	maxErrors = 20 // told one by one
)

// Read reads a file of hwloc. What could be read is in the Topology, what could not
// is joined in the error, each a *pci.Error that names the line; both may be there.
// Without any PCI device the Topology is nil and the error pci.ErrNoDevice.
func Read(in io.Reader) (*pci.Topology, error) { return readWithin(in, maxBytes, maxTokens) }

// readWithin is Read with its bounds.
func readWithin(in io.Reader, bytes int64, tokens int) (*pci.Topology, error) {
	bounded := &io.LimitedReader{R: in, N: bytes}
	r := &reader{
		in: bounded, dec: xml.NewDecoder(bounded), t: &pci.Topology{},
		at: map[pci.Address]*device{}, nodeAt: map[int]*node{},
	}
	if err := r.elements(tokens); err != nil {
		r.fail(r.line(), "", err)
	}
	if r.version == 0 {
		return nil, r.err()
	}
	if len(r.devices) == 0 {
		r.fail(0, "", fmt.Errorf("%w: there is no PCI device in the file; lstopo leaves them out with --no-io, and "+
			"programs unless they ask hwloc for them", pci.ErrNoDevice))
		return nil, r.err()
	}
	r.placeSystem()
	r.placeNodes()
	r.placeDistances()
	r.placeDevices()
	pci.Assemble(r.t)
	return r.t, r.err()
}

// reader holds a file while it is read.
type reader struct {
	in  *io.LimitedReader
	dec *xml.Decoder
	t   *pci.Topology

	version int // of the format: 1, 2 or 3; 0 until the root element
	depth   int // of elements
	skipped int // of those, in one that is not read
	stack   []*object
	machine bool // one was met
	vendor  string
	product string

	devices []*device
	at      map[pci.Address]*device
	nodes   []*node // in the file's order
	nodeAt  map[int]*node

	matrix    *matrix // the element it is in; nil is none
	text      *strings.Builder
	distances []*matrix

	errs []error
	more int // beyond maxErrors
}

// fail remembers what is wrong, and where. Line 0 is the whole file.
func (r *reader) fail(line int, what string, err error) {
	if len(r.errs) == maxErrors {
		r.more++
		return
	}
	object := "the file of hwloc"
	if line > 0 {
		object = fmt.Sprintf("line %d", line)
	}
	if what != "" {
		object += ", " + what
	}
	r.errs = append(r.errs, &pci.Error{Op: "read", Object: object, Err: err})
}

func (r *reader) err() error {
	if r.more > 0 {
		return errors.Join(append(r.errs, fmt.Errorf("and %d errors more", r.more))...)
	}
	return errors.Join(r.errs...)
}

func (r *reader) line() int {
	line, _ := r.dec.InputPos()
	return line
}

// elements reads to the end, or to what makes the rest unreadable.
func (r *reader) elements(most int) error {
	for n := 0; ; n++ {
		token, err := r.dec.Token()
		switch {
		case err == io.EOF && r.version == 0:
			return errors.New("there is no element in it; it is no file of hwloc")
		case err == io.EOF:
			return nil
		case err != nil && r.in.N <= 0:
			return errors.New("longer than the file of any machine; the rest is not read")
		case err != nil:
			if _, ok := errors.AsType[*xml.SyntaxError](err); ok {
				err = fmt.Errorf("%w: damaged or cut; what is before it was read", err)
			}
			return err
		case n == most || r.depth > maxNested:
			return errors.New("more or deeper elements than any machine has; the rest is not read")
		}
		switch e := token.(type) {
		case xml.StartElement:
			r.depth++
			if r.skipped > 0 {
				r.skipped++
			} else if err := r.start(e); err != nil {
				return err
			}
		case xml.EndElement:
			r.depth--
			if r.skipped > 0 {
				r.skipped--
			} else {
				r.end(e.Name.Local)
			}
		case xml.CharData:
			if r.text != nil {
				r.text.Write(e)
			}
		}
	}
}

func (r *reader) start(e xml.StartElement) error {
	name := e.Name.Local
	if r.version == 0 {
		return r.root(name, attribute(e, "version"))
	}
	switch {
	case name == "object":
		r.stack = append(r.stack, r.object(e))
	case name == "info":
		r.info(attribute(e, "name"), attribute(e, "value"))
	case name == "distances" || name == "distances2":
		r.startMatrix(e)
	case r.matrix != nil && name == "latency":
		r.matrix.add(attribute(e, "value"), &r.matrix.values)
	case r.matrix != nil && (name == "indexes" || name == "u64values"):
		r.text = &strings.Builder{}
	default:
		r.skipped = 1 // what hwloc may add, and what programs put in, in any shape
	}
	return nil
}

// root takes the first element, and the format's version of it.
func (r *reader) root(name, version string) error {
	switch {
	case name == "topologydiff":
		return errors.New("it is the difference of two topologies; apply it with hwloc-patch, and give the result")
	case name != "topology" && name != "root": // the latter in files of hwloc 1.0
		return fmt.Errorf("its root element is <%s>, that of hwloc is <topology>", clip(name))
	}
	major, _, _ := strings.Cut(version, ".")
	switch major {
	case "", "1":
		r.version = 1
	case "2":
		r.version = 2
	case "3":
		r.version = 3
	default:
		return fmt.Errorf("version %q of the format is not known here, 1 to 3 are; "+
			"export it again: lstopo --export-xml-flags v2 FILE.xml", clip(version))
	}
	return nil
}

func (r *reader) end(name string) {
	switch name {
	case "object":
		if n := len(r.stack); n > 0 {
			r.stack = r.stack[:n-1]
		}
	case "indexes", "u64values":
		if r.matrix != nil && r.text != nil {
			list := &r.matrix.values
			if name == "indexes" {
				list = &r.matrix.indexes
			}
			for f := range strings.FieldsSeq(r.text.String()) {
				r.matrix.add(f, list)
			}
		}
		r.text = nil
	case "distances", "distances2":
		r.matrix = nil
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// clip keeps a strange text from filling the screen.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
