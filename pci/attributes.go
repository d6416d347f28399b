package pci

// attributes reads what a function has beside its identity: where it is, its link,
// its config space, its registers, its IOMMU group. It changes nothing but the
// function.
func (r *reader) attributes(d *Device, dir string) {
	r.locality(d, dir)
	found := r.config(d, dir)
	if !found.header {
		if v, ok := r.hex(dir + "/revision"); ok {
			d.Revision = uint8(v)
		}
	}
	// The kernel reads the same register for each of its files.
	if d.Link = found.link; !found.haveLink {
		d.Link = r.linkOf(dir)
	}
	if r.t.Outline {
		return
	}
	if found.noBARs {
		d.PeerMem = No
	} else {
		r.regions(d, dir)
	}
	r.group(d, dir)
}

// regions reads the base address registers, and whether memory behind them is
// published for peers.
func (r *reader) regions(d *Device, dir string) {
	s, whole := r.text(dir + "/resource")
	if whole {
		var err error
		if d.BARs, err = parseBARs(s); err != nil {
			r.fail("read", dir+"/resource", err)
		}
	}
	// The kernel makes the folder when a driver publishes. A copy that left out the
	// registers may have left it out too.
	if whole && len(d.BARs) == 0 {
		d.PeerMem = No
	} else if _, ok := r.text(dir + "/p2pmem/size"); ok {
		d.PeerMem = Yes
	} else if whole {
		d.PeerMem = No
	}
}
