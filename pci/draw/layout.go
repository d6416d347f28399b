package draw

import (
	"math"
	"strconv"
)

// Lengths in SVG units.
const (
	margin   = 16.0
	gap      = 10.0 // between frames
	pad      = 6.0  // inside a frame
	indent   = 12.0 // from a bar's left to what hangs below
	between  = 4.0  // boxes of a row
	small    = 11.0 // letters
	normal   = 12.0
	barH     = 22.0
	captionH = 17.0
	stubH    = 9.0
	lineH    = 13.0
	perRow   = 4     // boxes of a group that a narrow column has room for, at least
	widest   = 460.0 // of a root complex that has a row for itself
)

// natural is the width of n boxes in a row.
func natural(n int, least float64) float64 { return float64(n)*(least+between) - between }

// desired is the width at which a container looks best.
func (pl *plan) desired(c *container) float64 {
	width := 112.0
	for _, g := range c.groups {
		least, _ := pl.boxSpace(g)
		width = max(width, min(natural(min(g.boxes(), perRow), least), 380)+indent,
			min(pl.captionWidth(g), 220)+indent)
	}
	sum := 0.0
	for _, s := range c.subs {
		d := pl.desired(s)
		width = max(width, d+c.inset())
		sum += d + gap
	}
	if sum > 0 && sum-gap+indent <= 460 {
		width = max(width, sum-gap+indent)
	}
	return width
}

// inset is how far to the right of the bar its content is.
func (c *container) inset() float64 {
	if len(c.subs) == 1 && len(c.groups) == 0 {
		return 0
	}
	return indent
}

// place draws what hangs below a bar that ends at y, and gives where it ends.
func (pl *plan) place(s *scene, c *container, x, y, w float64) float64 {
	if c.inset() == 0 {
		return pl.sub(s, c.subs[0], x, y, w)
	}
	top, trunk, bus := y, x+indent/2-1, y
	x, w = x+indent, w-indent
	for i := 0; i < len(c.groups); {
		n := pl.fits(c.groups[i:], w)
		bus, y = pl.row(s, c.groups[i:i+n], trunk, x, y, w)
		i += n
	}
	for i := 0; i < len(c.subs); {
		n := pl.fitSubs(c.subs[i:], w)
		each := (w - gap*float64(n-1)) / float64(n)
		y += 6
		bus = y
		end := y
		for j, sub := range c.subs[i : i+n] {
			left := x + float64(j)*(each+gap)
			end = max(end, pl.sub(s, sub, left, y, each))
			s.wire(trunk, y, left+stubX, y, "trunk")
		}
		y = end
		i += n
	}
	if bus > top {
		s.wire(trunk, top, trunk, bus+0.75, "trunk")
	}
	return y
}

// stubX is where the wire into a bar is, from its left.
const stubX = 14.0

// space is what a group needs for its boxes in one row, and its caption.
func (pl *plan) space(g *group) float64 {
	least, _ := pl.boxSpace(g)
	return max(natural(g.boxes(), least), min(pl.captionWidth(g), 100))
}

// fits is how many groups go side by side.
func (pl *plan) fits(groups []*group, w float64) int {
	used := 0.0
	for i, g := range groups {
		if used += pl.space(g); i > 0 && used > w {
			return i
		}
		used += gap
	}
	return len(groups)
}

func (pl *plan) fitSubs(subs []*container, w float64) int {
	used := 0.0
	for i, s := range subs {
		if used += pl.desired(s); i > 0 && used > w {
			return i
		}
		used += gap
	}
	return len(subs)
}

