package hwlocxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// object is an element of hwloc's tree while it is read.
type object struct {
	typ  string
	line int
	e    xml.StartElement

	gone    bool    // it, and what is below it, is not read
	machine bool    // the first one
	cpu     *object // it or the nearest above that has processors; nil is none
	bridge  *object // the nearest above that leads to a bus; nil is none
	io      bool    // a PCI device or an OS device is above

	root  *pci.Root // of a bridge from the processors to PCI
	dev   *device   // of a PCI function
	below *buses    // of a bridge; nil is unknown
	name  *osName   // of an OS device
	area  *area     // made once something hangs on it
}

// device is a function with what is not in pci.Device.
type device struct {
	*pci.Device
	line  int
	over  *object   // the bridge above, or the host bridge; nil is none
	up    *device   // the former's
	host  *pci.Root // the latter's; neither: the file does not tell where it is
	area  *area     // what its tree hangs on; nil is unknown
	blind bool      // a bridge, and the file does not tell what is below it
}

// buses are those below a bridge.
type buses struct {
	domain      uint32
	first, last uint8
}

func (b *buses) String() string { return fmt.Sprintf("%04x:[%02x-%02x]", b.domain, b.first, b.last) }

// object takes the start of one.
func (r *reader) object(e xml.StartElement) *object {
	o := &object{typ: attribute(e, "type"), line: r.line(), e: e}
	var up *object
	if n := len(r.stack); n > 0 {
		up = r.stack[n-1]
		o.gone, o.cpu, o.bridge, o.io = up.gone, up.cpu, up.bridge, up.io || up.typ == "PCIDev" || up.typ == "OSDev"
		if up.typ == "Bridge" {
			o.bridge = up
		}
	}
	if o.gone {
		return o
	}
	switch o.typ {
	case "Misc", "System":
	case "Bridge":
		if upstream, _, _ := strings.Cut(attribute(e, "bridge_type"), "-"); upstream == "0" {
			r.startHost(o)
		} else {
			r.startDevice(o)
		}
	case "PCIDev":
		r.startDevice(o)
	case "OSDev":
		r.startName(o, up)
	default:
		o.cpu, o.bridge = o, nil
		switch o.typ {
		case "Machine":
			r.startMachine(o, up)
		case "NUMANode":
			r.startNode(o)
		}
	}
	return o
}

func (r *reader) startMachine(o, up *object) {
	switch {
	case !r.machine:
		r.machine, o.machine = true, true
	case up == nil || up.typ == "System": // else a part of the one
		o.gone = true
		r.fail(o.line, "Machine", errors.New("the file is of more than one machine; only the first is read"))
	}
}

// startHost takes a host bridge: below it is a root complex's bus. Without the
// number of that, which is told, its functions have no root complex.
func (r *reader) startHost(o *object) {
	b, err := parseBuses(attribute(o.e, "bridge_pci"))
	if err != nil {
		r.fail(o.line, "host bridge", err)
		return
	}
	o.below, o.root = &b, newRoot(b.domain, b.first)
}

func newRoot(domain uint32, bus uint8) *pci.Root {
	return &pci.Root{Name: fmt.Sprintf("pci%04x:%02x", domain, bus), Domain: domain, Bus: bus}
}

// startDevice takes a PCI function. Without its address neither it nor what is below
// it has a place.
func (r *reader) startDevice(o *object) {
	a, err := pci.ParseAddress(attribute(o.e, "pci_busid"))
	switch {
	case err != nil:
		err = fmt.Errorf("%w; it and what is below it is left out", err)
	case o.io:
		err = fmt.Errorf("%s is below a device that is no bridge; it and what is below it is left out", a)
	case r.at[a] != nil:
		err = fmt.Errorf("%s is at line %d too; this one and what is below it is left out", a, r.at[a].line)
	}
	if err != nil {
		o.gone = true
		r.fail(o.line, o.typ, err)
		return
	}
	d := &device{Device: &pci.Device{Address: a, Group: -1}, line: o.line}
	if o.bridge != nil {
		d.over, d.up, d.host = o.bridge, o.bridge.dev, o.bridge.root
		if b := d.over.below; b != nil && (a.Domain != b.domain || a.Bus < b.first || a.Bus > b.last) {
			r.fail(o.line, a.String(), fmt.Errorf("the bridge above it leads to the buses %s; where it sits is doubtful", b))
		}
	}
	if d.up == nil && o.cpu != nil {
		d.area = r.areaOf(o.cpu)
	}
	r.identity(d, o)
	r.at[a] = d
	r.devices = append(r.devices, d)
	o.dev = d
}

// identity reads what a function is.
func (r *reader) identity(d *device, o *object) {
	if text := attribute(o.e, "pci_type"); text != "" {
		if err := parseType(d.Device, text); err != nil {
			r.fail(o.line, d.Address.String(), err)
		}
	}
	if o.typ == "Bridge" {
		d.Kind = pci.Bridge
		if b, err := parseBuses(attribute(o.e, "bridge_pci")); err == nil {
			o.below = &b
		} else {
			r.fail(o.line, d.Address.String(), err)
		}
	}
	switch d.Class >> 8 {
	case 0x0604, 0x0609: // to PCI, and semi-transparent
		d.blind = o.typ != "Bridge"
	}
	if text := attribute(o.e, "pci_link_speed"); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v < 1e6) {
			r.fail(o.line, d.Address.String(), fmt.Errorf("%q is no bandwidth of a link in GB/s", clip(text)))
			return
		}
		if d.Link.Speed, d.Link.Width = lanesOf(v); d.Link.Width == 0 {
			d.Link.Carries = v
		}
	}
}

// unread is the revision that hwloc has where config space could not be read.
const unread = 0xff

// parseType reads CLASS [VENDOR:DEVICE] [SUBVENDOR:SUBDEVICE] REVISION, and of hwloc
// 3 the class's interface.
func parseType(d *pci.Device, text string) error {
	bad := fmt.Errorf("%q is no type of a PCI device such as 0207 [15b3:1013] [15b3:0013] 00", clip(text))
	f := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t[]:", c) })
	if len(f) != 6 && len(f) != 7 {
		return bad
	}
	var v [7]uint64
	for i := range f {
		bits := 16
		if i >= 5 {
			bits = 8
		}
		var err error
		if v[i], err = strconv.ParseUint(f[i], 16, bits); err != nil {
			return bad
		}
	}
	d.Class = uint32(v[0])<<8 | uint32(v[6])
	d.Vendor, d.Product, d.SubVendor, d.SubProduct = uint16(v[1]), uint16(v[2]), uint16(v[3]), uint16(v[4])
	if v[5] != unread {
		d.Revision = uint8(v[5])
	}
	return nil
}

// parseBuses reads DOMAIN:[FIRST-LAST].
func parseBuses(text string) (b buses, err error) {
	bad := fmt.Errorf("%q are no buses of a bridge such as 0000:[3b-41]", clip(text))
	domain, tail, ok := strings.Cut(text, ":[")
	tail, ok2 := strings.CutSuffix(tail, "]")
	first, last, ok3 := strings.Cut(tail, "-")
	if !ok || !ok2 || !ok3 {
		return b, bad
	}
	d, err1 := strconv.ParseUint(domain, 16, 32)
	f, err2 := strconv.ParseUint(first, 16, 8)
	l, err3 := strconv.ParseUint(last, 16, 8)
	if err1 != nil || err2 != nil || err3 != nil || f > l {
		return b, bad
	}
	return buses{uint32(d), uint8(f), uint8(l)}, nil
}
