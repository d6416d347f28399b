package draw

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// address leaves the domain out where there is but one.
func (pl *plan) address(a pci.Address) string {
	s := a.String()
	if !pl.domains {
		_, s, _ = strings.Cut(s, ":")
	}
	return s
}

// name is the device's short name.
func (pl *plan) name(d *pci.Device) string {
	name, known := pl.names[d]
	if !known {
		name = pl.t.Name(d)
		pl.names[d] = name
	}
	return name
}

// model is what the makers call a device: the name that pci.ids puts in brackets,
// which is the one on the box, else its name there, else the two numbers.
func model(d *pci.Device) string {
	name := d.ProductName
	for _, marks := range []string{"[]", "()"} {
		if _, inner, ok := strings.Cut(name, marks[:1]); ok {
			if inner, _, ok = strings.Cut(inner, marks[1:]); ok && len(inner) > 2 {
				return inner
			}
		}
	}
	if name == "" {
		if d.Vendor == 0 && d.Product == 0 {
			return ""
		}
		name = fmt.Sprintf("%04x:%04x", d.Vendor, d.Product)
	}
	return name
}

// noun is what a group's devices are.
func (g *group) noun() string {
	d := g.devices[0]
	plural := ""
	if len(g.devices) > 1 {
		plural = "s"
	}
	if d.PF != nil {
		return "virtual function" + plural
	}
	switch g.kind {
	case pci.Accelerator:
		if d.Class>>16 == 3 {
			return "GPU" + plural
		}
		return "accelerator" + plural
	case pci.RDMANIC:
		return "RDMA NIC" + plural
	case pci.OtherNIC:
		return "NIC" + plural
	case pci.NVMe:
		return "NVMe"
	case pci.NVSwitch:
		if len(g.devices) > 1 {
			return "NVSwitches"
		}
		return "NVSwitch"
	case pci.BMC:
		return "BMC"
	}
	return "other function" + plural
}

// captionParts head a group's row: how many of what, whose, on which link.
func (pl *plan) captionParts(g *group) []string {
	n, d := len(g.devices), g.devices[0]
	text := g.noun()
	if g.kind != pci.Other && d.ProductName != "" {
		text = model(d)
		if n > 1 {
			text = "× " + text
		}
	} else if m := model(d); g.kind != pci.Other && m != "" {
		text += " " + m
	}
	if n > 1 {
		text = strconv.Itoa(n) + " " + text
	}
	parts := []string{clean(text)}
	if whose, same := pl.whose(g); same && whose != "" {
		parts = append(parts, clean("for "+whose))
	}
	// An accelerator's link is in its box, as one that is narrow is.
	if l := linkText(g.links[0]); l != "" && g.oneLink() && !narrow(g.links[0]) && g.kind != pci.Other && g.kind != pci.Accelerator {
		parts = append(parts, l)
	}
	return parts
}

// caption is what of the parts fits: half a number would be a wrong one.
func (pl *plan) caption(g *group, w float64) string {
	parts := pl.captionParts(g)
	for ; len(parts) > 1; parts = parts[:len(parts)-1] {
		if s := strings.Join(parts, " · "); textWidth(s, small, false) <= w {
			return s
		}
	}
	return clip(parts[0], w, small, false)
}

// captionWidth is the width of the whole caption.
func (pl *plan) captionWidth(g *group) float64 {
	if g.caption == 0 {
		g.caption = math.Ceil(textWidth(strings.Join(pl.captionParts(g), " · "), small, false))
	}
	return g.caption
}

// oneLink: the group's links are the same.
func (g *group) oneLink() bool {
	return !slices.ContainsFunc(g.links, func(l pci.Link) bool { return l != g.links[0] })
}

// user names the accelerators that a NIC is a rail of; "" if none.
func (pl *plan) user(d *pci.Device) string {
	pairs := pl.pairs[d]
	if d.Kind == pci.Accelerator || len(pairs) == 0 {
		return ""
	}
	var names []string
	for _, i := range pairs {
		names = append(names, pl.name(pl.p.Pairs[i].Accelerator))
	}
	if last := len(pairs) - 1; last > 1 && pairs[last]-pairs[0] == last {
		return names[0] + " to " + names[last]
	}
	return strings.Join(names, ", ")
}

// whose is the user of all of a group's devices; false if they differ.
func (pl *plan) whose(g *group) (string, bool) {
	first := pl.user(g.devices[0])
	for _, d := range g.devices {
		if pl.user(d) != first {
			return "", false
		}
	}
	return first, true
}

// linkText is "x16 32 GT/s"; what is less than it could be says so: "x8 of x16".
// Where only that is known it is "15.75 GB/s".
func linkText(l pci.Link) string {
	if l.Carries > 0 {
		return strconv.FormatFloat(l.Carries, 'g', 4, 64) + " GB/s"
	}
	var parts []string
	if l.Width > 0 {
		s := "x" + strconv.Itoa(l.Width)
		if l.MaxWidth > l.Width {
			s += " of x" + strconv.Itoa(l.MaxWidth)
		}
		parts = append(parts, s)
	}
	if l.Speed > 0 {
		s := speed(l.Speed)
		if l.MaxSpeed > l.Speed {
			s += " of " + speed(l.MaxSpeed)
		}
		parts = append(parts, s+" GT/s")
	}
	return strings.Join(parts, " ")
}

func speed(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// wireClass is a link's look.
func wireClass(l pci.Link) string {
	class := "x0"
	switch {
	case l.Width >= 16:
		class = "x16"
	case l.Width >= 8:
		class = "x8"
	case l.Width >= 4:
		class = "x4"
	case l.Width >= 2:
		class = "x2"
	case l.Width == 1:
		class = "x1"
	}
	if narrow(l) {
		class += " slow"
	}
	return class
}

// narrow: a link has fewer lanes than it could have.
func narrow(l pci.Link) bool { return l.Width > 0 && l.MaxWidth > l.Width }

// tip is all that is known of a device, for a pointer over its box.
func (pl *plan) tip(d *pci.Device, l pci.Link) string {
	parts := []string{pl.name(d), d.Address.String()}
	for _, s := range []string{d.VendorName, d.ProductName} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	parts = append(parts, fmt.Sprintf("%04x:%04x class %06x", d.Vendor, d.Product, d.Class))
	if d.Driver != "" {
		parts = append(parts, "driver "+d.Driver)
	}
	if s := linkText(l); s != "" {
		parts = append(parts, s)
	}
	if d.Node != nil {
		parts = append(parts, "NUMA node "+strconv.Itoa(d.Node.Number))
	}
	if s := pl.user(d); s != "" {
		parts = append(parts, "rail of "+s)
	}
	return strings.Join(parts, ", ")
}
