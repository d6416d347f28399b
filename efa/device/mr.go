package device

import "github.com/peerdirect/peerdirect/efa/wire"

const (
	minPageShift = 12
	maxPageShift = 40
	maxMRLength  = 1 << 48
	lkeyMask     = 1<<24 - 1
)

// MROptions describe a memory region.
type MROptions struct {
	PD     uint16
	IOVA   uint64 // what addresses in work requests count from
	Length uint64 // bytes
	// PageShift says that each page has 1<<PageShift bytes, 12 to 40. With 0 the
	// region is contiguous and Pages has one address, of its first byte, which
	// need not be aligned.
	PageShift uint8
	// Pages are the pages' DMA addresses. The first page holds IOVA, at the
	// offset that IOVA has in it.
	Pages  []uint64
	Access wire.Access
	Keep   any // held while the region lives; see ProcessMemory
}

// MRInfo names a region.
type MRInfo struct {
	LKey uint32 // 24 bits
	RKey uint32
}

type memoryRegion struct {
	pd     uint16
	access wire.Access
	shift  uint8
	lkey   uint32
	rkey   uint32
	iova   uint64
	length uint64
	start  uint64 // iova rounded down to its page, or iova if contiguous
	pages  []uint64
	keep   any
}

// RegisterMR registers a memory region. The pages are looked up in the device's
// Memory at each access only, so they may be unmapped meanwhile; an access then
// fails like one with a wrong key.
func (d *Device) RegisterMR(o MROptions) (MRInfo, error) {
	const op = "register MR"
	mr := &memoryRegion{
		pd: o.PD, access: o.Access, shift: o.PageShift, iova: o.IOVA, length: o.Length,
		start: o.IOVA, pages: o.Pages, keep: o.Keep,
	}
	known := wire.AccessLocalWrite
	if d.opts.Caps&wire.CapRDMAWrite != 0 {
		known |= wire.AccessRemoteWrite
	}
	if d.opts.Caps&wire.CapRDMARead != 0 {
		known |= wire.AccessRemoteRead
	}
	switch {
	case o.Access&^known != 0:
		return MRInfo{}, illegal(op, "access %#x, the device supports %#x", o.Access, known)
	case o.Length == 0 || o.Length > maxMRLength:
		return MRInfo{}, illegal(op, "length %d is not between 1 and 2^48", o.Length)
	case o.IOVA+o.Length < o.IOVA:
		return MRInfo{}, illegal(op, "%d bytes at %#x pass the end of the address space", o.Length, o.IOVA)
	}
	if o.PageShift == 0 {
		if len(o.Pages) != 1 {
			return MRInfo{}, illegal(op, "a contiguous region has one address, not %d", len(o.Pages))
		}
		if o.Pages[0]+o.Length < o.Pages[0] {
			return MRInfo{}, illegal(op, "%d bytes at DMA address %#x pass the end of the address space", o.Length, o.Pages[0])
		}
	} else {
		if o.PageShift < minPageShift || o.PageShift > maxPageShift {
			return MRInfo{}, illegal(op, "pages of 2^%d bytes; 2^%d to 2^%d are supported", o.PageShift, minPageShift, maxPageShift)
		}
		mask := uint64(1)<<o.PageShift - 1
		mr.start = o.IOVA &^ mask
		need := (o.IOVA&mask + o.Length + mask) >> o.PageShift
		if need > uint64(d.opts.MaxMRPages) {
			return MRInfo{}, illegal(op, "%d pages, the most is %d", need, d.opts.MaxMRPages)
		}
		if uint64(len(o.Pages)) != need {
			return MRInfo{}, illegal(op, "%d pages of 2^%d bytes were given, %d are needed", len(o.Pages), o.PageShift, need)
		}
		for i, p := range o.Pages {
			if p&mask != 0 || p+mask < p {
				return MRInfo{}, illegal(op, "page %d at %#x is not aligned to 2^%d bytes", i, p, o.PageShift)
			}
		}
	}
	if err := d.control(op); err != nil {
		return MRInfo{}, err
	}
	defer d.done()
	pd := d.pds.get(uint32(o.PD))
	if pd == nil {
		return MRInfo{}, illegal(op, "no PD %d", o.PD)
	}
	n, ok := d.mrs.put(mr)
	if !ok {
		return MRInfo{}, exhausted(op, "all %d memory regions are in use", d.opts.MaxMRs)
	}
	for uint32(len(d.mrGen)) <= n {
		d.mrGen = append(d.mrGen, 0)
	}
	// A key has the region's number, and how often that number was given out: 8
	// bits of it where the formats have room for 24, else 16.
	d.mrGen[n]++
	mr.lkey = n | uint32(d.mrGen[n])<<16&lkeyMask
	mr.rkey = n | uint32(d.mrGen[n])<<16
	pd.uses++
	d.stats.regions.Add(1)
	return MRInfo{LKey: mr.lkey, RKey: mr.rkey}, nil
}

// DeregisterMR removes a region, by its local key. Requests in flight that refer
// to it fail when they next would touch it; none touches it after the return.
func (d *Device) DeregisterMR(lkey uint32) error {
	const op = "deregister MR"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	mr := d.regionL(lkey)
	if mr == nil {
		return illegal(op, "no MR with lkey %#x", lkey)
	}
	d.mrs.remove(lkey & 0xffff)
	d.pds.get(uint32(mr.pd)).uses--
	return nil
}

// regionL finds a region by its local key, regionR by its remote one. d.mu is held.
func (d *Device) regionL(lkey uint32) *memoryRegion {
	if mr := d.mrs.get(lkey & 0xffff); mr != nil && mr.lkey == lkey {
		return mr
	}
	return nil
}

func (d *Device) regionR(rkey uint32) *memoryRegion {
	if mr := d.mrs.get(rkey & 0xffff); mr != nil && mr.rkey == rkey {
		return mr
	}
	return nil
}

// allows reports whether n bytes at addr lie in the region and may be accessed so
// from a queue pair of a protection domain.
func (mr *memoryRegion) allows(pd uint16, access wire.Access, addr uint64, n uint32) bool {
	return mr != nil && mr.pd == pd && mr.access&access == access &&
		addr >= mr.iova && uint64(n) <= mr.length && addr-mr.iova <= mr.length-uint64(n)
}

// dma gives the DMA address of addr, which allows has checked.
func (mr *memoryRegion) dma(addr uint64) uint64 {
	off := addr - mr.start
	if mr.shift == 0 {
		return mr.pages[0] + off
	}
	return mr.pages[off>>mr.shift] + off&(1<<mr.shift-1)
}

// bytes gives up to n contiguous bytes at addr, which allows has checked for n;
// nil where the page is not mapped. The memory is held.
func (mr *memoryRegion) bytes(m Memory, addr uint64, n int) []byte {
	if mr.shift != 0 {
		in := (addr - mr.start) & (1<<mr.shift - 1)
		if room := uint64(1)<<mr.shift - in; uint64(n) > room {
			n = int(room)
		}
	}
	return m.Bytes(mr.dma(addr), n)
}
