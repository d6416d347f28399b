package hwlocxml

import (
	"strconv"
	"strings"
)

// machineInfo takes a fact about the machine. In hwloc 1 and 2 they are in its
// object, in hwloc 3 some are after it.
func (r *reader) machineInfo(name, value string) {
	p := &r.t.Platform
	switch name {
	case "DMISysVendor":
		r.vendor = value
	case "DMIProductName":
		r.product = value
	case "PlatformName": // of machines without DMI
		if r.product == "" {
			r.product = value
		}
	case "OSRelease":
		p.Kernel = value
	case "Architecture":
		p.Arch = value
	}
}

// processorInfo takes a fact about a processor: of the first that tells it.
func (r *reader) processorInfo(name, value string) {
	p := &r.t.Platform
	switch name {
	case "CPUVendor", "CPUImplementer":
		if p.CPU == "" {
			p.CPU = value
		}
		if p.CPU == "0x41" { // in the main ID register
			p.CPU = "ARM"
		}
	case "CPUFamilyNumber":
		first(&p.Family, value)
	case "CPUModelNumber":
		first(&p.Model, value)
	}
}

func first(number *int, text string) {
	if v, err := strconv.ParseUint(text, 10, 31); err == nil && *number == 0 {
		*number = int(v)
	}
}

// placeSystem joins vendor and product, which often begins with the vendor.
func (r *reader) placeSystem() {
	r.t.Platform.System = r.product
	if !strings.HasPrefix(strings.ToLower(r.product), strings.ToLower(r.vendor)) {
		r.t.Platform.System = strings.TrimSpace(r.vendor + " " + r.product)
	}
}