// row draws groups side by side below y: captions, the bus, boxes on stubs. It gives
// where the last bus and the row end.
func (pl *plan) row(s *scene, groups []*group, trunk, x, y, w float64) (bus, end float64) {
	first := y + captionH + 3
	bus, end = first, first
	more, short := pl.spare(groups, w)
	for i, g := range groups {
		least, most := pl.boxSpace(g)
		n := g.boxes()
		columns := max(1, min(n, int((w+between)/(least+between))))
		if rows := (n + columns - 1) / columns; rows > 1 { // rows of like length
			columns = (n + rows - 1) / rows
		}
		width, space := min(least+more, most), w
		if len(groups) == 1 {
			width = min(most, (w+between)/float64(columns)-between)
		} else {
			space = max(min(pl.space(g)+short, pl.captionWidth(g)), natural(n, width))
		}
		width = min(width, w)
		text := w // the last caption may be longer than its boxes
		if i < len(groups)-1 {
			text = min(space, w)
		}
		s.box(box{x: x, y: y + 3, w: text, h: captionH - 2, class: "plain", lines: []line{
			{x: x, y: y + captionH - 2, size: small, class: "q", text: pl.caption(g, text)}}})
		at := first
		for k := 0; k < n; k += columns {
			bottom := at
			for j := k; j < min(n, k+columns); j++ {
				left := x + float64(j-k)*(width+between)
				s.wire(left+width/2, at, left+width/2, at+stubH, wireClass(g.links[j]))
				bottom = max(bottom, pl.device(s, g, j, left, at+stubH, width))
			}
			last := min(n-k, columns) - 1
			s.wire(trunk, at, x+float64(last)*(width+between)+width/2, at, "trunk")
			bus = max(bus, at)
			end = max(end, bottom)
			at = bottom + 5
		}
		x += space + gap
		w -= space + gap
	}
	return bus, end
}

// spare is by how much boxes and captions side by side can be wider than they must
// be: what captions lack comes first.
func (pl *plan) spare(groups []*group, w float64) (box, caption float64) {
	fits := func(box, caption float64) bool {
		used := gap * float64(len(groups)-1)
		for _, g := range groups {
			least, most := pl.boxSpace(g)
			used += max(pl.space(g), min(pl.space(g)+caption, pl.captionWidth(g)), natural(g.boxes(), min(least+box, most)))
		}
		return used <= w
	}
	most := func(fits func(float64) bool) float64 {
		low, high := 0.0, w
		for range 12 {
			if middle := (low + high) / 2; fits(middle) {
				low = middle
			} else {
				high = middle
			}
		}
		return math.Floor(low)
	}
	caption = most(func(v float64) bool { return fits(0, v) })
	return most(func(v float64) bool { return fits(v, caption) }), caption
}

// sub draws a switch or bridge on the link that leads to it from y, and what is below.
func (pl *plan) sub(s *scene, c *container, x, y, w float64) float64 {
	link := linkText(c.link)
	height := 10.0
	if link != "" {
		height = 16
		s.box(box{x: x + stubX + 8, y: y + 2, w: w - stubX - 8, h: 13, class: "plain", lines: []line{
			{x: x + stubX + 8, y: y + 12, size: small, class: slowness(c.link), text: clip(link, w-stubX-8, small, false)}}})
	}
	s.wire(x+stubX, y, x+stubX, y+height, wireClass(c.link))
	y += height
	pl.bar(s, c, x, y, w)
	return pl.place(s, c, x, y+barH, w)
}

// bar draws a container's own box.
func (pl *plan) bar(s *scene, c *container, x, y, w float64) {
	name, more, tip := "", "", ""
	switch {
	case c.device == nil && c.root == nil:
		name, tip = "no root complex", "what no root complex leads to"
	case c.device == nil:
		name, more, tip = c.root.Name, "root complex", c.root.Name+", root complex"
		if c.root.Path != "" && c.root.Path != c.root.Name {
			tip += ", " + c.root.Path
		}
	default:
		name, more, tip = "bridge "+pl.address(c.device.Address), model(c.device), pl.tip(c.device, c.link)
		if c.ports > 0 {
			name = "switch " + pl.address(c.device.Address)
			if c.ports > 1 {
				tip += ", " + strconv.Itoa(c.ports) + " downstream ports"
			}
		}
	}
	if c.empty > 0 {
		tip += ", " + strconv.Itoa(c.empty) + " ports with nothing below"
	}
	name = shorten(name, w-12, normal, true)
	lines := []line{{x: x + 6, y: y + 15, size: normal, bold: true, text: name}}
	if left := w - 12 - textWidth(name, normal, true) - 12; left > 30 {
		if cut := clip(more, left, small, false); cut == clean(more) || len(cut) > 12 {
			lines = append(lines, line{x: x + w - 6, y: y + 15, size: small, right: true, text: cut})
		}
	}
	class := "bar"
	if c.device == nil {
		class = "bar-root"
	}
	s.box(box{x: x, y: y, w: w, h: barH, round: 3, class: class, tip: tip, lines: lines})
}
