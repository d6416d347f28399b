package tracereport

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// The picture's measures, in SVG units.
const (
	heatWidth   = 960
	heatLeft    = 78 // where the plots begin
	heatRight   = 20
	heatTop     = 64
	heatBand    = 9  // height of a half octave
	heatBetween = 50 // between two plots: the axis of time and the next one's name
	heatShades  = 8
)

// WriteSVG draws the map until a moment: time to the right, durations upwards by
// octaves, a panel for each sort of what is counted; the colour tells how many, by
// their logarithm, as the legend says. It is one picture for light and dark screens,
// refers to nothing outside itself, and the same counts give the same bytes.
func (h *Heat) WriteSVG(w io.Writer, title string, until time.Time) error {
	b := bufio.NewWriter(w)
	names := h.order
	low, high, most := h.extent()
	plot := (high - low) * heatBand
	height := heatTop + max(len(names), 1)*(plot+heatBetween) + 40
	if len(names) == 0 {
		height = heatTop + 40
	}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", heatWidth, height)
	fmt.Fprintf(b, "<title>%s</title>\n<style>%s</style>\n", xmlText(title), heatStyle)
	fmt.Fprintf(b, `<rect class="page" width="%d" height="%d"/>`+"\n", heatWidth, height)
	fmt.Fprintf(b, `<text x="%d" y="26" class="t">%s</text>`+"\n", heatRight, xmlText(title))
	fmt.Fprintf(b, `<text x="%d" y="44" class="q">from %s, %v, a column is %v</text>`+"\n", heatRight,
		h.began.UTC().Format("2006-01-02 15:04:05 MST"), until.Sub(h.began).Round(time.Millisecond), h.step)
	span := max(until.Sub(h.began), h.step)
	for i, name := range names {
		h.drawPanel(b, name, heatTop+i*(plot+heatBetween)+18, low, high, most, span)
	}
	if len(names) == 0 {
		fmt.Fprintf(b, `<text x="%d" y="%d">no %s were seen</text>`+"\n", heatRight, heatTop+10, h.counted)
	} else {
		drawLegend(b, h.counted, height-22, most)
	}
	b.WriteString("</svg>\n")
	return b.Flush()
}

// extent gives the bands that are drawn, whole octaves, and the largest count.
func (h *Heat) extent() (low, high int, most uint64) {
	low, high = math.MaxInt, 0
	for _, p := range h.panels {
		for _, bands := range p.columns {
			for band, n := range bands {
				if n > 0 {
					low, high, most = min(low, band), max(high, band+1), max(most, n)
				}
			}
		}
	}
	if most == 0 {
		return 0, 2, 0
	}
	return low &^ 1, (high + 1) &^ 1, most
}

