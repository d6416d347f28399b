package nldev

import (
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// The words below are the rdma tool's and the kernel's, so that what one reads
// here can be searched for. Their numbers are from include/rdma/ib_verbs.h,
// include/uapi/rdma/ib_user_verbs.h, ib_user_ioctl_verbs.h and rdma_user_cm.h,
// and drivers/infiniband/core/cma_priv.h, all of Linux 7.3.4.

// name gives the word for a number, or UNKNOWN with the number.
func name[T ~uint8 | ~uint32](words []string, n T) string {
	if uint64(n) < uint64(len(words)) && words[n] != "" {
		return words[n]
	}
	return "UNKNOWN(" + strconv.FormatUint(uint64(n), 10) + ")"
}

// names gives the words for the bits of a mask.
func names(words []string, mask uint64) []string {
	var set []string
	for bit := 0; mask != 0; bit, mask = bit+1, mask>>1 {
		if mask&1 != 0 {
			set = append(set, name(words, uint8(bit)))
		}
	}
	return set
}

// NodeType is what a device is in the fabric.
type NodeType uint8

// The node types, of rdma_netlink.h.
const (
	NodeCA          NodeType = abi.RDMA_NODE_IB_CA // a channel adapter: InfiniBand and RoCE
	NodeSwitch      NodeType = abi.RDMA_NODE_IB_SWITCH
	NodeRouter      NodeType = abi.RDMA_NODE_IB_ROUTER
	NodeRNIC        NodeType = abi.RDMA_NODE_RNIC // iWARP
	NodeUSNIC       NodeType = abi.RDMA_NODE_USNIC
	NodeUSNICUDP    NodeType = abi.RDMA_NODE_USNIC_UDP
	NodeUnspecified NodeType = abi.RDMA_NODE_UNSPECIFIED // EFA
)

func (t NodeType) String() string {
	return name([]string{1: "ca", "switch", "router", "rnic", "usnic", "usnic_udp", "unspecified"}, t)
}

// DriverID is a driver, and with it the user library that goes with it.
type DriverID uint32

// The words are the names of the drivers' user libraries in rdma-core, by enum
// rdma_driver_id.
func (d DriverID) String() string {
	return name([]string{"unknown", "mlx5", "mlx4", "cxgb3", "cxgb4", "mthca", "bnxt_re", "ocrdma", "nes", "irdma",
		"vmw_pvrdma", "qedr", "hns", "usnic", "rxe", "hfi1", "qib", "efa", "siw", "erdma", "mana", "ionic"}, d)
}

// DeviceType is the sort of a device that hangs on another.
type DeviceType uint8

// DeviceSMI is a device for subnet management only.
const DeviceSMI DeviceType = abi.RDMA_DEVICE_TYPE_SMI

func (t DeviceType) String() string { return name([]string{"none", "smi"}, t) }

// DeviceCaps are a device's abilities, bits IB_UVERBS_DEVICE_*.
type DeviceCaps uint64

// Names lists them in the order of their bits.
func (c DeviceCaps) Names() []string { return names(deviceCaps, uint64(c)) }

func (c DeviceCaps) String() string { return strings.Join(c.Names(), ",") }

// The names that ib_user_verbs.h of 7.3 lacks, such as LOCAL_DMA_LKEY, are of
// kernels before 6.1, which showed here what only kernel modules can use.
var deviceCaps = []string{
	0: "RESIZE_MAX_WR", "BAD_PKEY_CNTR", "BAD_QKEY_CNTR", "RAW_MULTI",
	4: "AUTO_PATH_MIG", "CHANGE_PHY_PORT", "UD_AV_PORT_ENFORCE", "CURR_QP_STATE_MOD",
	8: "SHUTDOWN_PORT", "INIT_TYPE", "PORT_ACTIVE_EVENT", "SYS_IMAGE_GUID",
	12: "RC_RNR_NAK_GEN", "SRQ_RESIZE", "N_NOTIFY_CQ", "LOCAL_DMA_LKEY",
	17: "MEM_WINDOW", "UD_IP_CSUM", "UD_TSO",
	20: "XRC", "MEM_MGT_EXTENSIONS", "BLOCK_MULTICAST_LOOPBACK", "MEM_WINDOW_TYPE_2A",
	24: "MEM_WINDOW_TYPE_2B", "RC_IP_CSUM", "RAW_IP_CSUM", "CROSS_CHANNEL",
	29: "MANAGED_FLOW_STEERING", "SIGNATURE_HANDOVER", "ON_DEMAND_PAGING",
	32: "SG_GAPS_REG", "VIRTUAL_FUNCTION", "RAW_SCATTER_FCS", "RDMA_NETDEV_OPA_VNIC",
	36: "PCI_WRITE_END_PADDING",
	38: "FLUSH_GLOBAL", "FLUSH_PERSISTENT",
	40: "ATOMIC_WRITE", "CC_DMA_BOUNCE",
}

// PortCaps are an InfiniBand port's abilities: the lower half is CapabilityMask
// of the InfiniBand Architecture's PortInfo, the upper half CapabilityMask2.
type PortCaps uint64

// Names lists them in the order of their bits.
func (c PortCaps) Names() []string { return names(portCaps, uint64(c)) }

func (c PortCaps) String() string { return strings.Join(c.Names(), ",") }

// The lower half is enum ib_uverbs_query_port_cap_flags without the ending SUP,
// the upper enum ib_port_capability_mask2_bits.
var portCaps = []string{
	1: "SM", "NOTICE", "TRAP",
	4: "OPT_IPD", "AUTO_MIGR", "SL_MAP", "MKEY_NVRAM",
	8: "PKEY_NVRAM", "LED_INFO", "SM_DISABLED", "SYS_IMAGE_GUID",
	12: "PKEY_SW_EXT_PORT_TRAP",
	14: "EXTENDED_SPEEDS",
	16: "CM", "SNMP_TUNNEL", "REINIT", "DEVICE_MGMT",
	20: "VENDOR_CLASS", "DR_NOTICE", "CAP_MASK_NOTICE", "BOOT_MGMT",
	24: "LINK_LATENCY", "CLIENT_REG", "IP_BASED_GIDS", "LINK_SPEED_WIDTH_TABLE",
	28: "VENDOR_SPECIFIC_MADS_TABLE", "MCAST_PKEY_TRAP_SUPPRESSION", "MCAST_FDB_TOP", "HIERARCHY_INFO",
	32: "SET_NODE_DESC", "EX_PORT_INFO_EX", "VIRT", "SWITCH_PORT_STATE_TABLE",
	36: "LINK_WIDTH_2X", "LINK_SPEED_HDR",
	42: "LINK_SPEED_NDR", "EXTENDED_SPEEDS2", "LINK_SPEED_XDR",
}

// PortState is the logical state of a port.
type PortState uint8

// The states that a port passes through as it comes up.
const (
	PortNop         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4 // traffic flows
	PortActiveDefer PortState = 5
)

func (s PortState) String() string {
	return name([]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}, s)
}

