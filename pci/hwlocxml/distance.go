package hwlocxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/peerdirect/peerdirect/pci"
)

// Bounds of distances. No kernel has more nodes; hwloc writes a matrix or two.
const (
	maxMatrix   = 1024
	maxMatrices = 16
)

// matrix is the distances between NUMA nodes while they are read.
type matrix struct {
	line    int
	size    int
	old     bool    // of hwloc 1: relative values, in the order of the nodes
	base    float64 // what those are multiplied with
	indexes []float64
	values  []float64 // row by row
	err     error
}

// Bits of a matrix' kind (enum hwloc_distances_kind_e).
const (
	kindFromOS  = 1 << 0
	kindLatency = 1 << 2
	kindMask    = 0xf
)

// startMatrix takes the start of distances. Only latencies between nodes that the
// firmware tells are kept, not what a program has measured.
func (r *reader) startMatrix(e xml.StartElement) {
	m := &matrix{line: r.line(), old: e.Name.Local == "distances", base: 1}
	r.skipped = 1
	if m.old {
		if n := len(r.stack); n == 0 || !r.stack[n-1].machine {
			return // between some of the objects
		}
		m.base, m.err = strconv.ParseFloat(attribute(e, "latency_base"), 64)
	} else {
		kind, err := strconv.ParseUint(attribute(e, "kind"), 10, 32)
		if attribute(e, "type") != "NUMANode" || attribute(e, "indexing") != "os" || err != nil ||
			kind&kindMask != kindFromOS|kindLatency {
			return
		}
	}
	size, err := strconv.ParseUint(attribute(e, "nbobjs"), 10, 32)
	switch {
	case len(r.distances) == maxMatrices:
		return
	case m.err != nil || err != nil || size > maxMatrix:
		r.fail(m.line, e.Name.Local, errors.New("no number of objects, or no base, of distances"))
		return
	}
	r.skipped = 0
	m.size = int(size)
	r.matrix = m
	r.distances = append(r.distances, m)
}

// add appends a number to a list of the matrix.
func (m *matrix) add(text string, list *[]float64) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case m.err != nil:
	case err != nil || !(v >= 0 && v <= math.MaxUint16):
		m.err = fmt.Errorf("%q is no distance, nor number, of a node", clip(text))
	case len(*list) == m.size*m.size:
		m.err = fmt.Errorf("more than the %d distances of %d nodes", m.size*m.size, m.size)
	default:
		*list = append(*list, v)
	}
}

// placeDistances gives the nodes their rows.
func (r *reader) placeDistances() {
	slices.SortFunc(r.t.Nodes, func(a, b *pci.Node) int { return a.Number - b.Number })
	var chosen *matrix
	for _, m := range r.distances {
		if m.old {
			if m.size != len(r.nodes) || m.size < 2 {
				continue // between other objects
			}
			for _, n := range r.nodes {
				m.indexes = append(m.indexes, float64(n.Number))
			}
		}
		if err := m.check(r); err != nil {
			r.fail(m.line, "distances", err)
			continue
		}
		switch {
		case m.old && !m.local():
			// Of other objects, or from a program: 10 is the firmware's.
		case chosen == nil:
			chosen = m
		case m.old && !slices.Equal(m.values, chosen.values):
			return // which of them is between the nodes is not told
		}
	}
	if chosen != nil {
		chosen.place(r)
	}
}

// check tells what is wrong with a matrix.
func (m *matrix) check(r *reader) error {
	switch {
	case m.err != nil:
		return m.err
	case len(m.values) != m.size*m.size || len(m.indexes) != m.size:
		return fmt.Errorf("%d nodes and %d distances, where %d and %d are announced", len(m.indexes), len(m.values),
			m.size, m.size*m.size)
	}
	seen := map[float64]bool{}
	for _, i := range m.indexes {
		if seen[i] || r.nodeAt[int(i)] == nil {
			return fmt.Errorf("they are of node %v, which is there twice or not at all", i)
		}
		seen[i] = true
	}
	return nil
}

// local tells whether every node is 10 from itself, and all values are whole.
func (m *matrix) local() bool {
	for i, v := range m.values {
		if v *= m.base; math.Abs(v-math.Round(v)) > 1e-3 || i%(m.size+1) == 0 && math.Round(v) != 10 {
			return false
		}
	}
	return true
}

// place writes the rows in the order of Topology.Nodes; of a node that the matrix
// leaves out nothing is known.
func (m *matrix) place(r *reader) {
	column := map[int]int{}
	for i, n := range m.indexes {
		column[int(n)] = i
	}
	for _, n := range r.t.Nodes {
		row, ok := column[n.Number]
		if !ok {
			continue
		}
		n.Distances = make([]int, len(r.t.Nodes))
		for j, to := range r.t.Nodes {
			if c, ok := column[to.Number]; ok {
				n.Distances[j] = int(math.Round(m.values[row*m.size+c] * m.base))
			}
		}
	}
}
