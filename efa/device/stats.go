package device

import (
	"sync/atomic"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Stats are a device's statistics: the sets that GET_STATS reports, and what this
// device counts beyond them. They only grow, also across resets.
type Stats struct {
	Basic     wire.BasicStats
	Messages  wire.MessagesStats
	RDMARead  wire.RDMAReadStats
	RDMAWrite wire.RDMAWriteStats
	Network   wire.NetworkStats

	// Where payload lay, of reads and writes and of messages: a detour through the
	// host's memory shows here.
	RDMAPayload, MessagePayload PayloadStats

	Duplicates    uint64 // packets that came twice and were dropped
	RNRs          uint64 // times that a request found no receive
	OutOfOrder    uint64 // messages that completed before an earlier one of their queue pair
	BadDoorbells  uint64 // doorbells of no queue, or beyond the queue's depth
	BadReceives   uint64 // receive descriptors that make no sense
	RingFaults    uint64 // ring entries or counters whose memory was not mapped
	CQOverruns    uint64 // completions written over unread ones, as far as doorbells tell
	Events        uint64 // event queue entries
	Registrations uint64
	Resets        uint64
	Fatal         uint64
	Faults        FaultCounts // injected at this device
}

// PayloadStats are the bytes of memory regions that a device read and wrote, by
// where they lie: see [Placer]. Bytes in work entries (inline) are in no region,
// and rings, completions and counters are no payload. A datagram's route header,
// which the device writes into the receive, counts.
type PayloadStats struct {
	HostRead, HostWritten               uint64
	AcceleratorRead, AcceleratorWritten uint64
}

// payload counts the bytes of regions: read, written, in each place.
type payload [places][2]uint64

type payloadCounters [places][2]atomic.Uint64

func (c *payloadCounters) add(p *payload) {
	for place := range p {
		for way, n := range p[place] {
			if n != 0 {
				c[place][way].Add(n)
			}
		}
	}
}

func (c *payloadCounters) stats() PayloadStats {
	host, accelerator := &c[PlaceHost], &c[PlaceAccelerator]
	return PayloadStats{
		HostRead: host[0].Load(), HostWritten: host[1].Load(),
		AcceleratorRead: accelerator[0].Load(), AcceleratorWritten: accelerator[1].Load(),
	}
}

type counters struct {
	rdmaPayload, messagePayload                          payloadCounters
	txBytes, txPkts, rxBytes, rxPkts, rxDrops, qkeyViol  atomic.Uint64
	sendBytes, sendWRs, recvBytes, recvWRs               atomic.Uint64
	readWRs, readBytes, readErr, readRespBytes           atomic.Uint64
	writeWRs, writeBytes, writeErr, writeRecvBytes       atomic.Uint64
	retransBytes, retransPkts, timeouts, gone, impaired  atomic.Uint64
	duplicates, rnrs, outOfOrder, badDoorbells           atomic.Uint64
	badReceives, ringFaults, cqOverruns, events, regions atomic.Uint64
	resets, fatal                                        atomic.Uint64
}

// Stats gives the statistics so far.
func (d *Device) Stats() Stats {
	s := &d.stats
	return Stats{
		Basic: wire.BasicStats{
			TxBytes: s.txBytes.Load(), TxPkts: s.txPkts.Load(), RxBytes: s.rxBytes.Load(), RxPkts: s.rxPkts.Load(),
			RxDrops: s.rxDrops.Load(), QKeyViol: s.qkeyViol.Load(),
		},
		Messages: wire.MessagesStats{
			SendBytes: s.sendBytes.Load(), SendWRs: s.sendWRs.Load(), RecvBytes: s.recvBytes.Load(), RecvWRs: s.recvWRs.Load(),
		},
		RDMARead: wire.RDMAReadStats{
			ReadWRs: s.readWRs.Load(), ReadBytes: s.readBytes.Load(), ReadWRErr: s.readErr.Load(), ReadRespBytes: s.readRespBytes.Load(),
		},
		RDMAWrite: wire.RDMAWriteStats{
			WriteWRs: s.writeWRs.Load(), WriteBytes: s.writeBytes.Load(), WriteWRErr: s.writeErr.Load(), WriteRecvBytes: s.writeRecvBytes.Load(),
		},
		Network: wire.NetworkStats{
			RetransBytes: s.retransBytes.Load(), RetransPkts: s.retransPkts.Load(), RetransTimeoutEvents: s.timeouts.Load(),
			UnresponsiveRemoteEvents: s.gone.Load(), ImpairedRemoteConnEvents: s.impaired.Load(),
		},
		RDMAPayload: s.rdmaPayload.stats(), MessagePayload: s.messagePayload.stats(),
		Duplicates: s.duplicates.Load(), RNRs: s.rnrs.Load(), OutOfOrder: s.outOfOrder.Load(),
		BadDoorbells: s.badDoorbells.Load(), BadReceives: s.badReceives.Load(), RingFaults: s.ringFaults.Load(),
		CQOverruns: s.cqOverruns.Load(), Events: s.events.Load(), Registrations: s.regions.Load(),
		Resets: s.resets.Load(), Fatal: s.fatal.Load(), Faults: d.faults.Counts(),
	}
}

// tally counts what happens often, apart from the shared statistics, until the
// worker adds it to them.
type tally struct {
	some                                   bool
	txBytes, txPkts, rxBytes, rxPkts       uint64
	sendBytes, sendWRs, recvBytes          uint64
	recvWRs, readWRs, readBytes            uint64
	readRespBytes, writeWRs, writeBytes    uint64
	writeRecvBytes, duplicates, outOfOrder uint64
	rdmaPayload, messagePayload            payload
}

func (t *tally) add(c *counters) {
	if !t.some {
		return
	}
	put := func(a *atomic.Uint64, n uint64) {
		if n != 0 {
			a.Add(n)
		}
	}
	put(&c.txBytes, t.txBytes)
	put(&c.txPkts, t.txPkts)
	put(&c.rxBytes, t.rxBytes)
	put(&c.rxPkts, t.rxPkts)
	put(&c.sendBytes, t.sendBytes)
	put(&c.sendWRs, t.sendWRs)
	put(&c.recvBytes, t.recvBytes)
	put(&c.recvWRs, t.recvWRs)
	put(&c.readWRs, t.readWRs)
	put(&c.readBytes, t.readBytes)
	put(&c.readRespBytes, t.readRespBytes)
	put(&c.writeWRs, t.writeWRs)
	put(&c.writeBytes, t.writeBytes)
	put(&c.writeRecvBytes, t.writeRecvBytes)
	put(&c.duplicates, t.duplicates)
	put(&c.outOfOrder, t.outOfOrder)
	c.rdmaPayload.add(&t.rdmaPayload)
	c.messagePayload.add(&t.messagePayload)
	*t = tally{}
}
