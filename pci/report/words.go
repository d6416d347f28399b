package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// kindWord is what a device without a name of its own is called.
func kindWord(d *pci.Device) string {
	if d.Kind != pci.Bridge {
		return d.Kind.String()
	}
	switch d.Port {
	case pci.RootPort, pci.UpstreamPort, pci.DownstreamPort:
		return d.Port.String()
	}
	return "bridge"
}

// model is who made a device and what it is called, both short: pci.ids has the name
// on the box in brackets. Without names the numbers.
func model(d *pci.Device) string {
	if d.ProductName == "" {
		if d.Product == 0 { // of a virtual function in an outline too
			return ""
		}
		return fmt.Sprintf("%04x:%04x", d.Vendor, d.Product)
	}
	vendor := inBrackets(d.VendorName)
	if vendor == "" {
		vendor = withoutForm(d.VendorName)
	}
	product := inBrackets(d.ProductName)
	if product == "" {
		product = d.ProductName
	}
	if strings.HasPrefix(product, vendor) {
		return safe(product)
	}
	return safe(vendor + " " + product)
}

// withoutForm is a company's name without what it is by law, at the end.
func withoutForm(name string) string {
	name, _, _ = strings.Cut(name, " / ") // what it was before
	words := strings.Fields(name)
	for len(words) > 1 {
		switch strings.ToLower(strings.Trim(words[len(words)-1], ",.()")) {
		case "inc", "corp", "corporation", "co", "company", "ltd", "limited", "llc", "gmbh", "ag", "ab", "sa", "technologies", "technology", "electronics", "semiconductor":
			words = words[:len(words)-1]
			continue
		}
		break
	}
	return strings.TrimRight(strings.Join(words, " "), ",.")
}

func inBrackets(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok || len(s) < 3 {
		return ""
	}
	return s
}

// linkText is "32 GT/s x16", and what the device could if that is more: "16 GT/s x8
// of 32 GT/s x16", "32 GT/s x8 of x16", "2.5 of 32 GT/s x16"; "15.75 GB/s" where only that is known; "" if nothing is.
func linkText(l pci.Link) string {
	if l.Carries > 0 {
		return strconv.FormatFloat(l.Carries, 'g', 4, 64) + " GB/s"
	}
	now, slower, narrower := rate(l.Speed, l.Width), l.MaxSpeed > l.Speed, l.MaxWidth > l.Width
	most := rate(max(l.Speed, l.MaxSpeed), max(l.Width, l.MaxWidth))
	switch {
	case !slower && !narrower:
		return now
	case now == "":
		return "? of " + most
	case !slower:
		return now + " of " + rate(0, l.MaxWidth)
	case !narrower && l.Speed > 0:
		return strings.TrimSuffix(rate(l.Speed, 0), " GT/s") + " of " + most
	}
	return now + " of " + most
}

func rate(speed float64, width int) string {
	var s string
	if speed > 0 {
		s = strconv.FormatFloat(speed, 'f', -1, 64) + " GT/s"
	}
	if width > 0 {
		s += " x" + strconv.Itoa(width)
	}
	return strings.TrimPrefix(s, " ")
}

func bytesText(n int64) string {
	const kib = 1 << 10
	value, units := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && value >= kib {
		value, units = value/kib, units[1:]
	}
	return strconv.FormatFloat(value, 'g', 4, 64) + " " + units[0]
}

// portsText tells of an RDMA device's ports what its users ask first: "ACTIVE, 400
// Gb/sec"; "" if that is unknown.
func portsText(d *pci.Device) string {
	var all []string
	for _, r := range d.RDMA {
		for _, port := range r.Ports {
			speed, _, _ := strings.Cut(port.Rate, " (")
			var s string
			switch {
			case port.State != "" && speed != "":
				s = port.State + ", " + speed
			default:
				s = port.State + speed
			}
			if s != "" && len(r.Ports) > 1 {
				s = "port " + strconv.Itoa(port.Number) + " " + s
			}
			if s != "" {
				all = append(all, safe(s))
			}
		}
	}
	return strings.Join(all, "; ")
}
