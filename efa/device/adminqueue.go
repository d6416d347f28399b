package device

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// adminQueue is the queue of commands and the queue of their completions, both in
// host memory. A queue that makes no sense has depth 0 and is ignored.
type adminQueue struct {
	base      uint64
	depth     uint16
	entrySize int
	consumer  uint16
	phase     bool // of the next command

	compBase  uint64
	compDepth uint16
	compPhase bool // of the next completion
	producer  uint16
	vector    uint8
	pending   bool // an interrupt waits for the mask to go
	checksum  bool // completions have one
}

// setCommands is a write of AQ_CAPS, which comes after the base.
func (q *adminQueue) setCommands(base uint64, caps uint32, version uint16) {
	depth, size := wire.AQCapsDepth.Get(caps), wire.AQCapsEntrySize.Get(caps)
	q.depth, q.consumer, q.phase = 0, 0, true
	q.checksum = version >= wire.APIVersion02
	// The driver goes by the version register as to the size of commands, but
	// one that knows no version 0.3 keeps to the old size: so go by AQ_CAPS.
	if size != wire.SizeAQEntry && (size != wire.SizeAQEntryV2 || version < wire.APIVersion03) {
		return
	}
	if depth&(depth-1) == 0 {
		q.base, q.depth, q.entrySize = base, uint16(depth), int(size)
	}
}

// setCompletions is a write of ACQ_CAPS, which comes after the base.
func (q *adminQueue) setCompletions(base uint64, caps uint32) {
	depth := wire.ACQCapsDepth.Get(caps)
	q.compDepth, q.producer, q.compPhase = 0, 0, true
	if depth&(depth-1) == 0 && wire.ACQCapsEntrySize.Get(caps) == wire.SizeACQEntry {
		q.compBase, q.compDepth = base, uint16(depth)
		q.vector = uint8(wire.ACQCapsMSIXVector.Get(caps))
	}
}

// runCommands carries out all commands up to a producer count, which is what the
// doorbell brings, modulo 2^16. A command is new if its phase says so too: a
// doorbell beyond the last one does not run old entries again.
func (f *Function) runCommands(producer uint16) {
	q := &f.aq
	if q.depth == 0 || q.compDepth == 0 || f.faults.lost.Load() {
		return
	}
	for n := min(producer-q.consumer, q.depth); n > 0; n-- {
		var entry [wire.SizeAQEntryV2]byte
		at := q.base + uint64(q.consumer&(q.depth-1))*uint64(q.entrySize)
		if !fetch(f.opts.Memory, at, entry[:q.entrySize]) {
			return
		}
		var desc wire.AQDesc
		desc.Decode(entry[:])
		if desc.Phase() != q.phase {
			return
		}
		q.consumer++
		if q.consumer&(q.depth-1) == 0 {
			q.phase = !q.phase
		}
		f.runCommand(desc, entry[:q.entrySize])
	}
}

// runCommand carries out one command and completes it.
func (f *Function) runCommand(desc wire.AQDesc, entry []byte) {
	var comp [wire.SizeACQEntry]byte
	fault := f.faults.take(desc.Opcode)
	var err error
	switch {
	case fault != nil && fault.Status != 0:
		err = &StatusError{desc.Opcode.String(), fault.Status, "a fault was injected"}
	case len(entry) == wire.SizeAQEntryV2 && !wire.ChecksumOK(entry):
		err = malformed(desc.Opcode, "the command's checksum is wrong")
	default:
		err = f.execute(desc, wire.AQPayload(entry), comp[wire.PayloadACQ:])
	}
	if err != nil {
		clear(comp[:])
	}
	status := adminStatus(err)
	if f.opts.Trace != nil {
		f.opts.Trace(AdminTrace{Op: desc.Opcode, ID: desc.CommandID, Payload: wire.AQPayload(entry), Err: err, Fault: fault, Status: status})
	}
	if fault == nil {
		fault = &AdminFault{}
	}
	if !fault.NoCompletion {
		f.complete(desc, status, &comp, fault)
	}
}

// complete writes a completion and raises the interrupt.
func (f *Function) complete(desc wire.AQDesc, status wire.AdminStatus, comp *[wire.SizeACQEntry]byte, fault *AdminFault) {
	q := &f.aq
	d := wire.ACQDesc{CommandID: desc.CommandID, Status: status}
	if q.compPhase {
		d.Flags |= wire.ACQPhase
	}
	d.Encode(comp[:])
	if q.checksum {
		wire.SealChecksum(comp[:])
		if fault.BadChecksum {
			comp[4] ^= 0xff
		}
	}
	publish(f.opts.Memory, q.compBase+uint64(q.producer&(q.compDepth-1))*wire.SizeACQEntry, comp[:])
	q.producer++
	if q.producer&(q.compDepth-1) == 0 {
		q.compPhase = !q.compPhase
	}
	switch {
	case fault.NoInterrupt:
	case f.regs.intrMask&uint32(wire.IntrMaskEnable) != 0:
		q.pending = true
	default:
		f.interrupt(q.vector)
	}
}

// adminStatus is the status that tells of an error.
func adminStatus(err error) wire.AdminStatus {
	if err == nil {
		return wire.AdminSuccess
	}
	if refused := (*StatusError)(nil); errors.As(err, &refused) {
		return refused.Status
	}
	return wire.AdminUnknownError
}

// fetch reads memory at a DMA address; false if not all of it is mapped.
func fetch(m Memory, addr uint64, p []byte) bool {
	m.Lock()
	defer m.Unlock()
	return fetchHeld(m, addr, p)
}

// fetchHeld is fetch under a hold that the caller has.
func fetchHeld(m Memory, addr uint64, p []byte) bool {
	for len(p) > 0 {
		n := copy(p, m.Bytes(addr, len(p)))
		if n == 0 {
			return false
		}
		p, addr = p[n:], addr+uint64(n)
	}
	return true
}

// publish writes an entry to memory, its first word, which has what the driver
// looks for, after all the rest.
func publish(m Memory, addr uint64, entry []byte) { publishAt(m, addr, entry, 0) }

// publishAt is publish where the word to be written last lies at an offset. What is
// not mapped is lost, like a write on a bus that nobody answers.
func publishAt(m Memory, addr uint64, entry []byte, word int) {
	m.Lock()
	defer m.Unlock()
	if !store(m, addr, entry[:word]) || !store(m, addr+uint64(word)+4, entry[word+4:]) {
		return
	}
	last := m.Bytes(addr+uint64(word), 4)
	if len(last) < 4 {
		return
	}
	if addr%4 != 0 {
		// No driver does so, but a guest may.
		copy(last, entry[word:word+4])
		return
	}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(last))), binary.LittleEndian.Uint32(entry[word:]))
}

// store writes to memory; false if not all of it is mapped. The memory is held.
func store(m Memory, addr uint64, p []byte) bool {
	for len(p) > 0 {
		n := copy(m.Bytes(addr, len(p)), p)
		if n == 0 {
			return false
		}
		p, addr = p[n:], addr+uint64(n)
	}
	return true
}
