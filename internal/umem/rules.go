package umem

import (
	"fmt"
	"math/bits"
	"syscall"
)

// rule is a Rule before it met a request.
type rule struct {
	name, demand, where string
	errno               syscall.Errno
	check               func(*checker) outcome
}

type outcome struct {
	verdict       Verdict
	numbers       []Number
	cause, remedy string
}

func passed(numbers ...Number) outcome { return outcome{verdict: Passed, numbers: numbers} }

func unknown(what string, numbers ...Number) outcome {
	return outcome{verdict: Unknown, cause: what, numbers: numbers}
}

func failed(cause, remedy string, numbers ...Number) outcome {
	return outcome{verdict: Failed, cause: cause, remedy: remedy, numbers: numbers}
}

// checker is a request, with what is derived from it.
type checker struct {
	*Request
	page   uint64
	kernel version
	vendor bool
	driver *driver // nil if unknown
}

// Check replays the kernel's checks, in its order and to the end: what comes
// after the first failure shows what else would have to change.
func Check(r *Request) []Rule {
	c := checker{Request: r, page: r.PageSize, driver: driverOf(r.Device.Driver)}
	c.kernel, c.vendor = parseVersion(r.Kernel)
	if c.page == 0 || c.page&(c.page-1) != 0 {
		c.page = 4096
	}
	var out []Rule
	run := func(rules []rule) {
		for _, u := range rules {
			o := u.check(&c)
			out = append(out, Rule{u.name, u.demand, u.where, u.errno, o.verdict, o.numbers, o.cause, o.remedy})
		}
	}
	run(callRules)
	if c.driver != nil {
		run(c.driver.early)
	}
	run(bufferRules)
	if c.driver != nil {
		run(c.driver.late)
	} else {
		run([]rule{deviceLimit})
	}
	return out
}

// callRules are of the call itself, before the driver is asked.
var callRules = []rule{
	{"call", "the kernel has the call", "uverbs ioctl", syscall.EPROTONOSUPPORT, checkCall},
	{"driver", "the device's driver imports dma-bufs", "UVERBS_METHOD_REG_DMABUF_MR", syscall.EOPNOTSUPP, checkDriver},
	{"page offset", "offset and iova lie at the same place in a page", "UVERBS_METHOD_REG_DMABUF_MR", syscall.EINVAL, checkPageOffset},
	{"access bits", "LOCAL_WRITE, REMOTE_*, RELAXED_ORDERING only", "uverbs_get_flags32", syscall.EINVAL, checkAccessBits},
	{"local write", "REMOTE_WRITE and REMOTE_ATOMIC come with LOCAL_WRITE", "ib_check_mr_access", syscall.EINVAL, checkLocalWrite},
}

// bufferRules are ib_umem_dmabuf_get, which every driver calls.
var bufferRules = []rule{
	{"range", "offset + length is a 64-bit number", "ib_umem_dmabuf_get", syscall.EINVAL, checkRange},
	{"descriptor", "the descriptor is open", "dma_buf_get", syscall.EBADF, checkDescriptor},
	{"dma-buf", "the descriptor is a dma-buf", "dma_buf_get", syscall.EINVAL, checkKind},
	{"size", "the buffer reaches to offset + length", "ib_umem_dmabuf_get", syscall.EINVAL, checkSize},
	{"length", "there is at least one byte", "ib_umem_num_pages", syscall.EINVAL, checkLength},
	{"exporter", "the exporter takes this kind of importer", "dma_buf_dynamic_attach", syscall.EOPNOTSUPP, checkExporter},
}

// firstImport is the kernel that brought ib_umem_dmabuf and the call.
var firstImport = version{5, 12}

func checkCall(c *checker) outcome {
	switch {
	case c.kernel == version{}:
		return unknown("the kernel's release")
	case c.kernel.before(firstImport):
		return failed(fmt.Sprintf("linux %v has no call to register a dma-buf; it came with %v", c.kernel, firstImport),
			"take a newer kernel, or register memory by its address")
	}
	return passed()
}

func checkPageOffset(c *checker) outcome {
	a, b := c.Offset%c.page, c.IOVA%c.page
	numbers := []Number{{fmt.Sprintf("offset mod %d", c.page), a}, {fmt.Sprintf("iova mod %d", c.page), b}}
	if a == b {
		return passed(numbers...)
	}
	return failed(fmt.Sprintf("offset %#x is at byte %d of its page, iova %#x at byte %d", c.Offset, a, c.IOVA, b),
		fmt.Sprintf("choose an iova that is %d modulo %d, as the memory's own address is, or correct the offset", a, c.page), numbers...)
}

