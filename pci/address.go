package pci

import (
	"cmp"
	"fmt"
	"strings"
)

// Address is a function's place.
type Address struct {
	Domain                uint32 // wider than four digits behind some controllers
	Bus, Device, Function uint8
}

// ParseAddress reads DOMAIN:BUS:DEVICE.FUNCTION, all in hex, as the kernel, lspci
// and NVML spell it: the domain has up to eight digits and is 0 where it is left
// out.
func ParseAddress(s string) (Address, error) {
	full := s
	if strings.Count(s, ":") == 1 {
		full = "0:" + s
	}
	a, ok := scanAddress(full, 1)
	if !ok {
		return Address{}, fmt.Errorf("%q is no PCI address; one is spelled 0000:3b:00.0", clip(s))
	}
	return a, nil
}

// scanAddress reads the full form, whose domain has at least that many digits.
func scanAddress(s string, digits int) (a Address, ok bool) {
	colon := strings.IndexByte(s, ':')
	if colon < digits || colon > 8 {
		return a, false
	}
	domain, ok := hexNumber(s[:colon])
	if !ok {
		return a, false
	}
	bus, rest, ok := strings.Cut(s[colon+1:], ":")
	if !ok || len(bus) > 2 {
		return a, false
	}
	device, function, ok := strings.Cut(rest, ".")
	if !ok || len(device) > 2 || len(function) != 1 {
		return a, false
	}
	b, ok1 := hexNumber(bus)
	d, ok2 := hexNumber(device)
	f, ok3 := hexNumber(function)
	if !ok1 || !ok2 || !ok3 || d > 31 || f > 7 {
		return a, false
	}
	return Address{Domain: uint32(domain), Bus: uint8(b), Device: uint8(d), Function: uint8(f)}, true
}

// scanBus reads the name of a root complex's folder, pciDDDD:BB.
func scanBus(s string) (domain uint32, bus uint8, ok bool) {
	s, ok = strings.CutPrefix(s, "pci")
	if !ok {
		return 0, 0, false
	}
	head, tail, ok := strings.Cut(s, ":")
	if !ok || len(head) < 4 || len(head) > 8 || len(tail) != 2 {
		return 0, 0, false
	}
	d, ok1 := hexNumber(head)
	b, ok2 := hexNumber(tail)
	return uint32(d), uint8(b), ok1 && ok2
}

// hexNumber reads digits only: no sign, no prefix, at most 64 bits.
func hexNumber(s string) (v uint64, ok bool) {
	if s == "" || len(s) > 16 {
		return 0, false
	}
	for _, c := range []byte(s) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}

// clip keeps a strange text from filling the screen.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// String gives it as the kernel spells it: 0000:3b:00.0.
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Compare orders addresses as the kernel numbers them.
func (a Address) Compare(b Address) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device), cmp.Compare(a.Function, b.Function))
}

// MarshalText spells the address in JSON.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
