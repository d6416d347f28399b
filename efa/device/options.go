package device

import (
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Layout of the doorbell BAR: a page for each UAR, so that a process that has
// one mapped reaches no other's queues; within a page, the send and receive
// doorbells of queue pair i at 8*i and 8*i+4, then the doorbell of completion
// queue i at 2048+4*i. A doorbell rung through another page than its queue's is
// ignored.
const (
	DoorbellPage = 4096
	MaxUARs      = 256
	// DoorbellBytes is the size of the doorbell BAR.
	DoorbellBytes = MaxUARs * DoorbellPage

	maxQPs     = 256
	maxCQs     = 512
	cqDoorbell = 2048
	maxEQs     = 256
	maxDepth   = 1 << 15 // what 16-bit producer counters can tell apart, and half of it to spare
	llqPage    = 4096

	maxRecvSGEs = 4
	entrySize   = 64  // bytes in a transmit entry
	wideEntry   = 128 // in one with more inline data
)

// CapsNone asks for a device without any capability, since the zero value of
// Options.Caps means all.
const CapsNone wire.DeviceCaps = 1 << 31

const allCaps = wire.CapRDMARead | wire.CapRNRRetry | wire.CapRDMAWrite |
	wire.CapUnsolicitedWriteRecv | wire.CapEventCounters | wire.CapSQReqID64

// Options say what device to make. The zero value is a good embedded device: all
// capabilities, one sub-CQ, no latency, no line rate, this process's memory.
type Options struct {
	Name   string   // for errors; "efaN" if empty
	GID    wire.GID // unique in the fabric; made up if zero
	GUID   uint64   // made up if zero
	Memory Memory   // ProcessMemory if nil

	// Interrupt raises an MSI-X vector. It may be called from any goroutine that
	// works for a device of the fabric, with no lock held, and must not block.
	Interrupt func(vector int)
	// Event tells of what happens to the device itself. Same rules.
	Event func(Event)

	Caps      wire.DeviceCaps // CapsNone for none, 0 for all but CapDataPolling128
	SubCQs    int             // 1 or 2; default 1
	MaxInline int             // bytes in a transmit entry; default 80, which wants 128-byte entries; 32 for 64-byte ones only

	MaxQPs, MaxCQs, MaxEQs int // default and most 256, 512, 256
	MaxMRs                 int // default 65535
	MaxPDs, MaxAHs         int // default 1024, 8192
	MaxSQDepth             int // entries; default 4096
	MaxRQDepth             int // receive descriptors; default 8192
	MaxCQDepth             int // entries in a sub-CQ; default 32768
	MaxEQDepth             int // default 8192
	MaxCounters            int // default 1024, if the device has event counters
	MaxBatch               int // 64-byte units between doorbells; 0 is unlimited
	MaxRDMASize            uint32
	MaxMRPages             uint32
	MaxRecvSGEs            int    // default and most 4
	LLQBytes               int    // device memory for all send rings; default 16 MiB
	LLQ                    []byte // that memory, if it is to be the caller's (a mapped BAR 2)

	LinkSpeed int           // Gbit/s as told to the driver; default 100, or the line rate
	LineRate  float64       // Gbit/s that the device really sends at; 0 is as fast as it goes
	Latency   time.Duration // of what this device sends: requests, and answers

	// RetransmitTimeout is how long a packet waits for its answer, default 2 ms;
	// PeerTimeout how long a peer may answer nothing before requests fail as
	// unresponsive or unreachable, default 1 s; RNRDelay how long a request
	// first waits for a receive before it tries again, default 200 us; it grows
	// to 16 times that.
	RetransmitTimeout time.Duration
	PeerTimeout       time.Duration
	RNRDelay          time.Duration
}

// Attr is what a device reports of itself, as GET_FEATURE tells it. What belongs
// to the PCI function is left zero: features, versions, BAR, address widths.
type Attr struct {
	Device  wire.DeviceAttr
	Queue1  wire.QueueAttr1
	Queue2  wire.QueueAttr2
	EQ      wire.EventQueueAttr
	Network wire.NetworkAttr
}

const allCounterEvents = wire.CountRemoteWrite<<1 - 1

func (o Options) withDefaults() (Options, error) {
	set := func(p *int, def, most int) {
		if *p <= 0 {
			*p = def
		}
		*p = min(*p, most)
	}
	set(&o.SubCQs, 1, 2)
	set(&o.MaxInline, wire.MaxInlineWide, wire.MaxInlineWide)
	set(&o.MaxQPs, maxQPs, maxQPs)
	set(&o.MaxCQs, maxCQs, maxCQs)
	set(&o.MaxEQs, maxEQs, maxEQs)
	set(&o.MaxMRs, 1<<16-1, 1<<16-1)
	set(&o.MaxPDs, 1024, 1<<15)
	set(&o.MaxAHs, 8192, 1<<15)
	set(&o.MaxSQDepth, 4096, maxDepth)
	set(&o.MaxRQDepth, 8192, maxDepth)
	set(&o.MaxCQDepth, maxDepth, maxDepth)
	set(&o.MaxEQDepth, 8192, maxDepth)
	set(&o.MaxCounters, 1024, 1<<16)
	set(&o.MaxRecvSGEs, maxRecvSGEs, maxRecvSGEs)
	set(&o.LLQBytes, 16<<20, 1<<30)
	set(&o.LinkSpeed, max(100, int(o.LineRate)), 1<<16-1)
	if o.LLQ != nil {
		o.LLQBytes = len(o.LLQ)
	}
	if o.LLQBytes < llqPage || o.LLQBytes%llqPage != 0 {
		return o, illegal("make device", "device memory of %d bytes is not a multiple of %d", o.LLQBytes, llqPage)
	}
	if o.MaxBatch < 0 || o.MaxBatch > 1<<16-1 {
		return o, illegal("make device", "a batch of %d units", o.MaxBatch)
	}
	switch {
	case o.Caps == 0:
		o.Caps = allCaps
	case o.Caps&CapsNone != 0:
		o.Caps = 0
	}
	if o.Caps&wire.CapEventCounters == 0 {
		o.MaxCounters = 0
	}
	if o.MaxRDMASize == 0 {
		o.MaxRDMASize = 1 << 30
	}
	if o.MaxMRPages == 0 {
		o.MaxMRPages = 1 << 24
	}
	if o.Memory == nil {
		o.Memory = ProcessMemory()
	}
	wait := func(p *time.Duration, def time.Duration) {
		if *p <= 0 {
			*p = def
		}
	}
	wait(&o.RetransmitTimeout, 2*time.Millisecond)
	wait(&o.PeerTimeout, time.Second)
	wait(&o.RNRDelay, 200*time.Microsecond)
	return o, nil
}

// Attr reports the device's limits and capabilities.
func (d *Device) Attr() Attr {
	o := &d.opts
	a := Attr{
		Device: wire.DeviceAttr{
			PageSizeCap:  1<<(maxPageShift+1) - 1<<minPageShift,
			Caps:         o.Caps,
			MaxRDMASize:  o.MaxRDMASize,
			GUID:         o.GUID,
			MaxLinkSpeed: uint16(o.LinkSpeed),
		},
		Queue1: wire.QueueAttr1{
			MaxQP:         uint32(o.MaxQPs),
			MaxSQDepth:    uint32(o.MaxSQDepth),
			InlineBufSize: uint32(min(o.MaxInline, wire.MaxInline)),
			MaxRQDepth:    uint32(o.MaxRQDepth),
			MaxCQ:         uint32(o.MaxCQs),
			MaxCQDepth:    uint32(o.MaxCQDepth),
			SubCQsPerCQ:   uint16(o.SubCQs),
			MaxSendSGEs:   wire.MaxSendBufs,
			MaxRecvSGEs:   uint16(o.MaxRecvSGEs),
			MaxMR:         uint32(o.MaxMRs),
			MaxMRPages:    o.MaxMRPages,
			MaxPD:         uint32(o.MaxPDs),
			MaxAH:         uint32(o.MaxAHs),
			// A ring of 128-byte entries is half as deep as one of 64.
			MaxLLQSize:  uint32(min(o.LLQBytes, o.MaxSQDepth*entrySize)),
			MaxRDMASGEs: wire.MaxRDMABufs,
			MaxTxBatch:  uint16(o.MaxBatch),
		},
		Queue2: wire.QueueAttr2{InlineBufSizeEx: uint16(o.MaxInline)},
		EQ: wire.EventQueueAttr{
			MaxEQ: uint32(o.MaxEQs), MaxEQDepth: uint32(o.MaxEQDepth), Events: wire.EQCompletionEvents,
		},
		Network: wire.NetworkAttr{Addr: o.GID, MTU: uint32(d.mtu)},
	}
	if o.MaxCounters > 0 {
		a.Queue2.CounterEvents = allCounterEvents
		a.Queue2.MaxCounters = uint32(o.MaxCounters)
		a.Queue2.CounterMaxVal = 1<<64 - 1
	}
	return a
}
