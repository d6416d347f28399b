// Package draw draws a machine's topology as one SVG picture, to be printed or put
// into a page: NUMA nodes, root complexes, switches and devices, links as wide as
// their lanes, and each accelerator in one colour with its rails.
//
// Alike devices below one switch stand in one row, and many of them become one box.
// The same topology always gives the same bytes. The picture refers to nothing
// outside itself, and no name of a device can add markup to it.
package draw

import (
	"bufio"
	"errors"
	"io"

	"github.com/peerdirect/peerdirect/pci"
)

// Scheme is what the picture is coloured for.
type Scheme uint8

const (
	Auto  Scheme = iota // as the reader's screen prefers; light on paper
	Light               // dark on white
	Dark                // light on black
)

// Options are SVG's; the zero value is a good one.
type Options struct {
	Scheme Scheme
	Title  string // "" is the system's name, or the topology's source
}

// Width is a picture's width in SVG units; its height follows from the machine. The
// smallest letters are 11 units, 6 points on a page of A4.
const Width = 960

// SVG draws t, and p's pairs if p is not nil. Its errors are w's.
func SVG(w io.Writer, t *pci.Topology, p *pci.Pairing, o Options) error {
	if t == nil {
		return errors.New("draw: no topology to draw; read one with pci.Read")
	}
	s := &scene{}
	newPlan(t, p).draw(s, title(t, o))
	b := bufio.NewWriter(w)
	s.write(b, o.Scheme)
	return b.Flush()
}

func title(t *pci.Topology, o Options) string {
	for _, name := range []string{o.Title, t.Platform.System, t.Source} {
		if name != "" {
			return name
		}
	}
	return "Topology"
}
