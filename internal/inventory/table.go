package inventory

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteJSON prints the inventory as one document.
func (inv Inventory) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(inv)
}

// A column of the table. Unknown is "?", what a device does not have is "-".
type column struct {
	head string
	// drop is when the column goes if the line is too wide, 1 first; 0 stays.
	drop  int
	text  func(*Device, *Port) string
	short func(string) string // the first thing tried
}

var columns = []column{
	{head: "DEVICE", text: func(d *Device, _ *Port) string { return d.Name }},
	{head: "PORT", text: func(_ *Device, p *Port) string { return strconv.Itoa(p.Number) }},
	{head: "STATE", text: func(_ *Device, p *Port) string { return or(p.State, "?") }},
	{head: "LINK", drop: 3, text: func(_ *Device, p *Port) string { return or(p.LinkLayer, "?") },
		short: strings.NewReplacer("Ethernet", "Eth", "InfiniBand", "IB", "Unspecified", "-").Replace},
	{head: "RATE", drop: 6, text: func(_ *Device, p *Port) string { return rate(p) }},
	{head: "MTU", drop: 2, text: func(_ *Device, p *Port) string { return or(p.ActiveMTU, "?") }},
	{head: "NETDEV", text: func(_ *Device, p *Port) string { return or(p.Netdev, "-") }},
	{head: "DRIVER", drop: 4, text: func(d *Device, _ *Port) string { return or(d.Driver, "?") }},
	{head: "PCI", drop: 8, short: func(s string) string { return strings.TrimPrefix(s, "0000:") },
		text: func(d *Device, _ *Port) string {
			if d.PCI == nil {
				return d.absent()
			}
			return d.PCI.Address
		}},
	{head: "NUMA", drop: 5, text: func(d *Device, _ *Port) string { return or(d.NUMANode, d.absent()) }},
	{head: "DMABUF", drop: 7, text: func(d *Device, _ *Port) string {
		if d.DMABuf == nil {
			return "?"
		}
		return yes(*d.DMABuf)
	}},
	{head: "GID", drop: 1, text: func(_ *Device, p *Port) string {
		if g := p.gid(); g != nil {
			return g.Address
		}
		return "-"
	}},
}

// absent is the sign for what only hardware has.
func (d *Device) absent() string {
	if d.Software != nil && *d.Software {
		return "-"
	}
	return "?"
}

func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprint(*v)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func rate(p *Port) string {
	r := p.EffectiveRate
	if r == nil {
		r = p.Rate
	}
	if r == nil {
		return "?"
	}
	return strconv.FormatFloat(float64(*r)/1000, 'f', -1, 64) + "Gb/s"
}

// WriteTable prints a line a port. A width of 0 is none: everything is printed.
func (inv Inventory) WriteTable(w io.Writer, width int) error {
	use := make([][]string, len(columns))
	for i, c := range columns {
		use[i] = []string{c.head}
	}
	for i := range inv.Devices {
		d := &inv.Devices[i]
		ports := d.Ports
		if len(ports) == 0 {
			ports = []Port{{}}
		}
		for j := range ports {
			for k, c := range columns {
				text := c.text(d, &ports[j])
				if c.head == "PORT" && ports[j].Number == 0 && len(d.Ports) == 0 {
					text = "-"
				}
				use[k] = append(use[k], text)
			}
		}
	}
	fit(use, width)
	var b strings.Builder
	grid(&b, use, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// fit shortens, then empties columns until a line has at most width characters.
func fit(use [][]string, width int) {
	if width <= 0 {
		return
	}
	for i, c := range columns {
		if c.short != nil && lineWidth(use) > width {
			for r := range use[i] {
				use[i][r] = c.short(use[i][r])
			}
		}
	}
	for turn := 1; turn <= len(columns) && lineWidth(use) > width; turn++ {
		for i, c := range columns {
			if c.drop == turn {
				use[i] = nil
			}
		}
	}
}

func lineWidth(cols [][]string) int {
	total := -2
	for _, col := range cols {
		if col != nil {
			total += columnWidth(col) + 2
		}
	}
	return total
}

func columnWidth(col []string) int {
	n := 0
	for _, s := range col {
		n = max(n, len(s))
	}
	return n
}

// grid prints columns of cells, two blanks apart; nil columns are left out.
func grid(b *strings.Builder, cols [][]string, indent string) {
	var used [][]string
	for _, col := range cols {
		if col != nil {
			used = append(used, col)
		}
	}
	if len(used) == 0 {
		return
	}
	for row := range used[0] {
		line := indent
		for _, col := range used {
			line += fmt.Sprintf("%-*s  ", columnWidth(col), col[row])
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
