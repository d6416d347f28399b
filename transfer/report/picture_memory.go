package report

import (
	"fmt"
	"slices"
	"strings"
)

// cell is what a piece of the drawn memory holds.
type cell int

const (
	free cell = -1
	bad  cell = -2
	none cell = -3 // beyond the memory's end
)

// maxRows bounds the height of a memory: of larger ones, several slots share a
// cell.
const maxRows = 32

func (p *picture) memories() {
	width := (p.Columns - 3) / 2 // of one memory, with its frame
	inner := width - 2
	slots := p.layout.Slots()
	per := (slots + inner*maxRows - 1) / (inner * maxRows)
	// Both memories slot by slot, drawn cell by cell.
	source, target := p.cells(p.layout.SourceSlot, nil, per), p.cells(p.layout.TargetSlots(), p.PageOK, per)

	scattered := fmt.Sprintf("where seed %d scatters them", p.layout.Seed)
	if p.layout.Seed == 0 {
		scattered = "in the same places"
	}
	keeps := "symbol; . is free"
	if p.Colour {
		keeps = "colour"
	}
	p.text(fmt.Sprintf("%d pages of %v: every %s page of %s's memory is written into %s's, %s. A cell is %s; a page keeps its %s.",
		p.layout.Pages, Bytes(p.layout.PageSize), ordinal(p.layout.Stride), p.From, p.To, scattered, cellIs(per), keeps))
	p.line()
	gap := "   "
	span := Bytes(p.layout.Span())
	p.line(fmt.Sprintf("%-*s", width+len(gap), fmt.Sprintf(" %s, %v", p.From, span)), fmt.Sprintf(" %s, %v", p.To, span))
	frame := p.frame(width)
	p.line(frame[0], gap, frame[0])
	step := inner
	if p.Colour {
		step = 2 * inner // two rows of cells in one of characters
	}
	for at := 0; at < len(source); at += step {
		p.line(p.row(source, at, inner), gap, p.row(target, at, inner))
	}
	p.line(frame[1], gap, frame[1])
}

// cells lays the pages out, per slots to a cell.
func (p *picture) cells(slot func(int) int, ok []bool, per int) []cell {
	cells := slices.Repeat([]cell{free}, (p.layout.Slots()+per-1)/per)
	for page := range p.layout.Pages {
		at := &cells[slot(page)/per]
		switch {
		case ok != nil && (page >= len(ok) || !ok[page]):
			*at = bad
		case *at == free:
			*at = cell(page)
		}
	}
	return cells
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "1st"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", n)
}

func cellIs(per int) string {
	if per == 1 {
		return "a page"
	}
	return fmt.Sprintf("%d pages", per)
}

func (p *picture) frame(width int) [2]string {
	if p.Colour {
		bar := strings.Repeat("─", width-2)
		return [2]string{"┌" + bar + "┐", "└" + bar + "┘"}
	}
	bar := "+" + strings.Repeat("-", width-2) + "+"
	return [2]string{bar, bar}
}

func (p *picture) row(cells []cell, at, width int) string {
	get := func(i int) cell {
		if i < len(cells) {
			return cells[i]
		}
		return none
	}
	if !p.Colour {
		row := make([]byte, width)
		for i := range row {
			row[i] = p.symbol(get(at + i))
		}
		return "|" + string(row) + "|"
	}
	var b strings.Builder
	b.WriteString("│")
	last := ""
	for i := range width {
		upper, lower := get(at+i), get(at+width+i)
		paint := fmt.Sprintf("\x1b[38;5;%d;48;5;%dm", p.hue(upper), p.hue(lower))
		if upper == none {
			paint = "\x1b[0m"
		} else if lower == none {
			paint = fmt.Sprintf("\x1b[0;38;5;%dm", p.hue(upper))
		}
		if paint != last {
			b.WriteString(paint)
			last = paint
		}
		if upper == none {
			b.WriteByte(' ')
		} else {
			b.WriteString("▀")
		}
	}
	b.WriteString("\x1b[0m│")
	return b.String()
}

const symbols = "0123456789abcdefghijklmnopqrstuvwxyz"

func (p *picture) symbol(c cell) byte {
	switch c {
	case none:
		return ' '
	case free:
		return '.'
	case bad:
		return 'X'
	}
	return symbols[int(c)*len(symbols)/p.layout.Pages]
}

// hues run once round the colour circle of the 256-colour palette.
var hues = []int{
	197, 203, 209, 215, 221, 227, 191, 155, 119, 83, 48, 50,
	45, 39, 33, 63, 99, 135, 171, 207,
}

func (p *picture) hue(c cell) int {
	switch c {
	case none:
		return 0
	case free:
		return 236
	case bad:
		return 231
	}
	return hues[int(c)*len(hues)/p.layout.Pages]
}
