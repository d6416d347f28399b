package draw

import (
	"fmt"
	"strings"
)

// pairColours is how many pairs have a colour of their own; further ones begin anew,
// and the names at the boxes tell them apart.
const pairColours = 8

// colours of one scheme.
type colours struct {
	page, node, root, bar, barText, ink, quiet, edge, wire, warn string
	accelerator, nic, nvme, nvswitch, other                      [2]string // fill, outline
	pairs                                                        [pairColours][3]string
	// fills of accelerators and of NICs, letters on accelerators
}

// The eight hues keep apart for readers who see red and green alike, as far as
// eight can; the fill of a NIC is its accelerator's, mixed with the page.
var light = colours{
	page: "#ffffff", node: "#f3f5f8", root: "#ffffff", bar: "#3d4a5c", barText: "#ffffff",
	ink: "#17202b", quiet: "#566273", edge: "#c3cad4", wire: "#5f6c7d", warn: "#c8102e",
	accelerator: [2]string{"#2f6b4f", "#2f6b4f"},
	nic:         [2]string{"#e9edf2", "#8793a3"},
	nvme:        [2]string{"#f4ecdd", "#b09a6c"},
	nvswitch:    [2]string{"#dff0e6", "#5f9a7c"},
	other:       [2]string{"#ffffff", "#b4bcc8"},
	pairs: [pairColours][3]string{
		{"#1f5fa8", "#d9e7f7", "#ffffff"},
		{"#b35300", "#fde6d0", "#ffffff"},
		{"#00755c", "#d3efe6", "#ffffff"},
		{"#9c2f6f", "#f8dcea", "#ffffff"},
		{"#6a4bb5", "#e6def8", "#ffffff"},
		{"#7d6200", "#f6ebbf", "#ffffff"},
		{"#00708c", "#d2edf5", "#ffffff"},
		{"#b02a30", "#fadcdc", "#ffffff"},
	},
}

var dark = colours{
	page: "#10151c", node: "#1a212b", root: "#222b37", bar: "#55647a", barText: "#ffffff",
	ink: "#eef2f6", quiet: "#a9b5c4", edge: "#3c4859", wire: "#93a1b3", warn: "#ff7b86",
	accelerator: [2]string{"#79c29d", "#79c29d"},
	nic:         [2]string{"#2f3a49", "#75849a"},
	nvme:        [2]string{"#3d3626", "#9a875c"},
	nvswitch:    [2]string{"#213a2e", "#5f9a7c"},
	other:       [2]string{"#222b37", "#5d6b7f"},
	pairs: [pairColours][3]string{
		{"#74b0f4", "#1c3450", "#0b1622"},
		{"#f5a25d", "#4a2f17", "#1f1205"},
		{"#4fcfae", "#153f36", "#04201a"},
		{"#ee8fc0", "#4a2039", "#240a18"},
		{"#b39df2", "#342a55", "#140d29"},
		{"#ddc04a", "#423912", "#1d1800"},
		{"#5ccbe8", "#123e4b", "#041d25"},
		{"#f78e90", "#4d2124", "#280a0c"},
	},
}

// sheet is the style sheet. Paper is white: what is printed is light.
func sheet(scheme Scheme) string {
	var b strings.Builder
	b.WriteString(`text{font-family:Helvetica,Arial,"Liberation Sans","DejaVu Sans",sans-serif}
path{fill:none}
.trunk{stroke-width:1.5}
.joint{stroke-width:4}
.x0{stroke-width:1.5;stroke-dasharray:2 2}
.x1{stroke-width:1.5}.x2{stroke-width:2.5}.x4{stroke-width:4}.x8{stroke-width:6}.x16{stroke-width:9}
.plain rect{fill:none;stroke:none}
.frame-unknown rect,.shared rect{stroke-dasharray:4 3}
`)
	switch scheme {
	case Light:
		b.WriteString(light.rules())
	case Dark:
		b.WriteString(dark.rules())
	default:
		b.WriteString(light.rules())
		b.WriteString("@media screen and (prefers-color-scheme:dark){\n" + dark.rules() + "}\n")
	}
	return b.String()
}

func (c *colours) rules() string {
	var b strings.Builder
	rule := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	rule(".page{fill:%s}", c.page)
	rule("text{fill:%s}.q{fill:%s}.w{fill:%s}", c.ink, c.quiet, c.warn)
	rule(".frame-node rect,.frame-unknown rect{fill:%s;stroke:%s}", c.node, c.edge)
	rule(".frame-root rect{fill:%s;stroke:%s}", c.root, c.edge)
	rule(".bar rect{fill:%s}.bar text{fill:%s}.bar-root rect{fill:none;stroke:%s;stroke-width:1.5}", c.bar, c.barText, c.bar)
	rule(".trunk,.joint,.x0,.x1,.x2,.x4,.x8,.x16{stroke:%s}.slow{stroke:%s}", c.wire, c.warn)
	for _, kind := range []struct {
		class string
		look  [2]string
	}{{"gpu", c.accelerator}, {"nic", c.nic}, {"nvme", c.nvme}, {"nvs", c.nvswitch}, {"other", c.other}} {
		rule(".%s rect{fill:%s;stroke:%s}", kind.class, kind.look[0], kind.look[1])
	}
	rule(".shared rect{fill:%s;stroke:%s}", c.nic[0], c.ink)
	rule(".gpu text{fill:%s}", c.page)
	for i, pair := range c.pairs {
		rule(".a%d rect{fill:%s;stroke:%[2]s}.a%[1]d text{fill:%[3]s}", i, pair[0], pair[2])
		rule(".r%d rect{fill:%s;stroke:%s}", i, pair[1], pair[0])
	}
	return b.String()
}
