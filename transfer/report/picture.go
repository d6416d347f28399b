package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// Style is what a picture is drawn for.
type Style struct {
	Columns int  // of the terminal; 60 at least are used
	Colour  bool // a terminal: colours, block characters. Else plain ASCII.
}

// Sides is a transfer as both of its sides know it.
type Sides struct {
	From, To string // the machines' names
	Sent     *pages.Result
	Received *pages.Result
	PageOK   []bool // the receiver's check of every page
}

// Picture draws both memories, the path between them, and how it went. A page
// has the same symbol, or colour, where it came from and where it came to.
func Picture(w io.Writer, s Sides, style Style) error {
	c := s.Sent.Conditions
	p := &picture{Sides: s, Style: style}
	p.Columns = min(max(style.Columns, 60), 120)
	p.layout = pages.Layout{
		PageSize: c.PageSize, Pages: c.PagesEach, Stride: c.Stride / max(c.PageSize, 1), Seed: c.Seed,
	}
	if err := p.layout.Validate(); err != nil {
		return err
	}
	p.memories()
	p.path()
	p.rates()
	p.latencies()
	p.verdict()
	_, err := io.WriteString(w, p.b.String())
	return err
}

type picture struct {
	Sides
	Style
	layout pages.Layout
	b      strings.Builder
}

func (p *picture) line(parts ...string) {
	p.b.WriteString(strings.TrimRight(strings.Join(parts, ""), " "))
	p.b.WriteByte('\n')
}

func (p *picture) text(s string) {
	for _, l := range textwrap.Lines(s, p.Columns) {
		p.line(l)
	}
}

// note writes a text below what has a label.
func (p *picture) note(indent int, s string) {
	for _, l := range textwrap.Lines(s, p.Columns-indent) {
		p.line(strings.Repeat(" ", indent), l)
	}
}

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

// path draws the way that the bytes took, and what went by the other.
func (p *picture) path() {
	from, to := p.Sent.Conditions, p.Received.Conditions
	ends := func(sends, receives string) (left, right string, room int) {
		left = fmt.Sprintf("%s memory -> %s ", p.From, sends)
		right = fmt.Sprintf(" %s -> %s memory", receives, p.To)
		return left, right, p.Columns - len(left) - len(right)
	}
	left, right, room := ends(from.Device, to.Device)
	if room < 12 && from.NICs > 1 {
		left, right, room = ends(fmt.Sprintf("%d NICs", from.NICs), fmt.Sprintf("%d NICs", to.NICs))
	}
	label := ""
	for _, try := range []string{
		fmt.Sprintf(" %d RDMA WRITEs, %v, %s ", p.Sent.Writes, Bytes(p.Sent.Bytes), from.Transport),
		fmt.Sprintf(" %d RDMA WRITEs, %s ", p.Sent.Writes, from.Transport),
		fmt.Sprintf(" %d RDMA WRITEs ", p.Sent.Writes),
		fmt.Sprintf(" %d WRITEs ", p.Sent.Writes),
	} {
		if len(try)+4 <= room {
			label = try
			break
		}
	}
	bars := max(room-len(label)-1, 3)
	p.line()
	p.line(left, strings.Repeat("=", bars/2), label, strings.Repeat("=", bars-bars/2), ">", right)
	through := "TCP"
	if from.Transport == "iWARP" {
		through = "the control connection (iWARP itself is the kernel's, on TCP)"
	}
	if n := p.Sent.LinkSent + p.Sent.LinkReceived; n > 0 {
		p.text(fmt.Sprintf("Software devices of two processes: the pages went through their link's TCP connection, %d bytes in all. %d done notices by %s.",
			n, p.Received.Notices, noticesBy(from.Transport)))
		return
	}
	p.text(fmt.Sprintf("0 bytes of pages through %s: its connection carried %d bytes, to connect. %d done notices by %s.",
		through, p.Sent.ControlSent+p.Sent.ControlReceived, p.Received.Notices, noticesBy(from.Transport)))
}

func noticesBy(transport string) string {
	if transport == "iWARP" {
		return "SEND"
	}
	return "immediate"
}

