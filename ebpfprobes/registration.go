package ebpfprobes

import (
	"fmt"
	"syscall"
	"time"
)

// Operation is what a call does to a memory region.
type Operation uint8

const (
	Register Operation = iota
	Reregister
	Deregister
)

// String names the operation.
func (o Operation) String() string {
	return word(o, "register", "reregister", "deregister")
}

// Kind is where a region's memory is.
type Kind uint8

const (
	KindUnknown Kind = iota // a call that failed early
	Host                    // pages of the process, pinned
	OnDemand                // pages of the process, mapped when the device asks
	DMABuf                  // memory of another driver
	DEVX                    // by mlx5's own interface
)

// String names the kind.
func (k Kind) String() string {
	return word(k, "unknown", "host", "on-demand", "dma-buf", "devx")
}

// Phase is a part of a call. A call's phases do not overlap, and add up to the whole.
type Phase uint8

const (
	Uverbs    Phase = iota // the system call outside of what is below
	Driver                 // the driver's operation outside of what is below
	Pin                    // the process's pages are pinned
	Map                    // pages are mapped for the device (IOMMU, bounce buffers)
	Attach                 // dma-buf: the device is attached to it
	BufferPin              // dma-buf: its exporter pins it
	BufferMap              // dma-buf: its exporter maps it
	Fence                  // dma-buf: its work in flight is waited for
	Command                // the device carries out a command
	Tracing                // the session's own programs, at the end of the call
	Phases                 // how many there are

	UnknownPhase = Phases // of a failure: nobody told
)

// String names the phase.
func (p Phase) String() string {
	return word(p, "uverbs", "driver", "pin", "map", "attach", "buffer-pin", "buffer-map", "fence", "command", "tracing", "unknown")
}

func word[T ~uint8](v T, words ...string) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("?%d", v)
}

// Registration is one call that registered a memory region, or deregistered it.
type Registration struct {
	At        time.Time // when the call ended
	PID, TID  int
	Command   string // the thread's name
	Device    string // RDMA device; "" is unknown
	Operation Operation
	Kind      Kind
	Length    uint64 // bytes
	IOVA      uint64
	LKey      uint32
	RKey      uint32
	Took      time.Duration
	Spent     [Phases]time.Duration
	// Err is what the call returned, 0 if nothing failed. Cause is what the innermost
	// function that failed returned, in phase CausePhase: it may tell more.
	Err, Cause syscall.Errno
	CausePhase Phase
	Exporter   string  // of a dma-buf: "udmabuf", "nvidia", …
	Inode      uint64  // of a dma-buf, which tells it from others
	BufferSize uint64  // of a dma-buf, bytes
	Stack      []Frame // of the process, innermost first; nil if not asked for
}

// RegistrationKey tells rows of histograms apart.
type RegistrationKey struct {
	PID       int    // 0 is processes that have ended, see RegistrationRow
	Device    string // "" is unknown
	Operation Operation
	Kind      Kind
	Size      uint64 // the class: lengths from this, a power of two, to below its double; 0 is below 2 or unknown
}

// RegistrationRow is what a session counted of one key. When hundreds of processes have
// been seen, those of one name that have ended become one, whose PID is 0.
type RegistrationRow struct {
	RegistrationKey
	Command string // the process's name when it was first seen
	Failed  uint64 // of Whole.Count
	Bytes   uint64 // of all its calls
	Whole   Histogram
	Phases  [Phases]Histogram // empty where no call had the phase
}

// RegistrationFailure counts calls that failed alike.
type RegistrationFailure struct {
	PID        int
	Command    string
	Device     string
	Operation  Operation
	Kind       Kind
	Err, Cause syscall.Errno
	CausePhase Phase
	Count      uint64
}

// Losses counts what a session did not see or keep. All zero is the proof that the
// counts are exact.
type Losses struct {
	Flights uint64 // calls that were not followed: more threads at once than the table holds, or the end was missed
	Cells   uint64 // not counted: more keys than the table holds
	Events  uint64 // not sent: the reader was too slow; of leaks: stacks
	Regions uint64 // live regions, objects or queue pairs not kept
	Names   uint64 // processes or devices without a name
	// Unconfirmed write()s look like registrations; what they were written to could not be
	// looked at before the process ended. Of SyscallSession.
	Unconfirmed uint64
	Stacks      uint64 // of the kernel: their place in the table was another's
	Runs        uint64 // programs that the kernel did not run: one ran on that CPU, or a return probe had no room
	// Untold is how many return probes by kprobe are attached whose misses the kernel does
	// not tell (before Linux 6.7): what they missed is in none of the other numbers.
	Untold uint64
}

// Any tells whether something was lost that is known.
func (l Losses) Any() bool {
	l.Untold = 0
	return l != Losses{}
}
