package draw

import (
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// boxSpace is a box's least width, and the most it is stretched to. Alike devices
// have boxes of one width wherever they are, so alike switches look alike.
func (pl *plan) boxSpace(g *group) (least, most float64) {
	if g.folded {
		return 130, 160
	}
	key := alike{g.kind, g.devices[0].Vendor, g.devices[0].Product}
	if least = pl.least[key]; least == 0 {
		least = 44
		if g.kind == pci.Accelerator {
			least = 66
		}
		for _, d := range pl.t.Devices {
			if d.Kind != g.kind || d.Vendor != key.vendor || d.Product != key.product {
				continue
			}
			for _, s := range []line{pl.nameLine(d), {text: pl.address(d.Address), size: small}, {text: forWhom(pl.user(d)), size: small},
				{text: boxLink(d.Link), size: small}} {
				least = max(least, min(textWidth(clean(s.text), s.size, s.bold)+beside(d), 116))
			}
		}
		pl.least[key] = least
	}
	most = 120
	if g.kind == pci.Accelerator {
		most = 200
	}
	return least, max(most, least)
}

// beside is what of a box's width is not text's.
func beside(d *pci.Device) float64 {
	if d.Kind == pci.Accelerator {
		return 11
	}
	return 7
}

// alike is what devices of one width have in common.
type alike struct {
	kind            pci.Kind
	vendor, product uint16
}

func (pl *plan) nameLine(d *pci.Device) line {
	if d.Kind == pci.Accelerator {
		return line{text: pl.name(d), size: normal, bold: true}
	}
	return line{text: pl.name(d), size: small}
}

// lines are what the box of a group's device says.
func (pl *plan) lines(g *group, i int) []line {
	d := g.devices[i]
	name, address := pl.nameLine(d), line{text: pl.address(d.Address), size: small, class: "q"}
	if name.text == "" || name.text == d.Address.String() {
		name.text = address.text
	}
	all := []line{name}
	if name.text != address.text {
		all = append(all, address)
	}
	if _, same := pl.whose(g); !same {
		all = append(all, line{text: forWhom(pl.user(d)), size: small})
	}
	l := g.links[i]
	if text := boxLink(l); !g.oneLink() || narrow(l) || g.kind == pci.Accelerator && text != "" {
		all = append(all, line{text: text, size: small, class: slowness(l)})
	}
	return all
}

// boxLink is a link's text in a box, which has no room for all of it.
func boxLink(l pci.Link) string {
	if narrow(l) {
		l.Speed = 0
	}
	l.MaxSpeed = 0
	return linkText(l)
}

func forWhom(user string) string {
	if user == "" {
		return ""
	}
	return "for " + user
}

// slowness is the class of a link's text.
func slowness(l pci.Link) string {
	if narrow(l) {
		return "w"
	}
	return "q"
}

func (pl *plan) foldedLines(g *group) []line {
	first, last := g.devices[0], g.devices[len(g.devices)-1]
	return []line{
		{text: strconv.Itoa(len(g.devices)) + " × " + shortKind(g), size: small},
		{text: pl.address(first.Address) + "–" + pl.address(last.Address), size: small, class: "q"},
	}
}

func shortKind(g *group) string {
	if g.devices[0].PF != nil {
		return "VF"
	}
	switch g.kind {
	case pci.RDMANIC, pci.OtherNIC:
		return "NIC"
	case pci.NVMe:
		return "NVMe"
	case pci.BMC:
		return "BMC"
	}
	return "other"
}

// boxes is how many boxes a group is drawn as.
func (g *group) boxes() int {
	if g.folded {
		return 1
	}
	return len(g.devices)
}

// device draws a box, and gives where it ends.
func (pl *plan) device(s *scene, g *group, i int, x, y, w float64) float64 {
	d := g.devices[i]
	var lines []line
	var tip string
	if !g.folded {
		lines, tip = pl.lines(g, i), pl.tip(d, g.links[i])
	} else {
		lines, tip = pl.foldedLines(g), strings.Join(pl.captionParts(g), ", ")
	}
	at := y + 4
	for k := range lines {
		l := &lines[k]
		at += lineH
		l.x, l.y = x+3, at-3
		if g.kind == pci.Accelerator {
			l.x += 4
		}
		l.text = shorten(l.text, w-(l.x-x)-3, l.size, l.bold)
	}
	h := at + 2 - y
	s.box(box{x: x, y: y, w: w, h: h, round: 3, class: pl.look(d), tip: tip, lines: lines})
	return y + h
}

// look is the class of a device's box.
func (pl *plan) look(d *pci.Device) string {
	if pairs := pl.pairs[d]; len(pairs) > 0 && len(pl.p.Pairs[pairs[0]].Rails) > 0 {
		n := strconv.Itoa(pairs[0] % pairColours)
		if d.Kind == pci.Accelerator {
			return "a" + n
		}
		if len(pairs) > 1 {
			return "shared r" + n
		}
		return "r" + n
	}
	switch d.Kind {
	case pci.Accelerator:
		return "gpu"
	case pci.RDMANIC, pci.OtherNIC:
		return "nic"
	case pci.NVMe:
		return "nvme"
	case pci.NVSwitch:
		return "nvs"
	}
	return "other"
}
