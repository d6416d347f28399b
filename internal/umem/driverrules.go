package umem

import (
	"fmt"
	"math/bits"
	"syscall"
)

// Rules of single drivers, from drivers/infiniband/hw of 6.12.117 and 7.3.4.

// dmaHandle: every driver but mlx5 refuses them before anything else.
var dmaHandle = rule{"DMA handle", "no DMA handle is given", "the driver's reg_user_mr_dmabuf", syscall.EOPNOTSUPP, func(c *checker) outcome {
	if !c.DMAHandle {
		return passed()
	}
	return failed(fmt.Sprintf("%s takes no DMA handle", c.driver.name), "register without one")
}}

// efaAccess is efa_alloc_mr, which precedes the look at the buffer.
var efaAccess = rule{"efa access", "LOCAL_WRITE, and what the device can do remotely", "efa_alloc_mr", syscall.EOPNOTSUPP, func(c *checker) outcome {
	asked := c.Access &^ optional
	can := uint64(LocalWrite | RemoteRead | RemoteWrite)
	if c.Device.Access != 0 {
		can &= c.Device.Access | LocalWrite
	}
	// The driver of 6.1 does not know of RDMA write, whatever the device can.
	if c.kernel != (version{}) && !v6_1.before(c.kernel) {
		can &^= RemoteWrite
	}
	numbers := []Number{{"access", asked}, {"supported", can}}
	switch missing := asked &^ can; {
	case missing&RemoteAtomic != 0:
		return failed(fmt.Sprintf("access %#x has REMOTE_ATOMIC; EFA has no atomics and takes %#x", asked, can), "leave it out", numbers...)
	case missing != 0:
		return failed(fmt.Sprintf("access %#x has %s; the device and its driver take %#x (%s)", asked, AccessNames(missing), can, AccessNames(can)),
			"leave it out, and move data by operations that the device has", numbers...)
	case asked&(RemoteRead|RemoteWrite) != 0 && c.Device.Access == 0:
		return unknown("whether the device has RDMA read and write")
	}
	return passed(numbers...)
}}

// irdmaMaxMR is IRDMA_MAX_MR_SIZE of irdma/user.h.
const irdmaMaxMR = 0x200000000000

var irdmaLength = rule{"irdma length", "the length is within max_mr_size", "irdma_reg_user_mr_dmabuf", syscall.EINVAL, func(c *checker) outcome {
	most := c.Device.MaxMRSize
	if most == 0 {
		most = irdmaMaxMR
	}
	return within(c.Length, most)
}}

// bnxtMaxMR is BNXT_RE_MAX_MR_SIZE of bnxt_re.h.
const bnxtMaxMR = 1 << 39

var bnxtLength = rule{"bnxt_re length", "the length is within max_mr_size", "__bnxt_re_user_reg_mr", syscall.ENOMEM, func(c *checker) outcome {
	return within(c.Length, bnxtMaxMR)
}}

// deviceLimit is no check of the kernel: devices refuse, and their drivers say
// ENOMEM.
var deviceLimit = rule{"device limit", "the length is within max_mr_size", "the device", syscall.ENOMEM, func(c *checker) outcome {
	if c.Device.MaxMRSize == 0 {
		return unknown("the device's max_mr_size")
	}
	return within(c.Length, c.Device.MaxMRSize)
}}

func within(length, most uint64) outcome {
	numbers := []Number{{"length", length}, {"max_mr_size", most}}
	if length <= most {
		return passed(numbers...)
	}
	return failed(fmt.Sprintf("length %s, the device's max_mr_size is %s", Bytes(length), Bytes(most)), "register in pieces", numbers...)
}

// mlx5UMRPages is MLX5_MAX_UMR_PAGES of mlx5/umr.h.
const mlx5UMRPages = 1 << 16

