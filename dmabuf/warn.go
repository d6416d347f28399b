package dmabuf

import (
	"fmt"
	"math/bits"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/umem"
	"golang.org/x/sys/unix"
)

func (r *Report) add(name, cause, remedy string) {
	r.Warnings = append(r.Warnings, Warning{name, cause, remedy})
}

// warn looks for what the kernel takes though it cannot be meant.
func (r *Report) warn(q *umem.Request) {
	o := &r.options
	r.warnDistance(q)
	if q.Device.Translated && o.Length > 1<<30 {
		r.add("IOMMU", fmt.Sprintf("the device's IOMMU translates, and may have no %s of addresses in one piece", umem.Bytes(o.Length)),
			"on ENOMEM register pieces of 1 GiB")
	}
	if r.buffer.State == umem.StateDMABuf && o.FD != nil {
		r.warnDescriptors(0)
	}
}

// warnDistance: the offset must be the way from the start of the allocation to
// the pointer. A wrong one registers other memory, without an error.
func (r *Report) warnDistance(q *umem.Request) {
	o := &r.options
	switch {
	case o.Base != 0 && o.Address < o.Base:
		r.add("offset", fmt.Sprintf("the address %#x lies before its allocation, which begins at %#x", o.Address, o.Base),
			"take both from the same call of the library that allocated")
	case o.Base != 0:
		distance := o.Address - o.Base
		want := o.BaseOffset + distance
		if want == o.Offset {
			return
		}
		cause := fmt.Sprintf("the offset is %d, the address is %d bytes into its allocation", o.Offset, distance)
		switch kept := o.Offset - o.BaseOffset; {
		case o.Offset == 0:
			cause += ": peers would reach the start of the allocation instead"
		case o.Offset >= o.BaseOffset && maskOf(kept, distance) != 0:
			cause += fmt.Sprintf(": %d of it went with a mask of %#x", distance-kept, maskOf(kept, distance))
		default:
			cause += ": peers would reach a neighbour's memory"
		}
		r.add("offset", cause, fmt.Sprintf("register at offset %d", want))
	case o.Offset == 0 && q.IOVA != 0 && !hostPages[q.Buffer.Exporter] && upToPage(o.Length, q.PageSize) < q.Buffer.Size &&
		uint64(1)<<bits.TrailingZeros64(q.IOVA) < min(floorPower(q.Buffer.Size), allocationAlign):
		// An address that no allocation of that size begins at may be a pointer
		// into one.
		r.add("offset", fmt.Sprintf("the offset is 0 and the buffer of %s is longer than the %s that are registered; the address %#x is a multiple of %d only",
			umem.Bytes(q.Buffer.Size), umem.Bytes(o.Length), q.IOVA, uint64(1)<<bits.TrailingZeros64(q.IOVA)),
			"if the pointer lies inside an allocation, the offset is its distance from the start; give its address and base to have it compared")
	}
}

// allocationAlign is what accelerators' allocations of that size and more begin
// at a multiple of: CUDA's and ROCm's large pages.
const allocationAlign = 2 << 20

// hostPages are exporters of host memory, whose addresses say nothing.
var hostPages = map[string]bool{"udmabuf": true, "system": true, "vgem": true}

// maskOf is the largest mask of low bits that makes kept of distance, 0 if none
// does.
func maskOf(kept, distance uint64) uint64 {
	for n := bits.Len64(distance) - 1; n >= bits.Len64(kept); n-- {
		if mask := uint64(1)<<n - 1; distance&mask == kept {
			return mask
		}
	}
	return 0
}

func floorPower(n uint64) uint64 { return uint64(1) << (bits.Len64(n) - 1) }

// upToPage rounds up; what cannot be rounded stays.
func upToPage(n, page uint64) uint64 {
	if page == 0 {
		page = 4096
	}
	if up := (n + page - 1) / page * page; up >= n {
		return up
	}
	return n
}

// warnDescriptors: a dma-buf for each registration that is not closed after it
// ends at the limit of open descriptors.
func (r *Report) warnDescriptors(more uint64) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return
	}
	// The lowest free number says how many are in use, about.
	free, err := unix.FcntlInt(uintptr(0), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		if err == syscall.EMFILE {
			r.add("descriptors", fmt.Sprintf("all %d descriptors of this process are in use", limit.Cur), "close each buffer once it is registered")
		}
		return
	}
	unix.Close(free)
	if used := uint64(free) + more; used > limit.Cur-limit.Cur/8 {
		r.add("descriptors", fmt.Sprintf("%d descriptors would be open, the limit is %d", used, limit.Cur),
			"close each buffer once it is registered (CloseAnyTime), or raise the limit (ulimit -n)")
	}
}

// warnTogether compares registrations with each other.
func warnTogether(reports []Report) {
	n := len(reports)
	if n < 2 {
		return
	}
	descending, small := 0, 0
	for i := range reports {
		a := &reports[i]
		page := max(a.options.PageSize, 4096)
		if i > 0 {
			b := &reports[i-1]
			if a.sameBuffer(b) && a.options.Offset == b.options.Offset && a.options.IOVA != b.options.IOVA {
				a.add("offset", fmt.Sprintf("registration %d has the same offset %d as the one before it, and another iova (%#x after %#x)",
					i, a.options.Offset, a.options.IOVA, b.options.IOVA), "each piece has its own offset: the first one's plus its distance")
			}
			if a.options.IOVA < b.options.IOVA {
				descending++
			}
			if a.options.Length < page && a.options.IOVA/page == b.options.IOVA/page {
				small++
			}
		}
	}
	first := &reports[0]
	if small > 0 && small >= n/2 {
		first.add("small regions", fmt.Sprintf("%d of %d registrations lie in the same page as the one before", small, n),
			"register the page, or the allocation, once, and address into it")
	}
	if n > 2 && descending == n-1 {
		first.add("order", fmt.Sprintf("%d registrations go from high addresses to low", n), "register in ascending order, which takes less than half the time")
	}
	first.warnDescriptors(uint64(n))
}

// sameBuffer says whether two registrations are of the same dma-buf, as far as
// that was told.
func (r *Report) sameBuffer(other *Report) bool {
	a, b := &r.options, &other.options
	if a.FD != nil && b.FD != nil {
		return *a.FD == *b.FD
	}
	return a.FD == nil && b.FD == nil && a.BufferSize == b.BufferSize && a.Exporter == b.Exporter
}