func (h *Heat) drawPanel(b *bufio.Writer, name string, top, low, high int, most uint64, span time.Duration) {
	const width = heatWidth - heatLeft - heatRight
	plot := (high - low) * heatBand
	x := func(at time.Duration) float64 {
		return heatLeft + width*math.Min(float64(at)/float64(span), 1)
	}
	p := h.panels[name]
	var all uint64
	for _, bands := range p.columns {
		for _, n := range bands {
			all += n
		}
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" class="h">%s</text><text x="%d" y="%d" class="q e">%d %s</text>`+"\n",
		heatLeft, top-6, xmlText(name), heatWidth-heatRight, top-6, all, h.counted)
	fmt.Fprintf(b, `<rect class="plot" x="%d" y="%d" width="%d" height="%d"/>`+"\n", heatLeft, top, width, plot)
	for c, gap := range h.gaps {
		if gap && (c == 0 || !h.gaps[c-1]) {
			end := c
			for end < len(h.gaps) && h.gaps[end] {
				end++
			}
			from, to := x(time.Duration(c)*h.step), x(time.Duration(end)*h.step)
			fmt.Fprintf(b, `<rect class="gap" x="%.1f" y="%d" width="%.1f" height="%d"><title>nothing was traced</title></rect>`+"\n", from, top, to-from, plot)
		}
	}
	for band := low; band < high; band++ {
		y := top + (high-1-band)*heatBand
		for c := 0; c < len(p.columns); {
			s, end := shade(p.at(c, band), most), c+1
			for end < len(p.columns) && shade(p.at(end, band), most) == s {
				end++
			}
			if s > 0 {
				from, to := x(time.Duration(c)*h.step), x(time.Duration(end)*h.step)
				fmt.Fprintf(b, `<rect class="s%d" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", s, from, y, to-from, heatBand)
			}
			c = end
		}
	}
	h.drawAxes(b, top, low, high, span, x)
}

func (h *Heat) drawAxes(b *bufio.Writer, top, low, high int, span time.Duration, x func(time.Duration) float64) {
	bottom := top + (high-low)*heatBand
	every := 2 // bands: a label an octave
	for (high-low)/every > 12 {
		every *= 2
	}
	for band := low; band <= high; band += every {
		y := top + (high-band)*heatBand
		fmt.Fprintf(b, `<path class="grid" d="M%d %d h%d"/><text class="q e" x="%d" y="%d">%s</text>`+"\n",
			heatLeft-4, y, heatWidth-heatRight-heatLeft+4, heatLeft-8, y+4, Duration(bandLow(band)))
	}
	step := tick(span)
	for at := time.Duration(0); at <= span; at += step {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %d v4"/><text class="q m" x="%.1f" y="%d">%s</text>`+"\n", x(at), bottom, x(at), bottom+16, tickText(at, step))
	}
}

// at gives a count.
func (p *heatPanel) at(column, band int) uint64 {
	if band < len(p.columns[column]) {
		return p.columns[column][band]
	}
	return 0
}

// shade gives a count's colour, 1 to heatShades by its logarithm; 0 is none.
func shade(n, most uint64) int {
	if n == 0 {
		return 0
	}
	if most < 2 {
		return heatShades
	}
	return 1 + int(math.Round(float64(heatShades-1)*math.Log(float64(n))/math.Log(float64(most))))
}

func drawLegend(b *bufio.Writer, counted string, y int, most uint64) {
	fmt.Fprintf(b, `<text class="q" x="%d" y="%d">%s:</text>`+"\n", heatLeft, y+10, counted)
	position, last := heatLeft+44, uint64(0)
	for s := 1; s <= heatShades; s++ {
		// The largest count of a shade: the border to the next is half-way between logarithms.
		to := most
		if s < heatShades {
			to = uint64(math.Pow(float64(most), (float64(s)-0.5)/(heatShades-1)))
		}
		if to <= last || s < heatShades && shade(to, most) != s {
			continue
		}
		text := fmt.Sprintf("%d–%d", last+1, to)
		if last+1 == to {
			text = fmt.Sprint(to)
		}
		fmt.Fprintf(b, `<rect class="s%d" x="%d" y="%d" width="12" height="12"/><text class="q" x="%d" y="%d">%s</text>`+"\n", s, position, y, position+16, y+10, text)
		position += 30 + 7*len([]rune(text))
		last = to
	}
}

// tick is how far labels of time are apart: not more than 10 of them.
func tick(span time.Duration) time.Duration {
	for _, step := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		if span <= 10*step {
			return step
		}
	}
	days := span/(10*24*time.Hour) + 1
	return days * 24 * time.Hour
}

func tickText(at, step time.Duration) string {
	switch {
	case at == 0:
		return "0"
	case step >= time.Hour:
		return fmt.Sprintf("%d h", at/time.Hour)
	case step >= time.Minute:
		return fmt.Sprintf("%d min", at/time.Minute)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", at.Seconds()), "0"), ".") + " s"
}

var xmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// xmlText is a printable name as XML wants it.
func xmlText(s string) string { return xmlEscaper.Replace(Name(s)) }

// heatStyle has colours whose lightness rises or falls evenly, so that they are in
// order for readers who see few hues, and on paper.
const heatStyle = `
text{font:12px Helvetica,Arial,"Liberation Sans","DejaVu Sans",sans-serif}
.t{font-size:17px;font-weight:bold}.h{font-weight:bold}.e{text-anchor:end}.m{text-anchor:middle}
path{fill:none;stroke-width:1}
.page{fill:#ffffff}text{fill:#17202b}.q{fill:#566273}.plot{fill:#f3f5f8}.gap{fill:#c3cad4}.grid{stroke:#8793a3;stroke-opacity:.35}
.s1{fill:#d3e3f5}.s2{fill:#b3cfec}.s3{fill:#8fb8e0}.s4{fill:#699fd2}.s5{fill:#4683c0}.s6{fill:#2b67a8}.s7{fill:#174b88}.s8{fill:#082f61}
@media screen and (prefers-color-scheme:dark){
.page{fill:#10151c}text{fill:#eef2f6}.q{fill:#a9b5c4}.plot{fill:#1a212b}.gap{fill:#3c4859}.grid{stroke:#93a1b3}
.s1{fill:#1b3a5e}.s2{fill:#22507f}.s3{fill:#2c68a3}.s4{fill:#4083c4}.s5{fill:#609fdb}.s6{fill:#88bbec}.s7{fill:#b4d6f7}.s8{fill:#e4f2ff}
}
`
