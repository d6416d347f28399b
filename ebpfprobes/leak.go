package ebpfprobes

import (
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/symbols"
)

// Resource is a sort of object of the kernel that a process makes.
type Resource uint8

const (
	ProtectionDomain Resource = iota
	CompletionQueue
	QueuePair
	MemoryRegion
	DMABuffer
)

// String names the sort as the field's tools do.
func (r Resource) String() string { return word(r, "pd", "cq", "qp", "mr", "dma-buf") }

// Verdict is what is thought of the objects that one stack made. docs/tracing-reference.md has the
// rules.
type Verdict uint8

const (
	Steady Verdict = iota
	// Growing: over three windows the survivors never became fewer, and in two of three
	// intervals more, though some of them ended.
	Growing
	// Leaking: over the window none of the survivors ended, and in more than half of its
	// intervals they became more.
	Leaking
	// Abandoned: their maker has ended, and for an interval they have outlived it. Of RDMA
	// objects another process still holds the device's descriptor; dma-bufs no process holds.
	Abandoned
)

// String gives the verdict in a word.
func (v Verdict) String() string { return word(v, "steady", "growing", "leaking", "abandoned") }

// Frame is a function on a process's stack.
type Frame struct {
	Address  uint64
	Function string // "" is unknown
	Offset   uint64 // in the function, or in the file where the function is unknown
	File     string // as the process mapped it; "" is no file
}

// String gives the function and its file's name, or as much as is known.
func (f Frame) String() string { return symbols.Frame(f).String() }

// LeakRow tells of the objects of one sort that one stack of a process made on a device.
type LeakRow struct {
	PID      int    // 0 if Kernel
	Command  string // thread that made the first; of the kernel's own, who uses RDMA
	Kernel   bool   // the kernel's own
	Device   string // "" of dma-bufs
	Resource Resource
	Exporter string // of dma-bufs

	Alive     uint64
	Bytes     uint64 // of regions and dma-bufs
	Born      uint64 // of Alive, those younger than the interval
	Survivors uint64 // of Alive, those older than an interval
	Ended     uint64 // survivors that ended in the interval
	Grown     int64  // survivors of now less those at the window's beginning
	Oldest    time.Time

	// Gone tells that the process has ended. Unheld counts the dma-bufs that no process
	// has open or mapped: the kernel's importers alone hold them. That is asked of those
	// that have survived an interval, and answered once a minute. Unsearched are those of
	// which it is not known yet: a report looks through processes for so long only
	// (HolderBudget), and the next one goes on.
	Gone               bool
	Unheld, Unsearched uint64

	Verdict Verdict
	Stack   []Frame // innermost first
	// StackNote tells why Stack is empty or ends early; "" if it is whole.
	StackNote   string
	KernelStack []Frame // nil if not asked for; the files are modules
}
