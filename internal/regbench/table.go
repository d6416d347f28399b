package regbench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/transfer/report"
)

// Table writes a report for people.
func Table(w io.Writer, r *Report) error {
	c := r.Conditions
	var b strings.Builder
	fmt.Fprintf(&b, "registration of %s memory on %s", c.Memory, c.Device)
	if c.NICs > 1 {
		fmt.Fprintf(&b, " (%d NICs, one after the other)", c.NICs)
	}
	fmt.Fprintf(&b, "\n%s", c.Transport)
	if c.Embedded {
		b.WriteString(", software inside this process")
	}
	fmt.Fprintf(&b, "; linux %s, %s\n", c.Kernel, c.Arch)
	runs := "one run"
	if c.Runs > 1 {
		runs = fmt.Sprintf("medians of %d runs", c.Runs)
	}
	fmt.Fprintf(&b, "%s; the pool has %v, set by %s\n", runs, report.Bytes(c.Pool), c.PoolBy)

	var shares []int
	var sizes []uint64
	rows := make(map[key]Row)
	for _, row := range r.Rows {
		k := key{strategy: row.Strategy, size: row.Size}
		if row.Hits != nil {
			k.hits = *row.Hits
			if !slices.Contains(shares, k.hits) {
				shares = append(shares, k.hits)
			}
		}
		if row.Strategy == StrategyEach {
			sizes = append(sizes, row.Size)
		}
		rows[k] = row
	}
	slices.Sort(shares)
	b.WriteString("\nwhat the memory of one transfer costs\n")
	head := []string{"", "each time", "", "cached, share of hits"}
	for range len(shares) - 1 {
		head = append(head, "")
	}
	under := []string{"size", "reg.", "dereg."} // all fits into 80 columns
	for _, s := range shares {
		under = append(under, fmt.Sprintf("%d %%", s))
	}
	lines := [][]string{append(head, "whole pool", ""), append(under, "find", "pays")}
	if len(shares) == 0 {
		lines[0] = []string{"", "each time", "", "whole pool", ""}
	}
	for _, size := range sizes {
		each, pool := rows[key{strategy: StrategyEach, size: size}], rows[key{strategy: StrategyPool, size: size}]
		line := []string{report.Bytes(size).String(), micros(each.Register.Median), micros(each.Deregister.Median)}
		for _, s := range shares {
			line = append(line, micros(rows[key{StrategyCached, size, s}].Use.Median))
		}
		find := "-" // the whole pool as one piece
		if size != c.Pool {
			find = micros(pool.Use.Median)
		}
		lines = append(lines, append(line, find, fmt.Sprint(pool.PaysAfter)))
	}
	columns(&b, lines)
	if p := rows[key{strategy: StrategyPool, size: c.Pool}]; p.Register != nil {
		fmt.Fprintf(&b, "The whole pool is registered in %s and deregistered in %s, once;\nthat pays after so many transfers.\n",
			micros(p.Register.Median), micros(p.Deregister.Median))
	}

	g := r.Growth
	fmt.Fprintf(&b, "\nanother %v, when so much is registered already\n", report.Bytes(g.Piece))
	lines = [][]string{{"registered", "ascending", "descending"}}
	for _, row := range g.Rows {
		lines = append(lines, []string{report.Bytes(row.Registered).String(), micros(row.Ascending.Median), micros(row.Descending.Median)})
	}
	lines = append(lines, []string{fmt.Sprintf("all %d", g.Pieces), micros(g.Ascending.Median), micros(g.Descending.Median)})
	columns(&b, lines)
	_, err := io.WriteString(w, b.String())
	return err
}

// columns writes lines of cells, all but the first cell to the right. A cell that
// is followed by empty ones may reach into them.
func columns(b *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[len(lines)-1]))
	for _, l := range lines {
		for i, cell := range l {
			if i+1 < len(l) && l[i+1] == "" {
				continue
			}
			width[i] = max(width[i], len(cell))
		}
	}
	for _, l := range lines { // those that reach make the last column of their reach wider
		for i := 0; i < len(l); i++ {
			from, room := i, width[i]
			for i+1 < len(l) && l[i+1] == "" {
				i++
				room += 2 + width[i]
			}
			width[i] += max(0, len(l[from])-room)
		}
	}
	for _, l := range lines {
		var line strings.Builder
		for i, cell := range l {
			switch {
			case i == 0:
				fmt.Fprintf(&line, "%-*s", width[i], cell)
			case i+1 < len(l) && l[i+1] == "" && cell != "":
				end := 0
				for _, w := range width[:i] {
					end += w + 2
				}
				for line.Len() < end {
					line.WriteByte(' ')
				}
				line.WriteString(cell)
			case cell != "":
				end := 2 * i
				for _, w := range width[:i+1] {
					end += w
				}
				fmt.Fprintf(&line, "%*s", max(end-line.Len(), len(cell)+2), cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// micros prints microseconds with three digits and a unit.
func micros(us float64) string {
	unit := "us"
	switch {
	case us >= 999.5e3:
		us, unit = us/1e6, "s"
	case us >= 999.5:
		us, unit = us/1e3, "ms"
	case us < 0.9995:
		us, unit = us*1e3, "ns"
	}
	switch {
	case us >= 100:
		return fmt.Sprintf("%.0f%s", us, unit)
	case us >= 10:
		return fmt.Sprintf("%.1f%s", us, unit)
	}
	return fmt.Sprintf("%.2f%s", us, unit)
}