func checkAccessBits(c *checker) outcome {
	numbers := []Number{{"access", c.Access}, {"allowed", known}}
	if c.Access&^known == 0 {
		return passed(numbers...)
	}
	return failed(fmt.Sprintf("access %#x has %s, which no dma-buf takes; allowed is %#x", c.Access, AccessNames(c.Access&^known), uint64(known)),
		"leave it out", numbers...)
}

func checkLocalWrite(c *checker) outcome {
	if c.Access&(RemoteWrite|RemoteAtomic) == 0 || c.Access&LocalWrite != 0 {
		return passed()
	}
	return failed(fmt.Sprintf("access %#x is %s; REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too", c.Access, AccessNames(c.Access)),
		"add LOCAL_WRITE", Number{"access", c.Access}, Number{"needed", c.Access | LocalWrite})
}

func checkRange(c *checker) outcome {
	numbers := []Number{{"offset", c.Offset}, {"length", c.Length}}
	if _, carry := bits.Add64(c.Offset, c.Length, 0); carry == 0 {
		return passed(numbers...)
	}
	return failed(fmt.Sprintf("offset %#x + length %#x passes 2^64", c.Offset, c.Length),
		"one of them was computed by a subtraction that went below 0, or sign-extended", numbers...)
}

func checkDescriptor(c *checker) outcome {
	switch c.Buffer.State {
	case StateUnknown:
		return unknown("the descriptor")
	case StateBad:
		return failed("the descriptor is not open in this process",
			"keep it open until the registration; another process's must come over a unix socket")
	}
	return passed()
}

func checkKind(c *checker) outcome {
	switch c.Buffer.State {
	case StateUnknown, StateBad:
		return unknown("the descriptor")
	case StateOther:
		return failed("the descriptor is another kind of file", "give the descriptor that the memory's exporter gave")
	}
	return passed()
}

func checkSize(c *checker) outcome {
	end, carry := bits.Add64(c.Offset, c.Length, 0)
	switch {
	case c.Buffer.Size == 0:
		return unknown("the buffer's size")
	case carry != 0:
		return unknown("offset + length is no number", Number{"buffer size", c.Buffer.Size})
	case end <= c.Buffer.Size:
		return passed(Number{"offset + length", end}, Number{"buffer size", c.Buffer.Size})
	}
	remedy := "register less, or export more"
	if c.Buffer.Size >= c.Length {
		remedy = fmt.Sprintf("the length fits, the offset does not: it counts from the first byte of the dma-buf, and may be at most %d", c.Buffer.Size-c.Length)
	} else if c.Offset < c.Buffer.Size {
		remedy = "the dma-buf holds a part of the memory only, as one segment of an allocation that was mapped in pieces: " +
			"export the range that is registered, or register each segment by its own dma-buf"
	}
	return failed(fmt.Sprintf("offset %d + length %d = %d, the buffer has %s", c.Offset, c.Length, end, Bytes(c.Buffer.Size)),
		remedy, Number{"offset + length", end}, Number{"buffer size", c.Buffer.Size})
}

func checkLength(c *checker) outcome {
	// The kernel counts pages, from address 0: the iova is not set yet. A
	// length in the last page of 2^64 counts as none.
	if up := c.Length + c.page - 1; up >= c.Length && up/c.page != 0 {
		return passed(Number{"length", c.Length})
	}
	return failed(fmt.Sprintf("a length of %#x is 0 pages of %d bytes", c.Length, c.page), "register at least one byte",
		Number{"length", c.Length}, Number{"least", 1})
}

func checkExporter(c *checker) outcome {
	switch {
	case c.Buffer.Exporter == "":
		return unknown("the exporter")
	case !isVFIO(c.Buffer.Exporter):
		return passed()
	case c.driver == nil || c.kernel == version{}:
		return unknown("how the device's driver imports: vfio takes only those that can be told to stop")
	case c.driver.revocable != (version{}) && !c.kernel.before(c.driver.revocable):
		return passed()
	}
	return failed(fmt.Sprintf("%s takes only importers that it can tell to stop, and %s pins for good", c.Buffer.Exporter, c.driver.name),
		"use a NIC whose driver can be told (mlx5; irdma of linux 7.3), or another exporter of that device's memory")
}

func isVFIO(exporter string) bool {
	return exporter == "vfio_pci_core" || exporter == "vfio-pci-core" || exporter == "vfio_pci" || exporter == "vfio"
}