var mlx5Length = rule{"mlx5 length", "a work request can load so long a translation", "mlx5r_umr_can_load_pas", syscall.EINVAL, func(c *checker) outcome {
	most := mlx5UMRPages*c.page - 1
	numbers := []Number{{"length", c.Length}, {"every device", most}}
	if c.Length <= most {
		return passed(numbers...)
	}
	return unknown(fmt.Sprintf("whether the device has umr_extended_translation_offset, which lengths over %d take", most), numbers...)
}}

// pageSize is the choice of one page size for the whole region. What it gives
// where there is none differs from driver to driver.
func pageSize(errno syscall.Errno) rule {
	return rule{"page size", "one page size of the device fits all of the region", "ib_umem_find_best_pgsz", errno, checkPageSize}
}

func checkPageSize(c *checker) outcome {
	if c.Length == 0 {
		return unknown("there is no byte")
	}
	if _, carry := bits.Add64(c.Length-1, c.IOVA, 0); carry != 0 {
		return failed(fmt.Sprintf("iova %#x + length %#x passes 2^64", c.IOVA, c.Length), "choose a lower iova",
			Number{"iova", c.IOVA}, Number{"length", c.Length})
	}
	sizes := c.Device.PageSizes
	if sizes == 0 {
		return unknown("the device's page sizes")
	}
	least := sizes & -sizes
	numbers := []Number{{"page sizes", sizes}, {"kernel's page", c.page}}
	if len(c.Buffer.Segments) > 0 {
		best := BestPageSize(sizes, c.page, c.Offset, c.Length, c.IOVA, c.Buffer.Segments)
		if best != 0 {
			return passed(append(numbers, Number{"chosen", best})...)
		}
		return failed(fmt.Sprintf("no page size of the device (%#x) divides the buffer's pieces so that iova %#x keeps its place in each", sizes, c.IOVA),
			fmt.Sprintf("give an iova that is equal to the first byte's address modulo %d, and memory in pieces of a multiple of it", least), numbers...)
	}
	// The kernel hands pages over: what its own page size or a smaller one
	// divides always fits, once offset and iova agree.
	if least <= c.page {
		return passed(numbers...)
	}
	return unknown(fmt.Sprintf("whether the buffer lies in pieces that the device's smallest page, %s, divides", Bytes(least)), numbers...)
}

// BestPageSize is ib_umem_find_best_pgsz of a dma-buf that lies in segments:
// the page size, one bit of sizes, in which a region of length bytes from
// offset on is described with the fewest entries; 0 where none fits.
func BestPageSize(sizes, page, offset, length, iova uint64, segments []Segment) uint64 {
	if length == 0 || page == 0 {
		return 0
	}
	last, carry := bits.Add64(length-1, iova, 0)
	if carry != 0 {
		return 0
	}
	var mask uint64
	if n := max(1, bits.Len64(iova^last)); n < 64 {
		// The smallest size that holds all is the largest of use.
		mask = sizes &^ (1<<n - 1)
	}
	start := offset &^ (page - 1)
	end, carry := bits.Add64(offset, length, 0)
	if carry != 0 {
		return 0
	}
	if up := (end + page - 1) &^ (page - 1); up >= end {
		end = up
	}
	within := offset - start // place in the first piece
	va := iova
	next, more, first := uint64(0), false, true
	at := uint64(0) // in the buffer
	for _, s := range segments {
		if at >= end {
			break
		}
		past, carry := bits.Add64(at, s.Length, 0)
		if carry != 0 {
			past = end
		}
		from, to := max(start, at), min(end, past)
		if from < to {
			addr := s.Addr + (from - at)
			if !more || next != addr {
				mask |= (addr + within) ^ va
				if !first {
					mask |= va
				}
			}
			size := to - from
			next, more = addr+size, addr+size >= addr
			va += size - within
			within, first = 0, false
		}
		at = past
	}
	if first {
		return 0
	}
	if mask != 0 {
		sizes &= mask&-mask | (mask&-mask - 1)
	}
	if sizes == 0 {
		return 0
	}
	return 1 << (bits.Len64(sizes) - 1)
}
