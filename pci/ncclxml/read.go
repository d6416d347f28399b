package ncclxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// Bounds of a file. NCCL itself takes 256 elements.
const (
	maxBytes   = 16 << 20
	maxDepth   = 128
	maxDevices = 1 << 16
)

// Read reads a topology file of NCCL. What could be read is in the Topology, what
// could not is joined in the error, each an *Error; both may be there. Without any
// PCI device the Topology is nil and the error ErrNoDevice, and ErrFormat if the
// file is of another kind.
//
// Each <cpu> is a NUMA node and, unless a file of Write names them, one root
// complex. A <pci> around others is a switch, of which the upstream port is all that
// such a file knows. Links are what they can be at most, which is what NCCL notes;
// what they are now is unknown. A device without class is Other. A <net> outside a
// <pci> is no PCI device and left out, as are NVLink and the chip-to-chip link; the
// machine is the first one in a file of several.
func Read(in io.Reader) (*pci.Topology, error) {
	r := &reader{
		xml: xml.NewDecoder(&bounded{in: in, left: maxBytes}),
		t:   &pci.Topology{},
		at:  map[pci.Address]*pci.Device{}, nodes: map[int]*pci.Node{},
		roots: map[string]*pci.Root{}, rooted: map[*pci.Root]bool{}, cpus: map[string]int{},
	}
	if err := r.read(); err != nil {
		r.fail("%w", err)
	}
	if len(r.t.Devices) == 0 {
		if !r.system && len(r.errs) == 0 {
			r.fail("%w", ErrFormat)
		}
		return nil, errors.Join(r.err(), pci.ErrNoDevice)
	}
	pci.Assemble(r.t)
	return r.t, r.err()
}

// reader is one reading of a file.
type reader struct {
	xml  *xml.Decoder
	t    *pci.Topology
	errs []error
	more int

	system bool // the root element was right
	open   []scope
	at     map[pci.Address]*pci.Device
	nodes  map[int]*pci.Node
	roots  map[string]*pci.Root
	rooted map[*pci.Root]bool // those that have devices
	cpus   map[string]int     // how often a NUMA node was named
	host   *string            // whose processors are read
}

// scope is an element that is open, and what it is inside of.
type scope struct {
	name string
	node *pci.Node // of the <cpu>; nil is unknown
	root *pci.Root // nil is unknown
	d    *pci.Device
}

// inside tells in which elements another may be; the rest is passed over, as NCCL
// does.
var inside = map[string][]string{
	"system": {""}, "cpu": {"system"}, "pci": {"cpu", "pci"},
	"gpu": {"pci"}, "nic": {"pci", "cpu"}, "net": {"nic"},
	"nvlink": {"gpu"}, "xgmi": {"gpu"}, "c2c": {"gpu"}, "pcilink": {"pci"},
}

func (r *reader) read() error {
	for {
		token, err := r.xml.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var syntax *xml.SyntaxError
			if errors.As(err, &syntax) { // its line is told already
				return errors.New(clip(syntax.Msg))
			}
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			at, ok := r.start(token)
			if ok {
				r.open = append(r.open, at)
			} else if err := r.xml.Skip(); err != nil {
				return err
			}
			if !r.system {
				return nil
			}
		case xml.EndElement:
			r.open = r.open[:len(r.open)-1]
		}
	}
}

// start reads an element; false passes over it and all in it.
func (r *reader) start(e xml.StartElement) (at scope, ok bool) {
	name := e.Name.Local
	var up scope
	if len(r.open) > 0 {
		up = r.open[len(r.open)-1]
	}
	at = up
	at.name = name
	if up.name == "" {
		if name != "system" || r.system {
			r.fail("<%s> is the root element: %w", clip(name), ErrFormat)
			return at, false
		}
		r.system = true
	}
	places, known := inside[name]
	switch {
	case !known:
		r.fail("<%s> is no element of a topology", clip(name))
		return at, false
	case !slices.Contains(places, up.name):
		r.fail("<%s> cannot be in <%s>", name, up.name)
		return at, false
	case len(r.open) == maxDepth:
		r.fail("there are more than %d elements one inside the other", maxDepth)
		return at, false
	}
	a := attributes(e.Attr)
	switch name {
	case "system":
		if v, ok := a.get("version"); ok && v != "1" && v != "2" {
			r.fail("version %q is neither 1, which is NCCL's, nor 2, which is RCCL's", clip(v))
		}
	case "cpu":
		return at, r.cpu(a, &at)
	case "pci":
		return at, r.pci(a, &at)
	case "gpu":
		at.d.Kind = pci.Accelerator
	case "net":
		if at.d != nil {
			r.net(a, at.d)
		}
	}
	return at, true
}

// attributes are those of an element; of two with one name NCCL takes the first.
type attributes []xml.Attr

func (a attributes) get(name string) (string, bool) {
	for _, attr := range a {
		if attr.Name.Local == name {
			return attr.Value, true
		}
	}
	return "", false
}

// value is one that may be missing.
func (a attributes) value(name string) string {
	s, _ := a.get(name)
	return s
}

// names splits a list of them, as Write makes it.
func (a attributes) names(of string) (names []string) {
	list := a.value(of)
	if len(list) > maxValue {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = clean(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// bounded is a reader that has an end.
type bounded struct {
	in   io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the file is larger than the %d MiB that are read", maxBytes>>20)
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
