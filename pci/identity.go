package pci

import (
	"errors"
	"strings"
)

// identity reads what a function is. false: there is nothing at its place, as
// behind a link of a capture that was not followed.
func (r *reader) identity(d *Device, dir string) bool {
	var class, id, sub, driver bool
	if text, ok := r.text(dir + "/uevent"); ok {
		// One file tells what else are seven.
		for line := range strings.SplitSeq(text, "\n") {
			key, value, _ := strings.Cut(line, "=")
			switch key {
			case "PCI_CLASS":
				if v, ok := hexNumber(value); ok && v <= 0xffffff {
					d.Class, class = uint32(v), true
				}
			case "PCI_ID":
				d.Vendor, d.Product, id = pair(value)
			case "PCI_SUBSYS_ID":
				d.SubVendor, d.SubProduct, sub = pair(value)
			case "DRIVER":
				d.Driver, driver = value, true
			}
		}
		driver = driver || id
	}
	if !class {
		var v uint64
		if v, class = r.hex(dir + "/class"); class {
			d.Class = uint32(v & 0xffffff)
		}
	}
	if !id {
		var ok1, ok2 bool
		d.Vendor, ok1 = r.hex16(dir + "/vendor")
		d.Product, ok2 = r.hex16(dir + "/device")
		id = ok1 || ok2
	}
	if !class && !id && !r.exists(dir) {
		r.fail("place", dir, errors.New("the link dangles: what it leads to is not there"))
		return false
	}
	if !sub {
		d.SubVendor, _ = r.hex16(dir + "/subsystem_vendor")
		d.SubProduct, _ = r.hex16(dir + "/subsystem_device")
	}
	if !driver {
		if target, ok := r.link(dir + "/driver"); ok {
			d.Driver = target[strings.LastIndexByte(target, '/')+1:]
		}
	}
	return true
}

// pair reads VENDOR:DEVICE.
func pair(s string) (a, b uint16, ok bool) {
	left, right, _ := strings.Cut(s, ":")
	x, ok1 := hexNumber(left)
	y, ok2 := hexNumber(right)
	if !ok1 || !ok2 || x > 0xffff || y > 0xffff {
		return 0, 0, false
	}
	return uint16(x), uint16(y), true
}

func (r *reader) hex16(name string) (uint16, bool) {
	v, ok := r.hex(name)
	if !ok {
		return 0, false
	}
	if v > 0xffff {
		r.fail("read", name, errors.New("the identifier has more than four digits"))
		return 0, false
	}
	return uint16(v), true
}
