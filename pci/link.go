package pci

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
)

// link reads a device's link. Functions without one of their own (virtual ones,
// those of the root complex) have no such files.
func (r *reader) linkOf(dir string) (l Link) {
	if s, ok := r.text(dir + "/current_link_speed"); ok {
		l.Speed = parseSpeed(s)
	}
	if s, ok := r.text(dir + "/max_link_speed"); ok {
		l.MaxSpeed = parseSpeed(s)
	}
	if s, ok := r.text(dir + "/current_link_width"); ok {
		l.Width = parseWidth(s)
	}
	if s, ok := r.text(dir + "/max_link_width"); ok {
		l.MaxWidth = parseWidth(s)
	}
	return l
}

// parseSpeed reads GT/s a lane: "8 GT/s", "16.0 GT/s PCIe", "32 GT/s PCIe/s"; 0 for
// "Unknown" and whatever else is no speed.
func parseSpeed(s string) float64 {
	number, unit, ok := strings.Cut(strings.TrimSpace(s), "GT/s")
	if !ok || unit != "" && unit[0] != ' ' {
		return 0
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 1 && v <= 1024) {
		return 0
	}
	return v
}

// parseWidth reads lanes: "16"; 0 for what no link has, as the 255 of a device that
// cannot be reached.
func parseWidth(s string) int {
	v, err := strconv.ParseUint(strings.TrimSpace(s), 10, 8)
	if err != nil || v > 32 {
		return 0
	}
	return int(v)
}

// Registers of the PCI Express capability (base specification, 7.5.3).
const (
	linkCapabilities  = 0x0c
	linkStatus        = 0x12
	linkCapabilities2 = 0x2c
	expressSize       = 0x3c
)

// laneSpeeds are the codes of a link's speed, in GT/s.
var laneSpeeds = [16]float64{1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}

// expressLink reads a device's link out of its first 256 bytes, as the kernel does
// for its files (drivers/pci/pci.c, pcie_get_speed_cap). false: it has none.
func expressLink(b []byte) (l Link, ok bool) {
	if len(b) < configSize {
		return l, false
	}
	at := int(b[configCapabilities]) &^ 3
	for range maxCapabilities {
		if at < configHeader || at+expressSize > len(b) {
			return l, false
		}
		if b[at] == capabilityExpress {
			break
		}
		at = int(b[at+1]) &^ 3
	}
	if b[at] != capabilityExpress {
		return l, false
	}
	switch portTypes[b[at+expressCapabilities]>>4] {
	case Endpoint, LegacyEndpoint, RootPort, UpstreamPort, DownstreamPort, ToPCI, FromPCI:
	default:
		return l, false // those of the root complex have no link
	}
	capable, now := binary.LittleEndian.Uint32(b[at+linkCapabilities:]), binary.LittleEndian.Uint16(b[at+linkStatus:])
	// The codes that a link may take, as bits from bit 1; older devices have none.
	l.MaxSpeed = laneSpeeds[capable&15]
	if codes := binary.LittleEndian.Uint32(b[at+linkCapabilities2:]) >> 1 & 0x7f; codes != 0 {
		l.MaxSpeed = laneSpeeds[bits.Len32(codes)]
	}
	l.Speed = laneSpeeds[now&15]
	if w := int(capable >> 4 & 0x3f); w <= 32 {
		l.MaxWidth = w
	}
	if w := int(now >> 4 & 0x3f); w <= 32 {
		l.Width = w
	}
	return l, true
}