// PhysState is the state of a port's physical link.
type PhysState uint8

// The physical states of InfiniBand; Omni-Path adds numbers.
const (
	PhysSleep             PhysState = 1
	PhysPolling           PhysState = 2
	PhysDisabled          PhysState = 3
	PhysTraining          PhysState = 4
	PhysLinkUp            PhysState = 5
	PhysLinkErrorRecovery PhysState = 6
	PhysPhyTest           PhysState = 7
)

// The rdma tool calls state 4 ARMED; here it has the kernel's name.
func (s PhysState) String() string {
	return name([]string{0: "NOP", "SLEEP", "POLLING", "DISABLED", "PORT_CONFIGURATION_TRAINING", "LINK_UP",
		"LINK_ERROR_RECOVERY", "PHY_TEST", 9: "OPA_OFFLINE", 11: "OPA_TEST"}, s)
}

// QPType is the type of a queue pair.
type QPType uint8

// Queue pair types, enum ib_qp_type.
const (
	QPTypeSMI       QPType = 0
	QPTypeGSI       QPType = 1
	QPTypeRC        QPType = 2
	QPTypeUC        QPType = 3
	QPTypeUD        QPType = 4
	QPTypeRawPacket QPType = 8
	QPTypeXRCIni    QPType = 9
	QPTypeXRCTgt    QPType = 10
	QPTypeDriver    QPType = 255 // SRD of EFA is one
)

