package vfiouser

import (
	"encoding/binary"
	"fmt"
)

// Command is a message's command, as vfio-user.rst numbers them.
type Command uint16

const (
	CmdVersion        Command = 1
	CmdDMAMap         Command = 2
	CmdDMAUnmap       Command = 3
	CmdGetInfo        Command = 4
	CmdGetRegionInfo  Command = 5
	CmdGetRegionIOFDs Command = 6
	CmdGetIRQInfo     Command = 7
	CmdSetIRQs        Command = 8
	CmdRegionRead     Command = 9
	CmdRegionWrite    Command = 10
	CmdDMARead        Command = 11
	CmdDMAWrite       Command = 12
	CmdReset          Command = 13
	CmdWriteMulti     Command = 15
	CmdFeature        Command = 16
	CmdMigDataRead    Command = 17
	CmdMigDataWrite   Command = 18
)

var commandNames = map[Command]string{
	CmdVersion: "VERSION", CmdDMAMap: "DMA_MAP", CmdDMAUnmap: "DMA_UNMAP",
	CmdGetInfo: "DEVICE_GET_INFO", CmdGetRegionInfo: "DEVICE_GET_REGION_INFO",
	CmdGetRegionIOFDs: "DEVICE_GET_REGION_IO_FDS", CmdGetIRQInfo: "DEVICE_GET_IRQ_INFO",
	CmdSetIRQs: "DEVICE_SET_IRQS", CmdRegionRead: "REGION_READ", CmdRegionWrite: "REGION_WRITE",
	CmdDMARead: "DMA_READ", CmdDMAWrite: "DMA_WRITE", CmdReset: "DEVICE_RESET",
	CmdWriteMulti: "REGION_WRITE_MULTI", CmdFeature: "DEVICE_FEATURE",
	CmdMigDataRead: "MIG_DATA_READ", CmdMigDataWrite: "MIG_DATA_WRITE",
}

func (c Command) String() string {
	if name, ok := commandNames[c]; ok {
		return name
	}
	return fmt.Sprintf("command %d", uint16(c))
}

// Regions by VFIO's index for PCI devices (VFIO_PCI_*_REGION_INDEX); 0 to 5 are
// the base address registers.
const (
	RegionROM    = 6
	RegionConfig = 7
	RegionVGA    = 8

	numRegions = 9
)

// Interrupt types by VFIO's index for PCI devices (VFIO_PCI_*_IRQ_INDEX).
const (
	InterruptINTx = 0
	InterruptMSI  = 1
	InterruptMSIX = 2
	InterruptErr  = 3
	InterruptReq  = 4

	numInterrupts = 5
)

const (
	headerSize = 16

	// Flags of a header.
	flagType    = 0xf
	flagReply   = 1
	flagNoReply = 1 << 4
	flagError   = 1 << 5

	// pageSize is the granule of DMA maps, the only one offered.
	pageSize = 4096
	// maxTransfer is the most bytes of one region access, the protocol's
	// default.
	maxTransfer = 1 << 20
	// maxMaps is the most DMA maps at a time, the protocol's default.
	maxMaps = 65535
	// maxFDs is how many descriptors one message may carry. QEMU refuses a
	// server that offers more than 16.
	maxFDs = 16
	// maxMessage is the longest message: a REGION_WRITE of maxTransfer.
	maxMessage = headerSize + regionAccessSize + maxTransfer

	// Lengths of what follows the header, without variable parts.
	versionSize      = 4
	dmaMapSize       = 32
	dmaUnmapSize     = 24
	infoSize         = 16
	regionInfoSize   = 32
	irqInfoSize      = 16
	setIRQsSize      = 20
	regionAccessSize = 16
	multiCountSize   = 8
	multiWriteSize   = 24
	multiWriteData   = 8
)

// header is what every message begins with.
type header struct {
	id      uint16
	command Command
	size    uint32 // of the whole message
	flags   uint32
	errno   uint32
}

func (h *header) decode(b []byte) {
	h.id = binary.LittleEndian.Uint16(b)
	h.command = Command(binary.LittleEndian.Uint16(b[2:]))
	h.size = binary.LittleEndian.Uint32(b[4:])
	h.flags = binary.LittleEndian.Uint32(b[8:])
	h.errno = binary.LittleEndian.Uint32(b[12:])
}

func (h *header) encode(b []byte) {
	binary.LittleEndian.PutUint16(b, h.id)
	binary.LittleEndian.PutUint16(b[2:], uint16(h.command))
	binary.LittleEndian.PutUint32(b[4:], h.size)
	binary.LittleEndian.PutUint32(b[8:], h.flags)
	binary.LittleEndian.PutUint32(b[12:], h.errno)
}

// ProtocolError is a message after which the stream makes no sense any more, so
// that the connection ended. What a client merely asks for in vain it is told in
// the reply, and goes on.
type ProtocolError struct {
	Command Command // 0 if the message had none yet
	Reason  string
}

func (e *ProtocolError) Error() string {
	if e.Command == 0 {
		return "vfio-user: the client broke the protocol: " + e.Reason
	}
	return fmt.Sprintf("vfio-user: the client broke the protocol: %s: %s", e.Command, e.Reason)
}
