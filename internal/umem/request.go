package umem

import (
	"fmt"
	"strings"
	"syscall"
)

// Request is a registration, and what is known of the parties to it. Zero is
// unknown, but for the numbers of the call itself.
type Request struct {
	Offset, Length, IOVA uint64 // bytes
	Access               uint64 // enum ib_uverbs_access_flags of rdma/ib_user_ioctl_verbs.h
	DMAHandle            bool   // by ibv_reg_mr_ex with a DMA handle

	Buffer   Buffer
	Device   Device
	Kernel   string // release, as uname -r tells it
	PageSize uint64 // of the kernel in bytes; unknown is taken as 4096
}

// Device is the RDMA device.
type Device struct {
	Driver    string // of the kernel, as in Imports; SoftwareDriver where the device has no hardware
	MaxMRSize uint64 // max_mr_size, bytes
	PageSizes uint64 // page_size_cap: bit n for pages of 2^n bytes
	// Access is what the device can do, as access bits. Drivers that look ask
	// of REMOTE_READ and REMOTE_WRITE (EFA).
	Access     uint64
	Translated bool // an IOMMU stands between the device and memory
}

// Buffer is what the descriptor names.
type Buffer struct {
	State    State
	Size     uint64 // bytes
	Exporter string // exp_name of fdinfo: udmabuf, vfio_pci_core, nv_dmabuf
	// Segments are where the buffer lies as the device sees it, all of it and
	// in order.
	Segments []Segment
}

// Segment is a contiguous piece of a buffer.
type Segment struct{ Addr, Length uint64 }

// State is whether a descriptor names a dma-buf.
type State int

const (
	StateUnknown State = iota
	StateDMABuf
	StateBad   // not open, or opened with O_PATH
	StateOther // another kind of file
)

// Access bits that are named here (enum ib_uverbs_access_flags).
const (
	LocalWrite      = 1 << 0
	RemoteWrite     = 1 << 1
	RemoteRead      = 1 << 2
	RemoteAtomic    = 1 << 3
	RelaxedOrdering = 1 << 20

	known    = LocalWrite | RemoteRead | RemoteWrite | RemoteAtomic | RelaxedOrdering
	optional = 0x3ff << 20 // IB_UVERBS_ACCESS_OPTIONAL_RANGE
)

// Verdict is what can be said of a rule.
type Verdict string

const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Unknown Verdict = "unknown"
)

// Rule is one thing that the kernel demands.
type Rule struct {
	Name    string // short and stable: "page offset"
	Demand  string // what must hold
	Where   string // the kernel's function
	Errno   syscall.Errno
	Verdict Verdict
	Numbers []Number // what was compared; both of a failure
	Cause   string   // of a failure: what is wrong; of an unknown: what is not known
	Remedy  string
}

// Number is one side of a comparison.
type Number struct {
	Name  string
	Value uint64
}

// String is the failure in a sentence, with its remedy.
func (r *Rule) String() string {
	s := r.Name + ": " + r.Cause
	if r.Remedy != "" {
		s += "; " + r.Remedy
	}
	return s
}

// First is the failed rule that the kernel meets first, nil if none fails.
func First(rules []Rule) *Rule {
	for i := range rules {
		if rules[i].Verdict == Failed {
			return &rules[i]
		}
	}
	return nil
}

// Errno is the kernel's answer: 0 where nothing fails that could be checked.
func Errno(rules []Rule) syscall.Errno {
	if r := First(rules); r != nil {
		return r.Errno
	}
	return 0
}

// Bytes prints a size exactly, and in a larger unit too where that is shorter.
func Bytes(n uint64) string {
	const units = "KMGTPE"
	short := ""
	for i, v := 0, n; i < len(units) && v >= 1024 && v%1024 == 0; i++ {
		v /= 1024
		short = fmt.Sprintf(" (%d %ciB)", v, units[i])
	}
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes%s", n, short)
}

// AccessNames names the bits, those without a name as a number.
func AccessNames(access uint64) string {
	var names []string
	for _, b := range []struct {
		bit  uint64
		name string
	}{
		{LocalWrite, "LOCAL_WRITE"}, {RemoteWrite, "REMOTE_WRITE"}, {RemoteRead, "REMOTE_READ"},
		{RemoteAtomic, "REMOTE_ATOMIC"}, {1 << 4, "MW_BIND"}, {1 << 5, "ZERO_BASED"}, {1 << 6, "ON_DEMAND"},
		{1 << 7, "HUGETLB"}, {1 << 8, "FLUSH_GLOBAL"}, {1 << 9, "FLUSH_PERSISTENT"}, {RelaxedOrdering, "RELAXED_ORDERING"},
	} {
		if access&b.bit != 0 {
			names = append(names, b.name)
			access &^= b.bit
		}
	}
	if access != 0 {
		names = append(names, fmt.Sprintf("%#x", access))
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "|")
}
