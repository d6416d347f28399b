package device

import (
	"sync/atomic"
	"time"
)

// FaultPlan says what goes wrong. Shares are between 0 and 1. What befalls a
// packet or message is drawn from Seed and what it is (queue pair, how many
// messages before, packet, attempt), so it does not depend on how goroutines are
// scheduled: the same work under the same seed meets the same faults.
type FaultPlan struct {
	Seed uint64

	// Of packets: lost, and sent again after the retransmit timeout; arriving
	// twice, and recognised; arriving late by DelayTime (default 200 us).
	Loss, Duplicate, Delay float64
	DelayTime              time.Duration
	// LossAbove loses every packet with more bytes than that, as on a way whose MTU
	// is smaller than both ends think; 0 for none. They count as Loss. What goes by
	// a [Link] are pieces of 128 KiB at most.
	LossAbove uint32

	// Of messages. AckLoss: carried out, but the answer is lost, so it is sent
	// again and must not be carried out twice. RNR: the target behaves as if no
	// receive were posted, once. CorruptKey: the target takes the remote key for
	// a wrong one. Abort: the target resets the connection.
	AckLoss, RNR, CorruptKey, Abort float64

	LinkDown      bool // nothing leaves or arrives
	Unresponsive  bool // nothing that arrives is answered, or carried out
	DropKeepAlive bool // for the PCI function, which sends the keep-alives
}

// FaultCounts count what was injected.
type FaultCounts struct {
	Loss, Duplicate, Delay          uint64
	AckLoss, RNR, CorruptKey, Abort uint64
	LinkDown, Unresponsive          uint64 // packets that met it
}

// Total is how many faults were injected.
func (c FaultCounts) Total() uint64 {
	return c.Loss + c.Duplicate + c.Delay + c.AckLoss + c.RNR + c.CorruptKey + c.Abort + c.LinkDown + c.Unresponsive
}

// Faults injects faults into a device or a fabric. The zero value injects none. It
// is safe for concurrent use.
type Faults struct {
	onLink func(up bool)
	plan   atomic.Pointer[compiledPlan]

	loss, duplicate, delay          atomic.Uint64
	ackLoss, rnr, corruptKey, abort atomic.Uint64
	linkDown, unresponsive          atomic.Uint64
}

// compiledPlan has shares as bounds on 32-bit numbers.
type compiledPlan struct {
	FaultPlan
	loss, duplicate, delay          uint64 // cumulative
	ackLoss, rnr, corruptKey, abort uint64 // cumulative
}

func share(f float64) uint64 { return uint64(max(0, min(1, f)) * (1 << 32)) }

// Set begins to inject by a plan, instead of any before.
func (f *Faults) Set(p FaultPlan) {
	if p.DelayTime <= 0 {
		p.DelayTime = 200 * time.Microsecond
	}
	c := &compiledPlan{FaultPlan: p}
	c.loss = share(p.Loss)
	c.duplicate = c.loss + share(p.Duplicate)
	c.delay = c.duplicate + share(p.Delay)
	c.ackLoss = share(p.AckLoss)
	c.rnr = c.ackLoss + share(p.RNR)
	c.corruptKey = c.rnr + share(p.CorruptKey)
	c.abort = c.corruptKey + share(p.Abort)
	f.plan.Store(c)
	if f.onLink != nil {
		f.onLink(!p.LinkDown)
	}
}

// Update changes the plan that is in force. Callers at the same time may overwrite
// each other's changes.
func (f *Faults) Update(change func(*FaultPlan)) {
	p := f.Plan()
	change(&p)
	f.Set(p)
}

// Clear stops injecting. Counts stay.
func (f *Faults) Clear() {
	f.plan.Store(nil)
	if f.onLink != nil {
		f.onLink(true)
	}
}

// Plan gives the plan in force.
func (f *Faults) Plan() FaultPlan {
	if c := f.plan.Load(); c != nil {
		return c.FaultPlan
	}
	return FaultPlan{}
}

// Counts tells what was injected so far.
func (f *Faults) Counts() FaultCounts {
	return FaultCounts{
		Loss: f.loss.Load(), Duplicate: f.duplicate.Load(), Delay: f.delay.Load(),
		AckLoss: f.ackLoss.Load(), RNR: f.rnr.Load(), CorruptKey: f.corruptKey.Load(), Abort: f.abort.Load(),
		LinkDown: f.linkDown.Load(), Unresponsive: f.unresponsive.Load(),
	}
}

// fate is what befalls one packet or message.
type fate uint8

const (
	fateNone fate = iota
	fateLoss
	fateDuplicate
	fateDelay
	fateAckLoss
	fateRNR
	fateCorruptKey
	fateAbort
)

// any reports whether there is a plan.
func (f *Faults) any() bool { return f.plan.Load() != nil }

// packetFate draws for a packet, messageFate for a message. key says what it is.
func (f *Faults) packetFate(key uint64, bytes uint32) (fate, time.Duration) {
	p := f.plan.Load()
	switch {
	case p == nil:
		return fateNone, 0
	case p.LossAbove > 0 && bytes > p.LossAbove:
		f.loss.Add(1)
		return fateLoss, 0
	case p.delay == 0:
		return fateNone, 0
	}
	switch x := mix(p.Seed, key) >> 32; {
	case x < p.loss:
		f.loss.Add(1)
		return fateLoss, 0
	case x < p.duplicate:
		f.duplicate.Add(1)
		return fateDuplicate, 0
	case x < p.delay:
		f.delay.Add(1)
		return fateDelay, p.DelayTime
	}
	return fateNone, 0
}

func (f *Faults) messageFate(key uint64) fate {
	p := f.plan.Load()
	if p == nil || p.abort == 0 {
		return fateNone
	}
	switch x := mix(p.Seed, key) >> 32; {
	case x < p.ackLoss:
		return fateAckLoss
	case x < p.rnr:
		return fateRNR
	case x < p.corruptKey:
		return fateCorruptKey
	case x < p.abort:
		return fateAbort
	}
	return fateNone
}

// count counts a message's fate when it comes to pass.
func (f *Faults) count(x fate) {
	switch x {
	case fateAckLoss:
		f.ackLoss.Add(1)
	case fateRNR:
		f.rnr.Add(1)
	case fateCorruptKey:
		f.corruptKey.Add(1)
	case fateAbort:
		f.abort.Add(1)
	}
}

// silent reports whether nothing gets through, and counts it.
func (f *Faults) silent(target bool) bool {
	p := f.plan.Load()
	if p == nil {
		return false
	}
	if p.LinkDown {
		f.linkDown.Add(1)
		return true
	}
	if target && p.Unresponsive {
		f.unresponsive.Add(1)
		return true
	}
	return false
}
