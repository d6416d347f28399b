package pci

import (
	"fmt"
	"path"
)

// function reads a function but for its place. In an outline a virtual one is known
// by its physical one.
func (r *reader) function(d *Device, dir string) {
	if r.t.Outline {
		r.physical(d, dir)
	}
	if d.PF == nil {
		if !r.identity(d, dir) {
			return
		}
		r.attributes(d, dir)
	}
	if !r.t.Outline {
		r.physical(d, dir)
	}
	r.rdma(d)
}

// physical joins a virtual function with its physical one.
func (r *reader) physical(d *Device, dir string) {
	if d.Class>>8 == classBridge {
		return
	}
	target, ok := r.link(dir + "/physfn")
	if !ok {
		return
	}
	a, ok := scanAddress(path.Base(target), 4)
	if pf := r.at[a]; ok && pf != nil && pf != d {
		d.PF = pf
	} else {
		r.fail("place", dir+"/physfn", fmt.Errorf("no such function: %q", clip(target)))
	}
}

// inherit gives virtual functions that were not read themselves what they have of
// their physical ones: vendor and class (SR-IOV 1.1, 3.4.1).
func (r *reader) inherit() {
	if !r.t.Outline {
		return
	}
	for _, d := range r.t.Devices {
		if d.PF != nil {
			d.Vendor, d.Class = d.PF.Vendor, d.PF.Class
		}
	}
}
