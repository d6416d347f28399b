package collective

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"github.com/peerdirect/peerdirect/internal/textwrap"
	"github.com/peerdirect/peerdirect/transfer/report"
)

// The picture, in pixels: for each operation a panel of the paths' bus bandwidth and
// one of the direct path's efficiency, and the verdict below.
const (
	pictureWidth = 960
	panelTop     = 56 // below the title
	panelHeight  = 250
	panelWidth   = 360
	leftPanel    = 70
	rightPanel   = 540
	panelStep    = 350
	legendWidth  = 106
	lineHeight   = 17
	textColumns  = 132
)

// hues are lines' colours: of paths in their order, and of numbers of nodes. They
// differ in lightness as well.
var hues = []string{"#0b5fa5", "#d9822b", "#2f8f5b", "#8a8a8a", "#7b4ea3", "#b0413e"}

// SVG draws a report.
func SVG(r *Report) []byte {
	type line struct {
		indent      int
		style, text string
	}
	var verdict []line
	for _, f := range r.Verdict {
		about := f.Operation
		if about == "" {
			about = "nodes"
		}
		style := `fill="#222222"`
		if f.Falls {
			style = `fill="#b0413e"`
		}
		for i, l := range textwrap.Lines(fmt.Sprintf("%s, %s: %s.", about, f.About, f.Text), textColumns) {
			verdict = append(verdict, line{min(i, 1) * 16, style, l})
		}
	}
	conditionLines := textwrap.Lines(conditions(r.Conditions), textColumns)
	textTop := panelTop + panelStep*len(r.Conditions.Operations) + 8
	height := textTop + lineHeight*(len(verdict)+len(conditionLines)+3)
	d := &drawing{}
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		pictureWidth, height, pictureWidth, height)
	d.line(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	d.text(leftPanel-50, 24, `font-size="17" font-weight="bold"`, "peerdirect bench collective")
	most := lastOf(r.Conditions.Nodes)
	for i, op := range r.Conditions.Operations {
		top := panelTop + panelStep*i
		left := panel{x: leftPanel, y: top + 28, sizes: r.Conditions.Bytes, title: fmt.Sprintf("%s, %d nodes: bus bandwidth, GB/s", op, most)}
		for k, path := range paths {
			left.curves = append(left.curves, r.curve(path, hues[k], func(size uint64) (float64, bool) {
				m := r.find(op, path, most, size)
				return valueOf(m, func(m *Measurement) float64 { return m.BusGBs })
			}))
		}
		left.draw(d)
		right := panel{x: rightPanel, y: top + 28, sizes: r.Conditions.Bytes, percent: true,
			title: fmt.Sprintf("%s, direct: efficiency, of %d nodes'", op, r.Conditions.Nodes[0])}
		for k, nodes := range r.Conditions.Nodes {
			right.curves = append(right.curves, r.curve(fmt.Sprintf("%d nodes", nodes), hues[k%len(hues)], func(size uint64) (float64, bool) {
				m := r.find(op, Direct, nodes, size)
				return valueOf(m, func(m *Measurement) float64 { return 100 * m.Efficiency })
			}))
		}
		right.draw(d)
	}
	y := textTop
	d.text(leftPanel-50, y, `font-weight="bold"`, "Verdict")
	for _, l := range verdict {
		y += lineHeight
		d.text(leftPanel-50+l.indent, y, l.style, l.text)
	}
	y += lineHeight / 2
	for _, l := range conditionLines {
		y += lineHeight
		d.text(leftPanel-50, y, `fill="#555555"`, l)
	}
	d.line("</svg>")
	return d.b.Bytes()
}

func valueOf(m *Measurement, f func(*Measurement) float64) (float64, bool) {
	if m == nil {
		return 0, false
	}
	return f(m), true
}

// curve is a line of a panel.
type curve struct {
	name, hue string
	values    []float64 // by size; NaN where there is none
}

func (r *Report) curve(name, hue string, at func(uint64) (float64, bool)) curve {
	c := curve{name: name, hue: hue}
	for _, size := range r.Conditions.Bytes {
		v, ok := at(size)
		if !ok {
			v = math.NaN()
		}
		c.values = append(c.values, v)
	}
	return c
}

type drawing struct{ b bytes.Buffer }

func (d *drawing) line(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) text(x, y int, style, s string) {
	fmt.Fprintf(&d.b, `<text x="%d" y="%d" %s>`, x, y, style)
	xml.EscapeText(&d.b, []byte(s))
	d.b.WriteString("</text>\n")
}

// panel is a diagram whose sizes are at equal distances.
type panel struct {
	x, y    int
	title   string
	sizes   []uint64
	percent bool
	curves  []curve
}

func (p panel) draw(d *drawing) {
	top := 0.0
	for _, c := range p.curves {
		for _, v := range c.values {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	if p.percent {
		top = min(max(top, 100), 200)
	}
	step := tick(top)
	top = math.Ceil(top/step) * step
	d.text(p.x, p.y-10, `font-weight="bold"`, p.title)
	at := func(i int) float64 {
		return float64(p.x) + (float64(i)+0.5)*panelWidth/float64(len(p.sizes))
	}
	height := func(v float64) float64 { return float64(p.y) + panelHeight*(1-min(v, top)/top) }
	for v := 0.0; v <= top*1.0001; v += step {
		d.line(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`, p.x, height(v), p.x+panelWidth, height(v))
		label := fmt.Sprintf("%.4g", v)
		if p.percent {
			label += "%"
		}
		d.text(p.x-8, int(height(v))+4, `text-anchor="end" fill="#555555"`, label)
	}
	every := (len(p.sizes) + 6) / 7
	for i, size := range p.sizes {
		if i%every == 0 {
			d.text(int(at(i)), p.y+panelHeight+18, `text-anchor="middle" fill="#555555"`, report.Bytes(size).String())
		}
	}
	for k, c := range p.curves {
		var points []string
		for i, v := range c.values {
			if !math.IsNaN(v) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", at(i), height(v)))
				d.line(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, at(i), height(v), c.hue)
			}
		}
		d.line(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), c.hue)
		x, y := p.x+k%4*legendWidth, p.y+panelHeight+40+k/4*lineHeight
		d.line(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"/>`, x, y-4, x+16, y-4, c.hue)
		d.text(x+20, y, `fill="#222222"`, c.name)
	}
}

// tick is a distance of lines that divides a range into some.
func tick(top float64) float64 {
	if top <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top)))
	switch {
	case top/step < 2:
		return step / 4
	case top/step < 5:
		return step / 2
	}
	return step
}
