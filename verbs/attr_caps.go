package verbs

import (
	"fmt"
)

// ODPCaps are what on-demand paging covers, by transport.
type ODPCaps struct {
	Supported       bool
	Implicit        bool // the whole address space in one region: RegisterOnDemand
	RC, UC, UD, XRC ODPOps
}

// ODPOps are operations that may fault pages in
// (enum ibv_odp_transport_cap_bits).
type ODPOps uint32

func (o ODPOps) String() string {
	return bitNames(uint64(o), []bitName{
		{1 << 0, "SEND"}, {1 << 1, "RECV"}, {1 << 2, "WRITE"}, {1 << 3, "READ"},
		{1 << 4, "ATOMIC"}, {1 << 5, "SRQ_RECV"}, {1 << 6, "FLUSH"}, {1 << 7, "ATOMIC_WRITE"},
	})
}

// QPTypes is a set of queue pair types: bit n for type n.
type QPTypes uint32

// Has tells whether the set has a type.
func (s QPTypes) Has(t QPType) bool { return t < 32 && s&(1<<t) != 0 }

func (s QPTypes) String() string {
	var names []bitName
	for _, t := range []QPType{TypeRC, TypeUC, TypeUD, TypeRawPacket, TypeXRCSend, TypeXRCRecv} {
		names = append(names, bitName{1 << t, t.String()})
	}
	return bitNames(uint64(s), names)
}

// TSOCaps describe segmentation by the device.
type TSOCaps struct {
	MaxPayload uint32 // bytes
	QPTypes    QPTypes
}

// RSSCaps describe the spreading of packets over work queues.
type RSSCaps struct {
	QPTypes       QPTypes
	MaxTables     uint32
	MaxTableSize  uint32
	HashFields    RXHashFields
	HashFunctions uint8 // 1 Toeplitz
}

// PacketPacingCaps are the limits of a queue pair's rate limit, in kbit/s.
type PacketPacingCaps struct {
	Min, Max uint32
	QPTypes  QPTypes
}

// RawPacketCaps are offloads of raw packet queue pairs
// (enum ibv_raw_packet_caps).
type RawPacketCaps uint32

func (c RawPacketCaps) String() string {
	return bitNames(uint64(c), []bitName{
		{1 << 0, "CVLAN_STRIPPING"}, {1 << 1, "SCATTER_FCS"}, {1 << 2, "IP_CSUM"}, {1 << 3, "DELAY_DROP"},
	})
}

// TagMatchingCaps are the limits of tag-matching shared receive queues.
type TagMatchingCaps struct {
	MaxRendezvousHeader uint32 // bytes
	MaxTags             uint32 // 0: no tag matching
	Flags               uint32 // 1 RC
	MaxOps              uint32
	MaxSGE              uint32
}

// AtomicCap is what the device's atomics are atomic with
// (enum ibv_atomic_cap).
type AtomicCap uint32

const (
	AtomicNone   AtomicCap = iota
	AtomicDevice           // other atomics of this device
	AtomicGlobal           // and the processor's
)

func (c AtomicCap) String() string {
	switch c {
	case AtomicNone:
		return "ATOMIC_NONE"
	case AtomicDevice:
		return "ATOMIC_HCA"
	case AtomicGlobal:
		return "ATOMIC_GLOB"
	}
	return fmt.Sprintf("atomic %d", uint32(c))
}

// DeviceCaps are capability bits (enum ibv_device_cap_flags, the flags above
// bit 31 of the extended query, and ib_user_verbs.h of the kernel).
type DeviceCaps uint64

const (
	CapResizeMaxWR      DeviceCaps = 1 << 0
	CapSRQResize        DeviceCaps = 1 << 13
	CapMemWindow        DeviceCaps = 1 << 17
	CapUDIPCsum         DeviceCaps = 1 << 18
	CapXRC              DeviceCaps = 1 << 20
	CapMemMgtExtensions DeviceCaps = 1 << 21
	CapMemWindow2A      DeviceCaps = 1 << 23
	CapMemWindow2B      DeviceCaps = 1 << 24
	CapRCIPCsum         DeviceCaps = 1 << 25
	CapRawIPCsum        DeviceCaps = 1 << 26
	CapFlowSteering     DeviceCaps = 1 << 29
	CapRawScatterFCS    DeviceCaps = 1 << 34
	CapPCIWriteEndPad   DeviceCaps = 1 << 36
	CapFlushGlobal      DeviceCaps = 1 << 38
	CapFlushPersistent  DeviceCaps = 1 << 39
	CapAtomicWrite      DeviceCaps = 1 << 40
	CapCCDMABounce      DeviceCaps = 1 << 41
)

var deviceCapNames = []bitName{
	{1 << 0, "RESIZE_MAX_WR"}, {1 << 1, "BAD_PKEY_CNTR"}, {1 << 2, "BAD_QKEY_CNTR"}, {1 << 3, "RAW_MULTI"},
	{1 << 4, "AUTO_PATH_MIG"}, {1 << 5, "CHANGE_PHY_PORT"}, {1 << 6, "UD_AV_PORT_ENFORCE"},
	{1 << 7, "CURR_QP_STATE_MOD"}, {1 << 8, "SHUTDOWN_PORT"}, {1 << 9, "INIT_TYPE"}, {1 << 10, "PORT_ACTIVE_EVENT"},
	{1 << 11, "SYS_IMAGE_GUID"}, {1 << 12, "RC_RNR_NAK_GEN"}, {1 << 13, "SRQ_RESIZE"}, {1 << 14, "N_NOTIFY_CQ"},
	{1 << 17, "MEM_WINDOW"}, {1 << 18, "UD_IP_CSUM"}, {1 << 20, "XRC"}, {1 << 21, "MEM_MGT_EXTENSIONS"},
	{1 << 23, "MEM_WINDOW_TYPE_2A"}, {1 << 24, "MEM_WINDOW_TYPE_2B"}, {1 << 25, "RC_IP_CSUM"},
	{1 << 26, "RAW_IP_CSUM"}, {1 << 29, "MANAGED_FLOW_STEERING"}, {1 << 34, "RAW_SCATTER_FCS"},
	{1 << 36, "PCI_WRITE_END_PADDING"}, {1 << 38, "FLUSH_GLOBAL"}, {1 << 39, "FLUSH_PERSISTENT"},
	{1 << 40, "ATOMIC_WRITE"}, {1 << 41, "CC_DMA_BOUNCE"},
}

func (c DeviceCaps) String() string { return bitNames(uint64(c), deviceCapNames) }

// Names lists the capabilities, unknown bits as one number.
func (c DeviceCaps) Names() []string { return bitList(uint64(c), deviceCapNames) }

// Has tells whether all of the bits are set.
func (c DeviceCaps) Has(bits DeviceCaps) bool { return c&bits == bits }