func (t QPType) String() string {
	if t == QPTypeDriver {
		return "DRIVER"
	}
	return name([]string{"SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "", "RAW_PACKET", "XRC_INI", "XRC_TGT"}, t)
}

// QPState is the state of a queue pair.
type QPState uint8

// Queue pair states, enum ib_qp_state.
const (
	QPStateReset QPState = 0
	QPStateInit  QPState = 1
	QPStateRTR   QPState = 2 // ready to receive
	QPStateRTS   QPState = 3 // ready to send
	QPStateSQD   QPState = 4 // send queue drained
	QPStateSQE   QPState = 5 // send queue in error
	QPStateError QPState = 6
)

func (s QPState) String() string {
	return name([]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, s)
}

// PathMigration is how far automatic path migration is.
type PathMigration uint8

func (m PathMigration) String() string { return name([]string{"MIGRATED", "REARM", "ARMED"}, m) }

// PollContext is where a kernel module's completion queue is polled. (The rdma
// tool, up to 6.15 at least, prints the word before the right one.)
type PollContext uint8

func (p PollContext) String() string {
	return name([]string{"SOFTIRQ", "WORKQUEUE", "UNBOUND_WORKQUEUE", "DIRECT"}, p)
}

// SRQType is the type of a shared receive queue.
type SRQType uint8

func (t SRQType) String() string { return name([]string{"BASIC", "XRC", "TM"}, t) }

// CMState is the state of a connection identifier.
type CMState uint8

func (s CMState) String() string {
	return name([]string{"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT", "DISCONNECT",
		"ADDR_BOUND", "LISTEN", "DEVICE_REMOVAL", "DESTROYING", "ADDRINFO_QUERY", "ADDRINFO_RESOLVED"}, s)
}

// PortSpace is the space that a connection identifier's port number is of.
type PortSpace uint32

func (p PortSpace) String() string {
	switch p {
	case 0x0002:
		return "IPoIB"
	case 0x013F:
		return "IB" // the rdma tool says IPoIB
	case 0x0106:
		return "TCP"
	case 0x0111:
		return "UDP"
	}
	return name[PortSpace](nil, p)
}

// CounterMode is how queue pairs come by counters of their own.
type CounterMode uint32

// The modes exclude each other.
const (
	CounterModeNone   CounterMode = abi.RDMA_COUNTER_MODE_NONE
	CounterModeAuto   CounterMode = abi.RDMA_COUNTER_MODE_AUTO   // by CounterCriteria
	CounterModeManual CounterMode = abi.RDMA_COUNTER_MODE_MANUAL // as told, one by one
)

func (m CounterMode) String() string { return name([]string{"none", "auto", "manual"}, m) }

// CounterCriteria is a mask of what queue pairs that share a counter have in
// common.
type CounterCriteria uint32

// The criteria of the automatic mode.
const (
	CounterByQPType CounterCriteria = abi.RDMA_COUNTER_MASK_QP_TYPE
	CounterByPID    CounterCriteria = abi.RDMA_COUNTER_MASK_PID
)

func (c CounterCriteria) String() string {
	return strings.Join(names([]string{"type", "pid"}, uint64(c)), ",")
}

// EventType is what has changed.
type EventType uint8

// Events, enum rdma_nl_notify_event_type. Linux 6.12 has no notification of
// names.
const (
	DeviceAdded    EventType = abi.RDMA_REGISTER_EVENT
	DeviceRemoved  EventType = abi.RDMA_UNREGISTER_EVENT
	NetdevAttached EventType = abi.RDMA_NETDEV_ATTACH_EVENT
	NetdevDetached EventType = abi.RDMA_NETDEV_DETACH_EVENT
	DeviceRenamed  EventType = abi.RDMA_RENAME_EVENT
	NetdevRenamed  EventType = abi.RDMA_NETDEV_RENAME_EVENT
)

func (t EventType) String() string {
	return name([]string{"REGISTER", "UNREGISTER", "NETDEV_ATTACH", "NETDEV_DETACH", "RENAME", "NETDEV_RENAME"}, t)
}
