package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// Style is what a picture is drawn for.
type Style struct {
	Columns int  // of the terminal; LeastColumns are used where it has fewer
	Colour  bool // a terminal: colours, block characters. Else plain ASCII.
}

// Sides is a transfer as both of its sides know it.
type Sides struct {
	From, To string // the machines' names
	Sent     *pages.Result
	Received *pages.Result
	PageOK   []bool // the receiver's check of every page
}

// LeastColumns is the width that a picture takes at least.
const LeastColumns = 60

// Picture draws both memories, the path between them, and how it went. A page
// has the same symbol, or colour, where it came from and where it came to.
func Picture(w io.Writer, s Sides, style Style) error {
	c := s.Sent.Conditions
	p := &picture{Sides: s, Style: style}
	p.Columns = min(max(style.Columns, LeastColumns), 120)
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