// rates draws the speed over time.
func (p *picture) rates() {
	r := p.Sent.Rate
	const label = "rate     "
	width := p.Columns - len(label)
	levels := resample(r.Bytes, width)
	peak := 0.0
	for _, v := range levels {
		peak = max(peak, v)
	}
	if peak == 0 {
		return
	}
	ramp := []rune(" .:-=+*#%@")
	if p.Colour {
		ramp = []rune(" ▁▂▃▄▅▆▇█")
	}
	var b strings.Builder
	for _, v := range levels {
		b.WriteRune(ramp[int(v/peak*float64(len(ramp)-1)+0.5)])
	}
	p.line()
	p.line(label, p.paint("36", b.String()))
	p.note(len(label), fmt.Sprintf("over %s; mean %v/s (%.3g Gbit/s), peak %v/s",
		micros(r.Interval*float64(len(r.Bytes))*1e6), Bytes(p.Sent.PerSecond), p.Sent.Gbit, Bytes(peak/r.Interval)))
}

// resample spreads values over so many columns, as means.
func resample(values []uint64, columns int) []float64 {
	out := make([]float64, columns)
	for i := range out {
		from, to := float64(i)*float64(len(values))/float64(columns), float64(i+1)*float64(len(values))/float64(columns)
		for k := int(from); k < len(values) && float64(k) < to; k++ {
			share := min(float64(k+1), to) - max(float64(k), from)
			out[i] += float64(values[k]) * share / (to - from)
		}
	}
	return out
}

func (p *picture) latencies() {
	l := p.Sent.Latency
	if l == nil {
		return
	}
	const label = "latency  "
	bar := "#"
	if p.Colour {
		bar = "█"
	}
	for i, v := range []struct {
		name string
		us   float64
	}{{"p50", l.P50}, {"p90", l.P90}, {"p99", l.P99}, {"max", l.Max}} {
		head := strings.Repeat(" ", len(label))
		if i == 0 {
			head = label
		}
		room := p.Columns - len(label) - 14
		p.line(head, fmt.Sprintf("%-4s%8s  ", v.name, micros(v.us)), p.paint("33", strings.Repeat(bar, max(1, int(v.us/l.Max*float64(room))))))
	}
	p.note(len(label), fmt.Sprintf("of %d batches of %d writes, from the first posting to the notice", l.Count, p.Sent.Conditions.Batch))
}

func (p *picture) verdict() {
	p.line()
	p.text(p.conditions() + p.kinds())
	good := 0
	for _, ok := range p.PageOK {
		if ok {
			good++
		}
	}
	verdict, colour := "verified", "1;32"
	if good != p.layout.Pages || !p.Received.Verified || !p.Sent.Verified {
		verdict, colour = "NOT verified", "1;31"
		defer p.text(fmt.Sprintf("The pages that differ (%s above) begin with %v.", p.badIs(), p.Received.Bad[:min(len(p.Received.Bad), 8)]))
	}
	lines := textwrap.Lines(fmt.Sprintf("%s: %d of %d pages in %s's memory have the CRC-32C that %s computed before it sent them.",
		verdict, good, p.layout.Pages, p.To, p.From), p.Columns)
	for _, l := range lines {
		p.line(p.paint(colour, l))
	}
}

// kinds says what memory it was, where that is not the processes' own.
func (p *picture) kinds() string {
	c := p.Sent.Conditions
	if c.Memory == transfer.HostMemory && c.PeerMemory == transfer.HostMemory || c.Memory == "" {
		return ""
	}
	return fmt.Sprintf(" From %s memory to %s memory.", c.Memory, c.PeerMemory)
}

// conditions says what it ran on.
func (p *picture) conditions() string {
	c := p.Received.Conditions
	nics := ""
	if c.NICs > 1 {
		nics = fmt.Sprintf(" (%d NICs)", c.NICs)
	}
	if c.Embedded {
		return fmt.Sprintf("Software EFA devices inside this process, no driver and no hardware: %s%s on each side, %s, %s; linux %s.",
			c.Device, nics, c.Transport, path(c), c.Kernel)
	}
	mtu := ""
	if c.Transport != "iWARP" { // which goes by TCP's
		mtu = fmt.Sprintf(", path MTU %d", c.MTU)
	}
	how := ""
	if c.Transport == "EFA SRD" {
		how = ", " + path(c)
		how, _, _ = strings.Cut(how, ":") // the text and JSON forms have the reason
	}
	return fmt.Sprintf("linux %s, %s%s port %d, %s%s%s, on both; %s to %s.", c.Kernel, c.Device, nics, c.Port, c.Transport, mtu, how,
		p.Sent.Conditions.Local, p.Sent.Conditions.Remote)
}

func (p *picture) badIs() string {
	if p.Colour {
		return "white"
	}
	return "X"
}

func (p *picture) paint(colour, s string) string {
	if !p.Colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
