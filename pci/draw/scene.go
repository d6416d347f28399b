package draw

import (
	"bufio"
	"strconv"
	"strings"
)

// scene is what is drawn: wires below, boxes over them, each with its own lines of
// text.
type scene struct {
	height float64
	boxes  []box
	wires  []wire
}

// box is a rectangle with text inside; class is its look in the style sheet.
type box struct {
	x, y, w, h float64
	round      float64
	class      string
	tip        string // what a pointer over the box shows
	lines      []line
}

// line is one line of text; x and y are its baseline's start, or its end if right.
type line struct {
	x, y  float64
	size  float64
	bold  bool
	right bool
	class string
	text  string
}

// wire is a line from one point to another.
type wire struct {
	x1, y1, x2, y2 float64
	class          string
}

func (s *scene) box(b box) { s.boxes = append(s.boxes, b) }

func (s *scene) wire(x1, y1, x2, y2 float64, class string) {
	s.wires = append(s.wires, wire{x1, y1, x2, y2, class})
}

// write writes the whole file. Frames come first, then wires, then what lies on them.
func (s *scene) write(w *bufio.Writer, scheme Scheme) {
	h := number(s.height)
	width := strconv.Itoa(Width)
	w.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ` + width + ` ` + h +
		`" width="` + width + `" height="` + h + `" role="img">` + "\n")
	if len(s.boxes) > 0 {
		w.WriteString("<title>" + escape(s.boxes[0].tip) + "</title>\n")
	}
	w.WriteString("<style>\n" + sheet(scheme) + "</style>\n")
	w.WriteString(`<rect class="page" width="` + width + `" height="` + h + `"/>` + "\n")
	for _, b := range s.boxes {
		if isFrame(b.class) {
			b.write(w)
		}
	}
	for _, l := range s.wires {
		w.WriteString(`<path class="` + l.class + `" d="M` + number(l.x1) + ` ` + number(l.y1))
		switch {
		case l.y1 == l.y2:
			w.WriteString(`H` + number(l.x2))
		case l.x1 == l.x2:
			w.WriteString(`V` + number(l.y2))
		default:
			w.WriteString(`L` + number(l.x2) + ` ` + number(l.y2))
		}
		w.WriteString("\"/>\n")
	}
	for _, b := range s.boxes {
		if !isFrame(b.class) {
			b.write(w)
		}
	}
	w.WriteString("</svg>\n")
}

func isFrame(class string) bool { return strings.HasPrefix(class, "frame") }

func (b *box) write(w *bufio.Writer) {
	w.WriteString(`<g class="` + b.class + `">`)
	if b.tip != "" {
		w.WriteString("<title>" + escape(b.tip) + "</title>")
	}
	w.WriteString(`<rect x="` + number(b.x) + `" y="` + number(b.y) + `" width="` + number(b.w) + `" height="` + number(b.h) + `"`)
	if b.round > 0 {
		w.WriteString(` rx="` + number(b.round) + `"`)
	}
	w.WriteString("/>")
	for _, l := range b.lines {
		if l.text == "" {
			continue
		}
		w.WriteString(`<text x="` + number(l.x) + `" y="` + number(l.y) + `" font-size="` + number(l.size) + `"`)
		if l.class != "" {
			w.WriteString(` class="` + l.class + `"`)
		}
		if l.bold {
			w.WriteString(` font-weight="bold"`)
		}
		if l.right {
			w.WriteString(` text-anchor="end"`)
		}
		w.WriteString(">" + escape(l.text) + "</text>")
	}
	w.WriteString("</g>\n")
}

// number spells a length with at most one digit behind the point.
func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}
