package tracereport

import (
	"math/bits"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// heatColumns is how many steps of time a heat map has at most; when they are used up,
// two and two become one.
const heatColumns = 160

// Heat gathers histograms over time, for a heat map.
type Heat struct {
	counted string // "calls", …
	began   time.Time
	step    time.Duration // of a column
	last    map[string][]uint64
	panels  map[string]*heatPanel
	order   []string // of the panels
	gaps    []bool   // columns in which nothing was traced
}

// heatPanel holds counts: columns of bands, two bands an octave.
type heatPanel struct {
	columns [][]uint64
}

// NewHeat begins a map of what is counted ("calls", …) with columns of that length, which
// double when there are too many.
func NewHeat(counted string, began time.Time, step time.Duration) *Heat {
	return &Heat{counted: counted, began: began, step: step, last: make(map[string][]uint64), panels: make(map[string]*heatPanel)}
}

// Panel is what one part of a heat map shows.
type Panel struct {
	Name string
	ebpfprobes.Histogram
}

// Add tells what was counted until now, in the order in which it is to be drawn. What
// a histogram has grown by since the last Add is drawn in the column of now.
func (h *Heat) Add(at time.Time, attached bool, all []Panel) {
	column := max(int(at.Sub(h.began)/h.step), 0)
	// What ends at a border happened before it.
	if column > 0 && at.Sub(h.began)%h.step == 0 {
		column--
	}
	for column >= heatColumns {
		h.halve()
		column /= 2
	}
	for len(h.gaps) <= column {
		h.gaps = append(h.gaps, true)
	}
	if attached {
		h.gaps[column] = false
	}
	for _, now := range all {
		bands := bandsOf(&now.Histogram)
		was := h.last[now.Name]
		h.last[now.Name] = bands
		for band, n := range bands {
			if band < len(was) {
				n -= min(n, was[band])
			}
			if n > 0 {
				h.count(now.Name, column, band, n)
			}
		}
	}
	h.order = h.order[:0]
	for _, p := range all {
		if h.panels[p.Name] != nil {
			h.order = append(h.order, p.Name)
		}
	}
}

func (h *Heat) count(name string, column, band int, n uint64) {
	p := h.panels[name]
	if p == nil {
		p = &heatPanel{}
		h.panels[name] = p
	}
	for len(p.columns) <= column {
		p.columns = append(p.columns, nil)
	}
	for len(p.columns[column]) <= band {
		p.columns[column] = append(p.columns[column], 0)
	}
	p.columns[column][band] += n
}

// halve makes one column of two.
func (h *Heat) halve() {
	h.step *= 2
	for i := 0; i < len(h.gaps); i += 2 {
		h.gaps[i/2] = h.gaps[i] && (i+1 == len(h.gaps) || h.gaps[i+1])
	}
	h.gaps = h.gaps[:(len(h.gaps)+1)/2]
	for _, p := range h.panels {
		old := p.columns
		p.columns = make([][]uint64, (len(old)+1)/2)
		for i, bands := range old {
			to := &p.columns[i/2]
			for band, n := range bands {
				for len(*to) <= band {
					*to = append(*to, 0)
				}
				(*to)[band] += n
			}
		}
	}
}

// bandsOf sums a histogram's slots by half octaves: band 2n holds durations from 2^n ns
// to below 1.5 times that, band 2n+1 the rest of the octave. Both are whole slots.
func bandsOf(h *ebpfprobes.Histogram) (bands []uint64) {
	for slot, n := range h.Slots {
		if n == 0 {
			continue
		}
		low, _ := ebpfprobes.SlotRange(slot)
		band := bandOf(uint64(low))
		for len(bands) <= band {
			bands = append(bands, 0)
		}
		bands[band] += uint64(n)
	}
	return bands
}

func bandOf(ns uint64) int {
	if ns < 2 {
		return 0
	}
	octave := bits.Len64(ns) - 1
	return 2*octave + int(ns>>(octave-1)&1)
}

// bandLow is the shortest duration of a band.
func bandLow(band int) time.Duration {
	if band < 2 {
		return time.Duration(band)
	}
	return time.Duration(1)<<(band/2) + time.Duration(band%2)<<(band/2-1)
}

// Panels sums rows for a heat map, by operation and kind.
func (r *Registrations) Panels() []Panel {
	var panels []Panel
	for o := ebpfprobes.Register; o <= ebpfprobes.Deregister; o++ {
		for k := ebpfprobes.KindUnknown; k <= ebpfprobes.DEVX; k++ {
			kind := k.String()
			if k == ebpfprobes.KindUnknown {
				kind = "unknown kind"
			}
			p := Panel{Name: o.String() + ", " + kind}
			for i := range r.Rows {
				if row := &r.Rows[i]; row.Operation == o && row.Kind == k {
					p.Add(&row.Whole)
				}
			}
			if p.Count > 0 {
				panels = append(panels, p)
			}
		}
	}
	return panels
}
