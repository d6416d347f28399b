package draw

import (
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// legend explains the wires and colours and lists the pairs; it gives where it ends.
func (pl *plan) legend(s *scene, y float64) float64 {
	inner := Width - 2*margin
	y = pl.pairList(s, margin, y, inner)
	x := margin
	// item draws a sample in the first 26 units and the text behind it.
	item := func(text string, sample func(x, y float64)) {
		width := 26 + textWidth(text, small, false)
		if x+width > Width-margin && x > margin {
			x, y = margin, y+20
		}
		sample(x, y)
		s.box(box{x: x + 26, y: y, w: width - 26, h: 16, class: "plain", lines: []line{
			{x: x + 26, y: y + 12, size: small, text: text}}})
		x += width + 16
	}
	wires, looks := map[string]bool{}, map[string]bool{}
	for _, l := range s.wires {
		wires[l.class] = true
		wires["slow"] = wires["slow"] || strings.HasSuffix(l.class, " slow")
	}
	for _, b := range s.boxes {
		looks[b.class] = true
		looks["shared"] = looks["shared"] || strings.HasPrefix(b.class, "shared")
	}
	for _, l := range []struct{ class, text string }{
		{"x16", "link x16"}, {"x8", "link x8"}, {"x4", "link x4"}, {"x2", "link x2"}, {"x1", "link x1"},
		{"x0", "link of unknown width"}, {"slow", "narrower than it can be"},
	} {
		if !wires[l.class] {
			continue
		}
		class := l.class
		if class == "slow" {
			class = "x8 slow"
		}
		item(l.text, func(x, y float64) { s.wire(x, y+8, x+20, y+8, class) })
	}
	for _, k := range []struct{ class, text string }{
		{"gpu", "accelerator without a rail"}, {"shared", "rail of several accelerators"}, {"nic", "NIC, nobody's rail"},
		{"nvme", "NVMe"}, {"nvs", "NVSwitch"}, {"other", "other function"},
	} {
		if looks[k.class] {
			item(k.text, func(x, y float64) { s.box(box{x: x, y: y + 2, w: 20, h: 12, round: 2, class: k.class}) })
		}
	}
	return y + 16
}

// pairList lists each accelerator that has rails, in its colour.
func (pl *plan) pairList(s *scene, x, y, w float64) float64 {
	if pl.p == nil {
		return y
	}
	var pairs []pci.Pair
	for _, pair := range pl.p.Pairs {
		if len(pair.Rails) > 0 {
			pairs = append(pairs, pair)
		}
	}
	if len(pairs) == 0 {
		return y
	}
	const columns = 2
	each := (w - gap*(columns-1)) / columns
	rows := (len(pairs) + columns - 1) / columns
	for i, pair := range pairs {
		left, top := x+float64(i/rows)*(each+gap), y+float64(i%rows)*20
		s.box(box{x: left, y: top, w: 64, h: 17, round: 3, class: pl.look(pair.Accelerator), tip: pair.Reason, lines: []line{
			{x: left + 5, y: top + 12.5, size: small, bold: true, text: shorten(pl.name(pair.Accelerator), 56, small, true)}}})
		s.box(box{x: left + 72, y: top, w: each - 72, h: 17, class: "plain", lines: []line{
			{x: left + 72, y: top + 12.5, size: small, text: clip(pair.Class.String()+" to "+pl.railNames(pair.Rails, each-110), each-72, small, false)}}})
	}
	return y + float64(rows)*20 + 8
}

// railNames lists NICs, or the first and the last of many.
func (pl *plan) railNames(rails []*pci.Device, w float64) string {
	var names []string
	for _, d := range rails {
		names = append(names, clean(pl.name(d)))
	}
	text := strings.Join(names, " ")
	if textWidth(text, small, false) > w && len(rails) > 2 {
		text = strconv.Itoa(len(rails)) + " NICs, " + names[0] + " to " + names[len(names)-1]
	}
	return text
}
